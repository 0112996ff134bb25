"""How much longer does `from ap_ranker import APRanker` take than `import haystack`, before any model is loaded?

python -m benchmarks.import_time --rounds 10

Processor time, as in cold_start.py; the imports alternate, and the medians are compared. With numba or SciPy installed,
as for development, a library may load them: an installation without extras is what counts.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ap_ranker.cli.errors import report_user_errors
from benchmarks.cold_start import processor_seconds

HAYSTACK, OURS = "import haystack", "from ap_ranker import APRanker"


def main(rounds: Annotated[int, typer.Option(min=1, help="Number of imports of each.")] = 10) -> None:
    """Print the medians of both imports, and their ratio."""
    seconds: dict[str, list[float]] = {HAYSTACK: [], OURS: []}
    with TemporaryDirectory() as cache:
        for code in (HAYSTACK, OURS):
            processor_seconds(["-c", code], Path.cwd(), cache)  # from now on, the files are in memory
        for _ in range(rounds):
            for code, found in seconds.items():
                found.append(processor_seconds(["-c", code], Path.cwd(), cache))
    for code, found in seconds.items():
        typer.echo(f"{code}: {median(found):.2f} s, from {min(found):.2f} to {max(found):.2f}")
    typer.echo(f"Ratio: {median(seconds[OURS]) / median(seconds[HAYSTACK]):.2f}")


if __name__ == "__main__":
    with report_user_errors():
        typer.run(main)
