"""What a peer learns from, and the dev questions that choose its epoch: its wrong answers are the hardest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Protocol

import numpy as np

from ap_ranker.data.dataset import Dataset, Question, answerable
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.training.wrong_answers import HardAnswers, not_wrong

RERANKED = 20
"""Number of hard answers that a cross-encoder reads with a dev question: to read all takes a second for each."""


class TextVectors(Protocol):
    """Gives texts vectors of length 1."""

    def answers(self, texts: Sequence[str]) -> np.ndarray:
        """(N, H) of answers."""

    def questions(self, texts: Sequence[str]) -> np.ndarray:
        """(N, H) of questions."""


@dataclass(frozen=True)
class Lesson:
    """A question, one of its right answers, and wrong ones: as many in all lessons of a run."""

    question: str
    right: str
    wrong: tuple[str, ...]


def lessons_of(data: Dataset, encoder: TextVectors, most_wrong: int, language: str | None = None) -> list[Lesson]:
    """A lesson for each question and right answer, with up to `most_wrong` wrong answers.

    These were judged wrong for the question, the hardest first; where there are too few, other answers follow that BM25
    and the `encoder` find, but no copy of a right one. Of a small FAQ some may be repeated, so that all lessons have as
    many. InputError if no answer is wrong.
    """
    asked = replace(data, questions=answerable(data))
    texts = data.answer_texts
    wrong_rows: list[list[int]] = [[] for _ in asked.questions]
    if most_wrong:
        hard = HardAnswers(texts, encoder.answers(texts), language)
        vectors = encoder.questions(asked.question_texts)
        columns = zip(asked.questions, vectors, not_wrong(asked), strict=True)
        for place, (question, vector, unsure) in enumerate(columns):
            rows = _hardest(hard, question, vector, judged=data.judged)
            wrong_rows[place] = [row for row in rows if row not in unsure][:most_wrong]
        if not any(wrong_rows):
            raise InputError(f"{data.name}: expected answers that are wrong for a question, found right ones alone.")
    width = max(map(len, wrong_rows))
    lessons: list[Lesson] = []
    for question, rows in zip(asked.questions, wrong_rows, strict=True):
        if width and not rows:
            continue  # there is nothing to tell its right answers from
        wrong = tuple(texts[row] for row in islice(cycle(rows), width))
        for row in question.positives:
            lessons.append(Lesson(question.text, texts[row], wrong))
    return lessons


def _hardest(hard: HardAnswers, question: Question, vector: np.ndarray, *, judged: bool) -> list[int]:
    """Those that were judged wrong come first."""
    rows: list[int] = []
    if judged:
        rows = hard.hardest(question.text, vector, question.negatives)
    rows += hard.hardest(question.text, vector)
    return list(dict.fromkeys(rows))


def hard_candidates(asked: EvaluationSet, encoder: TextVectors) -> list[list[int]]:
    """All candidates of each question, the hardest first."""
    texts = asked.dataset.answer_texts
    hard = HardAnswers(texts, encoder.answers(texts), asked.language)
    vectors = encoder.questions(asked.question_texts)
    candidates: list[list[int]] = []
    for question, vector, pool in zip(asked.questions, vectors, asked.pools, strict=True):
        candidates.append(hard.hardest(question.text, vector, pool))
    return candidates


def with_hard_candidates(asked: EvaluationSet, encoder: TextVectors) -> EvaluationSet:
    """The same questions, each with its right answers and its `RERANKED` hardest candidates alone."""
    questions: list[Question] = []
    for question, hardest in zip(asked.questions, hard_candidates(asked, encoder), strict=True):
        right = [row for row in question.positives if row in hardest]
        candidates = tuple(dict.fromkeys([*right, *hardest[:RERANKED]]))
        questions.append(replace(question, candidates=candidates, labels=()))
    return EvaluationSet(replace(asked.dataset, questions=questions), as_new=asked.as_new, language=asked.language)
