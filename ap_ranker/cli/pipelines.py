"""`ap-ranker pipelines`: writes the packaged pipelines, to be adapted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import Console

console = Console(soft_wrap=True)


def pipelines(
    output: Annotated[Path, typer.Option(help="The folder to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of the same names.")] = False,
) -> None:
    """Write the Haystack pipelines of ap-ranker, in YAML, to be adapted and named with --pipeline."""
    from ap_ranker.search.default_pipelines import write_pipelines

    for path, purpose in write_pipelines(output, overwrite=overwrite).items():
        console.print(f"{path}: {purpose}", markup=False, highlight=False)
