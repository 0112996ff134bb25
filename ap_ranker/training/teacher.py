"""A teacher's scores of the questions that a student learns from, computed once and kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import score_candidates, score_wordings
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.bm25 import best_rows
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import SOFTNESS, ranked_scores
from ap_ranker.training.computed_once import computed_once
from ap_ranker.training.peers import CrossEncoder, Peer, fingerprint

CACHE_BYTES = 2 * 10**9
"""The memory for the answers' states, which all questions share: 25,000 answers of a transformer take a tenth of it."""

AT_ONCE = 512
"""The number of questions whose scores are kept as one file: an interrupted run loses as many at most."""

READ_TOGETHER = 50
"""The number of answers, BM25's best, that a cross-encoder reads with each question: it reads every pair anew."""


@dataclass(frozen=True)
class TeacherScores:
    """The teacher's scores of Q questions. A student learns from the labels of the first `labelled` ones, too.

    For each question, `rows` are (K,) answers, the highest score first, and `values` their scores, divided by the
    temperature.
    """

    rows: Sequence[np.ndarray]
    values: Sequence[np.ndarray]
    labelled: int
    n_answers: int

    def logits(self, question: int, answers: Sequence[int]) -> np.ndarray:
        """(N,) float32 of these answers; NaN where the teacher has not scored."""
        values = np.full(self.n_answers, np.nan, dtype=np.float32)
        values[self.rows[question]] = self.values[question]
        return values[list(answers)]


class Teacher:
    """A model that another one learns from: a checkpoint, trained or not, or a model of sentence-transformers.

    A checkpoint scores as it would in a search, with the training questions as known wordings if it has a weight for
    them; no question meets its own text. Another model scores answers alone, a cross-encoder at most `READ_TOGETHER`
    of them.
    """

    def __init__(self, ranker: Ranker | Peer, questions: Sequence[str] = ()) -> None:
        self._ranker = copy(ranker)  # the caller's own ranker keeps its cache
        if isinstance(self._ranker, Ranker) and (self._ranker.cache is None or not self._ranker.cache.max_bytes):
            # Answers are encoded once for all questions, and scored with the dtype that a search stores them in.
            self._ranker.cache = EncodingCache(CACHE_BYTES, self._ranker.stored_dtype)
        self.source = str(ranker.source)
        written = [text for text in questions if text.strip()]
        self.questions = list(dict.fromkeys(written))

    @property
    def digest(self) -> str:
        """A hash of the model and of the questions that it scores beside those of the data."""
        identity = repr((_identity(self._ranker), self.questions))
        return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def checkpoint(self) -> Ranker | None:
        """The checkpoint that teaches; `None` where another library has trained the model."""
        return self._ranker if isinstance(self._ranker, Ranker) else None

    def teach(
        self,
        data: Dataset,
        asked: Dataset,
        unanswered: Sequence[Question] = (),
        language: str | None = None,
        on_progress: Progress = untold,
    ) -> tuple[Dataset, TeacherScores]:
        """The data with the questions without labels after all others, and the scores of all.

        The questions of `asked`, which users put, are known wordings of their answers. The candidates of the
        `unanswered` were all judged wrong, which says nothing about their order: a student learns the teacher's scores
        of them instead. The "right" answer of a question without labels is the one that the teacher ranks first.
        """
        if self.questions:
            data.require_shared_answers("Leave out --questions.")
        left_out = {*data.question_texts, *data.withheld}
        further = list(unanswered)
        new_texts = [text for text in self.questions if text not in left_out]
        for number, text in enumerate(new_texts):
            further.append(Question(f"unlabelled-{number}", text, ()))
        n_labelled = len(data.questions)
        data = replace(data, questions=[*data.questions, *further])
        with_questions = with_wordings(data, asked)
        pools = self._pools(with_questions, language)
        rows: list[np.ndarray] = []
        values: list[np.ndarray] = []
        for pool, scores in zip(pools, self._scores(with_questions, pools, on_progress), strict=True):
            order = np.argsort(-scores, kind="stable")
            rows.append(np.asarray(pool, dtype=np.int32)[order])
            values.append(scores[order])
        taught: list[Question] = []
        for question, ranked in zip(further, rows[n_labelled:], strict=True):
            taught.append(replace(question, positives=(int(ranked[0]),)))
        questions = [*data.questions[:n_labelled], *taught]
        return replace(data, questions=questions), TeacherScores(rows, values, n_labelled, len(data.answers))

    def _pools(self, data: Dataset, language: str | None) -> list[tuple[int, ...]]:
        """The answers to score for each question: its right ones and, as in an evaluation, its candidates."""
        searched = [row for row, question in enumerate(data.questions) if question.candidates is None]
        fetched = self._fetched(replace(data, questions=[data.questions[row] for row in searched]), language)
        fetched_of_row = dict(zip(searched, fetched, strict=True))
        pools: list[tuple[int, ...]] = []
        for row, question in enumerate(data.questions):
            candidates = fetched_of_row[row] if question.candidates is None else question.candidates
            pools.append(tuple(dict.fromkeys((*candidates, *question.positives))))
        return pools

    def _fetched(self, data: Dataset, language: str | None) -> Sequence[tuple[int, ...]]:
        """The candidates of questions that have none of their own, as a search fetches them."""
        if not data.questions:
            return []
        ranker = self._ranker
        retriever = None
        if isinstance(ranker, Ranker) and ranker.has_vectors:
            retriever = ranker
        evaluation_set = EvaluationSet(data, unanswerable=True, language=language, retriever=retriever)
        if isinstance(ranker, CrossEncoder):
            return list(map(_read_together, evaluation_set.pools, evaluation_set.bm25_scores))
        return evaluation_set.pools

    def _scores(self, data: Dataset, pools: Sequence[Sequence[int]], on_progress: Progress) -> list[np.ndarray]:
        """The scores of each question's pool, divided by the temperature."""
        answers = [(answer.text, answer.wordings) for answer in data.answers]
        parts = []
        ranker = self._ranker
        model = _identity(ranker)
        for start in range(0, len(pools), AT_ONCE):
            on_progress("scoring with the teacher", start, len(pools))
            batch = data.questions[start : start + AT_ONCE]
            pools_of_batch = pools[start : start + AT_ONCE]
            pairs: list[tuple[str, list[int]]] = []
            for question, pool in zip(batch, pools_of_batch, strict=True):
                pairs.append((question.text, list(pool)))
            score = partial(_score, ranker, data, questions=batch, pools=pools_of_batch)
            parts.append(computed_once("teacher-scores", (*model, answers, pairs), score))
        on_progress("scoring with the teacher", len(pools), len(pools))
        temperature = ranker.model.temperature if isinstance(ranker, Ranker) else ranker.temperature
        ends = np.cumsum([len(pool) for pool in pools])[:-1]
        return np.split(np.concatenate(parts) / temperature, ends)


