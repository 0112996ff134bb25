"""Scores of a model for many questions, encoding each answer once and keeping few of them in memory."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.models.base import States
from ap_ranker.ranking.ranker import BATCH_SIZE, Ranker


@dataclass(frozen=True)
class CandidateScores:
    """Scores of each question's candidates, and what they cost.

    Attributes:
        by_question: per question, one score per candidate, in the candidates' order.
        encode_seconds: to encode all answers, once.
        question_seconds: to encode all questions and match them with their candidates.
    """

    by_question: list[np.ndarray]
    encode_seconds: float
    question_seconds: float


@torch.inference_mode()
def score_candidates(
    ranker: Ranker,
    dataset: Dataset,
    questions: Sequence[Question],
    candidates: Sequence[Sequence[int]],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> CandidateScores:
    """Score each question's candidates.

    The loop runs over batches of answers, not over the questions: answers are encoded, matched with every question that
    has them as candidates, and forgotten. So the memory needed does not grow with the number of answers.
    `on_progress` is told how many answers of how many are done.
    """
    started = time.perf_counter()
    question_states = _encode_questions(ranker, [question.text for question in questions])
    wanted: dict[int, list[tuple[int, int]]] = defaultdict(list)  # answer -> (question, place among its candidates)
    for number, rows in enumerate(candidates):
        for place, row in enumerate(rows):
            wanted[row].append((number, place))
    scores = [np.zeros(len(rows)) for rows in candidates]
    question_seconds = time.perf_counter() - started

    started, matching = time.perf_counter(), 0.0
    order, done = list(wanted), 0
    on_progress(0, len(order))
    for batch, states in ranker.answer_states([dataset.answers[row].text for row in order]):
        begun = time.perf_counter()
        pairs = [(number, column, place) for column, row in enumerate(batch) for number, place in wanted[order[row]]]
        numbers, columns, places = zip(*pairs, strict=True)
        found = ranker.model.match_pairs(question_states, states, torch.tensor(numbers), torch.tensor(columns))
        for number, place, score in zip(numbers, places, found.float().tolist(), strict=True):
            scores[number][place] = score
        matching += time.perf_counter() - begun
        done += len(batch)
        on_progress(done, len(order))
    return CandidateScores(scores, time.perf_counter() - started - matching, question_seconds + matching)


def _encode_questions(ranker: Ranker, texts: Sequence[str]) -> States:
    return States.stack([ranker.encode_questions(texts[i : i + BATCH_SIZE]) for i in range(0, len(texts), BATCH_SIZE)])
