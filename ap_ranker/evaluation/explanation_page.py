"""Explanations as a page: both texts, with the words highlighted by their attention weights."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ap_ranker.files import check_output, html_text, write_text_atomically
from ap_ranker.ranking.explanation import Explanation, pieces
from ap_ranker.ranking.ranker import Ranker


def write_explanation(
    checkpoint: str | Path, question: str, answer: str, output: Path, device: str | None = None
) -> tuple[str, Explanation]:
    """Write the attention weights of two texts' words as a page of HTML; returns the model's name, too.

    InputError if the output cannot be written, the checkpoint cannot be loaded, or its model has no attention.
    """
    check_output(output, ".html")
    ranker = Ranker.from_pretrained(checkpoint, device)
    explanation = ranker.explain(question, answer)
    model = ranker.name
    write_text_atomically(output, page(explanation, question, answer, model), private=True)  # perhaps a visitor's
    return model, explanation


def page(explanation: Explanation, question: str, answer: str, model: str) -> str:
    """A self-contained HTML page with the explanation of these two texts by the model of this name."""
    sides = []
    for title, text, tokens in (("Question", question, explanation.question), ("Answer", answer, explanation.answer)):
        has_weights = any(token.weight is not None for token in tokens)
        sides.append((title, text, pieces(tokens), has_weights))
    template = (files("ap_ranker.evaluation") / "explanation.html").read_text("utf-8")
    return html_text(template, {"title": f"{model}, score {explanation.score:.3f}", "sides": sides})
