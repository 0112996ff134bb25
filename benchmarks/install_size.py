"""How much do the core and the extras take on the disk, beside torch?

python -m benchmarks.install_size            # the core, and the core with `train`, as it was before that extra
python -m benchmarks.install_size train serve

Sizes are those of the installed distributions that an installation needs, by their metadata; files of compiled Python
do not count, which some installers write and others do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated

import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.errors import InputError
from ap_ranker.evaluation.markdown import markdown_table


def needed(requirement: str) -> dict[str, Distribution]:
    """What a requirement such as `ap-ranker[serve]` installs here: name -> distribution, its own included.

    Raises:
        InputError: one of them is not installed.
    """
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()  # each with no extra or one
    waiting = [Requirement(requirement)]
    while waiting:
        asked = waiting.pop()
        name = canonicalize_name(asked.name)
        for extra in {"", *asked.extras} - {known for other, known in done if other == name}:
            done.add((name, extra))
            try:
                found[name] = distribution(name)
            except PackageNotFoundError as error:
                raise InputError(f"{requirement}: expected {name} to be installed, found no such package.") from error
            for line in found[name].requires or ():
                wanted = Requirement(line)
                if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                    waiting.append(wanted)
    return found


def megabytes(distributions: Iterable[Distribution]) -> float:
    """Their size on the disk, in millions of bytes."""
    paths = (Path(str(one.locate_file(file))) for one in distributions for file in one.files or ())
    return sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.is_file()) / 1e6


def main(
    extras: Annotated[list[str] | None, typer.Argument(help="Extras, each for a row of its own.")] = None,
) -> None:
    """Print a table of sizes beside torch and what torch needs, each also as a share of the core with `train`."""
    torch = needed("torch")
    before = _beside(torch, "ap-ranker[train]")
    rows = {"core": _beside(torch, "ap-ranker")} | {
        f"core, {extra}": _beside(torch, f"ap-ranker[{extra}]") for extra in extras or ["train"]
    }
    cells = [[name, f"{size:.0f}", f"{size / before:.0%}"] for name, size in rows.items()]
    typer.echo(markdown_table(["", "MB beside torch", "of core and train"], cells))
    typer.echo(f"Torch and what it needs: {megabytes(torch.values()):.0f} MB.")
    for size, name in sorted(((megabytes([one]), name) for name, one in needed("ap-ranker").items()), reverse=True)[:9]:
        typer.echo(f"{size:8.1f} MB {name}")


def _beside(torch: dict[str, Distribution], requirement: str) -> float:
    return megabytes(one for name, one in needed(requirement).items() if name not in torch)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(main)
