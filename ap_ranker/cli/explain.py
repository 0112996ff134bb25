"""`ap-ranker explain`: shows the attention between a question and an answer as a page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import console
from ap_ranker.cli.options import Device


def explain(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint folder or a hub name, of a model with attention.")],
    question: Annotated[str, typer.Option(help="The user's question.")],
    answer: Annotated[str, typer.Option(help="The text that the question is matched with.")],
    output: Annotated[
        Path, typer.Option(help="The file to write: a page (.html) or a picture (.png; needs the extra plot).")
    ],
    device: Device = "auto",
) -> None:
    """Show how much each word of a question and an answer contributes to the score."""
    from ap_ranker.evaluation.explanation_page import write_explanation

    model, explanation = write_explanation(checkpoint, question, answer, output, device)
    console.say(f"Wrote {output}: {model}, score {explanation.score:.3f}.")
