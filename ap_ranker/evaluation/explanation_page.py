"""Explanations as a page: both texts, with the words highlighted by their attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from ap_ranker.errors import InputError
from ap_ranker.files import write_text_atomically
from ap_ranker.ranking.explanation import Explanation, Token, pieces
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.safe_open import require_ending


def write_explanation(
    checkpoint: str | Path, question: str, answer: str, output: Path, device: str | None = None
) -> tuple[str, Explanation]:
    """Write the attention weights of two texts' words as a page of HTML; returns the model's name, too.

    InputError if the output cannot be written, the checkpoint cannot be loaded, or its model has no attention.
    """
    require_ending(output, ".html")
    if not output.parent.is_dir():
        raise InputError(f"{output}: expected an existing folder, found no {str(output.parent)!r}.")
    ranker = Ranker.from_pretrained(checkpoint, device)
    explanation, model = ranker.explain(question, answer), ranker.name
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
