"""Scores the candidates of many questions: each answer is encoded once, with few in memory at a time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.models.base import States
from ap_ranker.ranking.ranker import BATCH_SIZE, Ranker
from ap_ranker.ranking.rule import Signals
from ap_ranker.ranking.text_encoder import float32_array
from ap_ranker.ranking.wordings import WordingVectors
from ap_ranker.text.question_keys import is_among, keys_of_questions, question_keys


@dataclass(frozen=True)
class CandidateScores:
    """Scores of each question's candidates, one array per question; times to encode all answers, and for all questions.

    `cosines` and `question_vectors` (Q, C) are of whole texts, `None` for a model without such vectors; `wordings` are
    `Signals.wordings` of each question, `None` if they were not compared; the bytes are of states without padding.
    """

    by_question: list[np.ndarray]
    encode_seconds: float
    question_seconds: float
    bytes_per_answer: float = 0.0
    cosines: list[np.ndarray] | None = None
    question_vectors: np.ndarray | None = None
    wordings: list[np.ndarray] | None = None

    @property
    def signals(self) -> list[Signals]:
        """What the rule of ranking needs of each question, without BM25's scores."""
        nothing: list[None] = [None] * len(self.by_question)
        signals: list[Signals] = []
        columns = zip(self.by_question, self.cosines or nothing, self.wordings or nothing, strict=True)
        for scores, cosines, wordings in columns:
            signals.append(Signals(np.asarray(scores, dtype=np.float64), cosines, wordings))
        return signals


def chosen_of(epochs: Sequence[CandidateScores], chosen: Sequence[int]) -> CandidateScores:
    """The scores of each question by an epoch of its own, the times and bytes of the first one."""

    def rows_of(name: str) -> list[np.ndarray] | None:
        lists = [getattr(epoch, name) for epoch in epochs]
        if any(rows is None for rows in lists):
            return None
        return [lists[number][row] for row, number in enumerate(chosen)]

    by_question = rows_of("by_question")
    assert by_question is not None
    cosines = rows_of("cosines")
    wordings = rows_of("wordings")
    return replace(epochs[0], by_question=by_question, cosines=cosines, wordings=wordings, question_vectors=None)


def ignored(done: int, total: int) -> None:
    """A callback for the number of answers read and their total, which does nothing."""


@torch.inference_mode()
def score_candidates(
    ranker: Ranker,
    dataset: Dataset,
    questions: Sequence[Question],
    candidates: Sequence[Sequence[int]],
    on_progress: Callable[[int, int], None] = ignored,
) -> CandidateScores:
    """Score each question's candidates, rows of `dataset.answers`: each batch of answers with all of its questions."""
    started = time.perf_counter()
    texts = [question.text for question in questions]
    starts = range(0, len(texts), BATCH_SIZE)
    batches_of_questions = [ranker.encode_questions(texts[start : start + BATCH_SIZE]) for start in starts]
    question_states = States.stack(batches_of_questions)
    question_vectors = ranker.model.text_vectors(question_states)
    sizes = [len(rows) for rows in candidates]
    question_of = np.repeat(np.arange(len(candidates)), sizes)
    uses: defaultdict[int, list[int]] = defaultdict(list)  # answer -> its places among the candidates of all questions
    for place, row in enumerate(chain.from_iterable(candidates)):
        uses[row].append(place)
    scores, cosines = np.zeros((2, len(question_of)))
    question_seconds = time.perf_counter() - started

    started = time.perf_counter()
    matching = 0.0
    n_bytes = 0
    order = list(uses)
    done = 0
    on_progress(0, len(order))
    answer_texts = [dataset.answers[row].text for row in order]
    for batch, states in ranker.answer_states(answer_texts, rounded=True):
        match_started = time.perf_counter()
        used = [uses[order[row]] for row in batch]
        places = np.concatenate(used)
        rows = torch.from_numpy(question_of[places])
        n_uses = torch.tensor([len(own_places) for own_places in used])
        columns = torch.arange(len(batch)).repeat_interleave(n_uses)
        scores[places] = float32_array(ranker.model.match_pairs(question_states, states, rows, columns))
        matching += time.perf_counter() - match_started
        vectors = ranker.model.text_vectors(states)
        if question_vectors is not None and vectors is not None:
            cosines[places] = float32_array((question_vectors @ vectors.T)[rows, columns])
        n_bytes += ranker.quantize(states, ranker.stored_dtype).nbytes
        done += len(batch)
        on_progress(done, len(order))
    encode_seconds = time.perf_counter() - started - matching
    ends = np.cumsum(sizes)[:-1]
    vectors_of_questions = None
    if question_vectors is not None:
        vectors_of_questions = float32_array(question_vectors)
    return CandidateScores(
        by_question=np.split(scores, ends),
        encode_seconds=encode_seconds,
        question_seconds=question_seconds + matching,
        bytes_per_answer=n_bytes / max(1, len(order)),
        cosines=None if question_vectors is None else np.split(cosines, ends),
        question_vectors=vectors_of_questions,
    )


def _without_asked(wordings: Sequence[str], asked_keys: AbstractSet[str]) -> tuple[str, ...]:
    """The wordings of an entry without those that are a question, given by its keys."""
    other_wordings: list[str] = []
    for wording in wordings:
        if not is_among(wording, asked_keys):
            other_wordings.append(wording)
    return tuple(other_wordings)


def score_wordings(
    ranker: Ranker,
    dataset: Dataset,
    questions: Sequence[Question],
    candidates: Sequence[Sequence[int]],
    scores: CandidateScores,
    *,
    as_new: bool = True,
) -> CandidateScores:
    """Compare each question with the known wordings of its candidates, if there are any and the model can compare them.

    `as_new`, those equal to the question are left out.
    """
    if scores.question_vectors is None or not any(answer.wordings for answer in dataset.answers):
        return scores
    ranked = sorted({*chain.from_iterable(candidates)})
    wordings: list[str] = []
    for row in ranked:
        wordings += dataset.answers[row].wordings
    # While a model is trained, those of the ranker may be of an earlier epoch.
    vectors = WordingVectors() if ranker.config is None else ranker.wording_vectors
    n_bytes = vectors.nbytes(wordings, ranker.embed_questions)  # encoded before the time is taken, as the answers are
    wording_keys = keys_of_questions(wordings) if as_new else frozenset()
    seconds = 0.0
    results: list[np.ndarray] = []
    for question, vector, rows in zip(questions, scores.question_vectors, candidates, strict=True):
        asked = {*question_keys(question.text)}
        is_wording = not asked.isdisjoint(wording_keys)
        lists: list[tuple[str, ...]] = []
        for row in rows:
            wordings_of_row = dataset.answers[row].wordings
            # A question never meets its own text.
            lists.append(_without_asked(wordings_of_row, asked) if is_wording else wordings_of_row)
        started = time.perf_counter()
        results.append(vectors.best(vector, lists, ranker.embed_questions)[0].astype(np.float64))
        seconds += time.perf_counter() - started
    seconds = scores.question_seconds + seconds
    size = scores.bytes_per_answer + n_bytes / max(1, len(ranked))
    return replace(scores, wordings=results, question_seconds=seconds, bytes_per_answer=size)
