"""The attention weights of a question's and an answer's words as a picture; `ap-ranker explain` shows them on a page.

python examples/pictures/heat_map.py CHECKPOINT --question "Where is it?" --answer "Open the link." --output map.png
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from unicodedata import east_asian_width

import typer
from matplotlib.figure import Figure

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.files import atomic_file
from ap_ranker.ranking.explanation import Explanation, Token, pieces
from ap_ranker.ranking.ranker import Ranker

COLUMNS, CHARACTER, LINE = 84, 0.0845, 0.3
"""Characters per line of a picture; width of a character at 10 points and height of a line, in inches."""


def command(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint folder or a hub name, of a model with attention.")],
    question: Annotated[str, typer.Option(help="The user's question.")],
    answer: Annotated[str, typer.Option(help="The text that the question is matched with.")],
    output: Annotated[Path, typer.Option(help="The PNG file to write.")],
) -> None:
    """Draw how much each word of a question and an answer contributes to the score."""
    ranker = Ranker.from_pretrained(checkpoint)
    draw(ranker.explain(question, answer), question, answer, ranker.name, output)


def draw(explanation: Explanation, question: str, answer: str, model: str, path: Path) -> None:
    """Draw both texts as heat maps (dos Santos et al. 2016); what the font lacks, as Chinese characters, are boxes."""
    sides = {"question": _lines(question, explanation.question), "answer": _lines(answer, explanation.answer)}
    heights = [LINE * (max(len(lines), 1) + 1) for lines in sides.values()]
    figure = Figure(figsize=(COLUMNS * CHARACTER + 0.4, sum(heights) + 0.6), layout="constrained")
    both = figure.subplots(2, 1, height_ratios=heights)
    for axes, (name, lines) in zip(both, sides.items(), strict=True):
        axes.set_title(name, loc="left", fontsize=10)
        axes.set(xlim=(0, COLUMNS), ylim=(max(len(lines), 1) - 0.4, -0.6))
        axes.set_axis_off()
        for row, line in enumerate(lines):
            for column, text, heat in line:
                box = {"facecolor": (1, 0.35, 0, 0.9 * heat**2), "edgecolor": "none", "pad": 1.5}
                axes.text(column, row, text, family="monospace", fontsize=10, va="center", bbox=box, parse_math=False)
    figure.suptitle(f"{model}, score {explanation.score:.3f}", fontsize=10)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # one for each such character
        with atomic_file(path) as draft:
            figure.savefig(draft, format="png", dpi=150)


def _lines(whole: str, tokens: Sequence[Token]) -> list[list[tuple[int, str, float]]]:
    """The (column, text, heat) of each token, in lines of COLUMNS characters."""
    lines: list[list[tuple[int, str, float]]] = []
    column = last = 0
    for start, end, heat in pieces(tokens):
        text = " ".join(whole[start:end].split())  # a phrase may contain a line break
        width = sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
        column += start > last
        if not lines or column + width > COLUMNS:
            lines.append([])
            column = 0
        lines[-1].append((column, text, heat))
        column, last = column + width, end
    return lines


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
