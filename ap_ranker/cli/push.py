"""`ap-ranker push`: uploads a checkpoint to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import console


def push(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint folder.")],
    repo: Annotated[str, typer.Argument(help="NAMESPACE/NAME on the hub; created if it does not exist.")],
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
) -> None:
    """Upload a checkpoint to the Hugging Face hub, with the token of HF_TOKEN or `hf auth login`."""
    from ap_ranker.ranking.hub import FILES
    from ap_ranker.ranking.hub import push as run

    page = run(checkpoint, repo, private=private)
    console.say(f"Pushed {', '.join(FILES)} of {checkpoint} to {page}.")
