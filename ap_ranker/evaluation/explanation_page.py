"""Explanations as a page or a picture: both texts, with the words highlighted by their attention weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from unicodedata import east_asian_width

from ap_ranker.errors import InputError
from ap_ranker.evaluation.plots import check_plotting, save_figure
from ap_ranker.files import write_text_atomically
from ap_ranker.ranking.explanation import Explanation, Token, pieces
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.safe_open import require_ending

COLUMNS, CHARACTER, LINE = 84, 0.0845, 0.3
"""Characters per line of a picture; width of a character at 10 points and height of a line, in inches."""


def write_explanation(
    checkpoint: str | Path, question: str, answer: str, output: Path, device: str | None = None
) -> tuple[str, Explanation]:
    """Write the attention weights of two texts' words as a page (`.html`) or a picture (`.png`); the model's name, too.

    InputError if the output cannot be written, the checkpoint cannot be loaded, or its model has no attention.
    """
    require_ending(output, ".html", ".png")
    picture = output.suffix.lower() == ".png"
    if not output.parent.is_dir():
        raise InputError(f"{output}: expected an existing folder, found no {str(output.parent)!r}.")
    if picture:
        check_plotting()
    ranker = Ranker.from_pretrained(checkpoint, device)
    explanation, model = ranker.explain(question, answer), ranker.name
    if picture:
        _draw(explanation, question, answer, model, output)
    else:
        write_text_atomically(output, page(explanation, question, answer, model))
    return model, explanation


def page(explanation: Explanation, question: str, answer: str, model: str) -> str:
    """A self-contained HTML page with the explanation of these two texts by the model of this name."""
    texts = ""
    for name, text, tokens in (("Question", question, explanation.question), ("Answer", answer, explanation.answer)):
        unweighted = all(token.weight is None for token in tokens)
        note = '<p class="quiet">The model has no attention weights for these words.</p>\n' if unweighted else ""
        texts += f"<section>\n<h1>{name}</h1>\n<p>{_marked(text, tokens)}</p>\n{note}</section>\n"
    template = Template((files("ap_ranker.evaluation") / "explanation.html").read_text("utf-8"))
    return template.substitute(title=escape(f"{model}, score {explanation.score:.3f}"), texts=texts)


def _marked(text: str, tokens: Sequence[Token]) -> str:
    marked, last = "", 0
    for start, end, heat in pieces(tokens):
        marked += f'{escape(text[last:start])}<b style="--w:{heat:.3f}">{escape(text[start:end])}</b>'
        last = end
    rest = escape(text[last:])
    return marked + (f'<span class="quiet">{rest}</span>' if rest.strip() else rest)


def _draw(explanation: Explanation, question: str, answer: str, model: str, path: Path) -> None:
    """Draw both texts as heat maps (dos Santos et al. 2016); what the font lacks, as Chinese characters, are boxes."""
    from matplotlib.figure import Figure

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
        save_figure(figure, path)


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
