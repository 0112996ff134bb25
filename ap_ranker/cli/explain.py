"""`ap-ranker explain`: why an answer was chosen, as a page or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ap_ranker.cli.console import Console
from ap_ranker.cli.options import Device
from ap_ranker.errors import InputError
from ap_ranker.files import write_text_atomically

console = Console(soft_wrap=True)


def explain(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint folder or a hub name, of a model with attention.")],
    question: Annotated[str, typer.Option(help="What a user asks.")],
    answer: Annotated[str, typer.Option(help="The text that the question is matched with.")],
    output: Annotated[Path, typer.Option(help="A page to write (.html), or a picture (.png; needs the extra plot).")],
    device: Device = "auto",
) -> None:
    """Show how much each word of a question and of an answer counted for the answer's score."""
    from ap_ranker.cli.plot import check_plotting, plot_explanation

    if output.suffix not in (".html", ".png"):
        raise InputError(f"Expected --output to end in .html (a page) or .png (a picture), found {str(output)!r}.")
    if not output.parent.is_dir():
        raise InputError(f"{output}: expected an existing folder, found no {str(output.parent)!r}.")
    if output.suffix == ".png":
        check_plotting()
    from ap_ranker.cli.heat_map import page  # after the checks: torch takes seconds to load
    from ap_ranker.ranking.ranker import Ranker

    ranker = Ranker.from_pretrained(checkpoint, device)
    assert ranker.config is not None
    explanation = ranker.explain(question, answer)
    if output.suffix == ".png":
        plot_explanation(explanation, question, answer, ranker.config.model, output)
    else:
        write_text_atomically(output, page(explanation, question, answer, ranker.config.model))
    console.print(
        f"Wrote {escape(str(output))}: {ranker.config.model}, score {explanation.score:.3f}.", highlight=False
    )
