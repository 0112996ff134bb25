"""Adds each sentence of an answer as a question for that answer."""

from __future__ import annotations

import re
from dataclasses import replace

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.text.near import near_any

_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def with_answer_sentences(data: Dataset) -> Dataset:
    """Add a question for each sentence of the right answers that have several sentences."""
    right = dict.fromkeys(row for question in data.questions for row in question.positives)
    existing = {question.text.casefold() for question in data.questions}
    added = [
        Question(f"sentence-{row}-{i}", sentence, (row,))
        for row in right
        for i, sentence in enumerate(_sentences(data.answers[row].text))
        if sentence.casefold() not in existing
    ]
    if data.withheld:  # an answer's text may include its stored question
        withheld = near_any({question.text for question in added}, data.withheld)
        added = [question for question in added if question.text not in withheld]
    return replace(data, questions=[*data.questions, *added])


def _sentences(text: str) -> list[str]:
    sentences = [sentence.strip() for sentence in _END.split(text) if sentence.strip()]
    return sentences if len(sentences) > 1 else []
