"""Scores the candidates of many questions: each answer is encoded once, with few in memory at a time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.models.base import States
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.ranker import BATCH_SIZE, Ranker


@dataclass(frozen=True)
class CandidateScores:
    """Scores of each question's candidates, and the times taken.

    Attributes:
        by_question: one array per question, with a score per candidate in the candidates' order.
        encode_seconds: time to encode all answers once.
        question_seconds: time to encode all questions and match them with their candidates.
        bytes_per_answer: of the states kept of an answer, without padding; mean over the answers.
    """

    by_question: list[np.ndarray]
    encode_seconds: float
    question_seconds: float
    bytes_per_answer: float = 0.0


@torch.inference_mode()
def score_candidates(
    ranker: Ranker,
    dataset: Dataset,
    questions: Sequence[Question],
    candidates: Sequence[Sequence[int]],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> CandidateScores:
    """Score each question's candidates.

    The loop runs over batches of answers, not over questions: answers are encoded, matched with every question that
    has them as candidates, and dropped. So memory does not grow with the number of answers.

    Args:
        ranker: the model.
        dataset: holds the answers.
        questions: to score candidates for.
        candidates: the candidates of each question, as rows of `dataset.answers`.
        on_progress: called with the number of answers done and their total.
    """
    started = time.perf_counter()
    texts = [question.text for question in questions]
    batches = [texts[i : i + BATCH_SIZE] for i in range(0, len(texts), BATCH_SIZE)]
    question_states = States.stack([ranker.encode_questions(batch) for batch in batches])
    uses: dict[int, list[tuple[int, int]]] = defaultdict(list)  # answer -> (question, position among its candidates)
    for question, rows in enumerate(candidates):
        for position, row in enumerate(rows):
            uses[row].append((question, position))
    scores = [np.zeros(len(rows)) for rows in candidates]
    question_seconds = time.perf_counter() - started

    started, matching, n_bytes = time.perf_counter(), 0.0, 0
    order, done = list(uses), 0
    on_progress(0, len(order))
    for batch, states in ranker.answer_states([dataset.answers[row].text for row in order]):
        match_started = time.perf_counter()
        pairs = [(q, column, position) for column, row in enumerate(batch) for q, position in uses[order[row]]]
        rows, columns, positions = zip(*pairs, strict=True)
        matched = ranker.model.match_pairs(question_states, states, torch.tensor(rows), torch.tensor(columns))
        for question, position, score in zip(rows, positions, matched.float().tolist(), strict=True):
            scores[question][position] = score
        matching += time.perf_counter() - match_started
        n_bytes += QuantizedStates.quantize(states, StateDtype.float32).nbytes
        done += len(batch)
        on_progress(done, len(order))
    encode_seconds = time.perf_counter() - started - matching
    return CandidateScores(scores, encode_seconds, question_seconds + matching, n_bytes / max(1, len(order)))
