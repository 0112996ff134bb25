"""`ap-ranker pipelines`: writes the packaged pipelines, to be adapted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import console
from ap_ranker.cli.options import Overwrite


def pipelines(
    output: Annotated[Path, typer.Option(help="The folder to write.")],
    overwrite: Overwrite = False,
) -> None:
    """Write the Haystack pipelines of ap-ranker, in YAML, to be adapted and named with --pipeline."""
    from ap_ranker.search.default_pipelines import write_pipelines

    for path, purpose in write_pipelines(output, overwrite=overwrite).items():
        console.say(f"{path}: {purpose}")