def _read_together(pool: Sequence[int], bm25_scores: np.ndarray) -> tuple[int, ...]:
    """The candidates that a cross-encoder scores: BM25's best."""
    return tuple(pool[place] for place in best_rows(bm25_scores, READ_TOGETHER, above=-np.inf))


def _identity(ranker: Ranker | Peer) -> tuple[object, ...]:
    """Everything but the texts that the scores depend on: a part of the key by which they are kept."""
    if not isinstance(ranker, Ranker):
        return (fingerprint(ranker.source),)
    return ranker.fingerprint, ranker.decider().weights.wording, SOFTNESS, str(ranker.stored_dtype)


def _score(
    ranker: Ranker | Peer, data: Dataset, questions: Sequence[Question], pools: Sequence[Sequence[int]]
) -> np.ndarray:
    """The scores of each question's pool, one after another."""
    if isinstance(ranker, Ranker):
        scores = score_candidates(ranker, data, questions, pools)
        weights = ranker.decider().weights
        if weights.wording:
            scores = score_wordings(ranker, data, questions, candidates=pools, scores=scores)
        ranked = np.concatenate([ranked_scores(signals, weights) for signals in scores.signals])
    else:
        texts = [question.text for question in questions]
        ranked = ranker.logits(texts, data.answer_texts, pools)
    if not np.isfinite(ranked).all():
        raise InputError(f"{ranker.source}: expected finite scores of the teacher, found others. Train it again.")
    return ranked.astype(np.float32)
