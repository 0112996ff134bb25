"""Which answers must not count as wrong: an answer that nobody marked for a question may be right all the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.text.near_copies import near_pairs
from ap_ranker.text.reading import normalized


def right_answers(questions: Sequence[Question]) -> list[frozenset[int]]:
    """(Q,) the right answers of each question and of equal questions, ignoring case and white space."""
    by_text: dict[str, set[int]] = defaultdict(set)
    for question in questions:
        by_text[normalized(question.text)].update(question.positives)
    return [frozenset(by_text[normalized(question.text)]) for question in questions]


def with_copies(groups: Iterable[frozenset[int]], answers: Sequence[Answer]) -> list[frozenset[int]]:
    """Extend each group of answers by all answers with equal or near texts: near-duplicates count as one answer."""
    texts = [normalized(answer.text) for answer in answers]
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(texts):
        rows_of[text].append(row)
    distinct = list(rows_of)
    near = {text: [text] for text in distinct}
    for i, j in near_pairs(distinct):
        near[distinct[i]].append(distinct[j])
        near[distinct[j]].append(distinct[i])
    return [frozenset(copy for row in group for text in near[texts[row]] for copy in rows_of[text]) for group in groups]


def not_wrong(dataset: Dataset) -> list[frozenset[int]]:
    """(Q,) answers that must not count as wrong: right ones of the question and of equal ones, and near-copies."""
    return with_copies(right_answers(dataset.questions), dataset.answers)
