"""A teacher's scores of the questions that a student learns from, computed once and kept on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluate import EvaluationSet
from ap_ranker.evaluation.scoring import score_candidates, score_wordings
from ap_ranker.files import atomic_file, cache_folder
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.progress import Progress

CACHE = "teacher-scores"
"""The folder of the scores in the user's cache."""

CACHE_BYTES = 2 * 10**9
"""For the answers' states, which all questions share: 25,000 answers of a transformer take a tenth of it."""

AT_ONCE = 512
"""Number of questions whose scores are one file: what an interruption costs."""


@dataclass(frozen=True)
class TeacherScores:
    """The teacher's scores of Q questions with up to K answers each.

    Attributes:
        rows: (Q, K) answers, the highest-scored first; -1 after the last one.
        values: (Q, K) their scores, divided by the teacher's temperature.
        labelled: number of questions with labels, which come first.
        n_answers: number of all answers.
    """

    rows: np.ndarray
    values: np.ndarray
    labelled: int
    n_answers: int

    def best(self, question: int, most: int) -> np.ndarray:
        """The answers that the teacher scores highest, best first."""
        rows: np.ndarray = self.rows[question, :most]
        return rows[rows >= 0]

    def logits(self, question: int, answers: Sequence[int]) -> np.ndarray:
        """(N,) float32 of these answers; NaN where the teacher has not scored."""
        known = self.rows[question] >= 0
        values = np.full(self.n_answers, np.nan, dtype=np.float32)
        values[self.rows[question][known]] = self.values[question][known]
        return values[list(answers)]


class Teacher:
    """A trained or untrained model that another one learns from.

    It scores as it would in a search, with the training questions as known wordings if its checkpoint has a weight for
    them; no question meets its own text.

    Args:
        ranker: the teacher; its checkpoint's fingerprint names the files of its scores.
        questions: texts of questions without labels to learn from as well.
    """

    def __init__(self, ranker: Ranker, questions: Sequence[str] = ()) -> None:
        # Its states are stored as a search stores them.
        cache = ranker.cache or EncodingCache(CACHE_BYTES)
        self.ranker = Ranker(
            ranker.model, ranker.tokenizer, ranker.device, ranker.config, cache=cache, encodings=ranker.encodings
        )
        self.source, self._fingerprint = ranker.source, ranker.fingerprint
        self.questions = list(dict.fromkeys(text for text in questions if text.strip()))

    def teach(
        self, data: Dataset, asked: Dataset, language: str | None = None, on_progress: Progress = lambda *_: None
    ) -> tuple[Dataset, TeacherScores]:
        """Score the questions of a data set, and those without labels.

        Args:
            data: the questions to learn from, each with a right answer.
            asked: those of users, which are known wordings of their answers.
            language: of BM25's stemmer, which fetches candidates beside the teacher's vectors.
            on_progress: called after each file of scores.

        Returns:
            The data with the questions without labels after all others, and the scores. The "right" answer of a
            question without labels is the one that the teacher ranks first.

        Raises:
            InputError: questions without labels beside judged candidates, which no other question may be ranked with;
                scores that are not finite.
            WriteError: the cache cannot be written.
        """
        if data.judged and self.questions:
            raise InputError(
                f"{data.name}: expected answers that all questions share, to rank questions without labels with, found "
                "candidates judged for each question. Leave out --questions."
            )
        n_labelled, data = len(data.questions), self._with_unlabelled(data)
        known = with_wordings(data, asked)
        pools = self._pools(known, language)
        parts = []
        for start in range(0, len(pools), AT_ONCE):
            on_progress("scoring with the teacher", start, len(pools))
            part = slice(start, start + AT_ONCE)
            parts.append(self._kept(known, known.questions[part], pools[part]))
        on_progress("scoring with the teacher", len(pools), len(pools))
        rows, values = (_stack([part[i] for part in parts], fill) for i, fill in ((0, -1), (1, np.nan)))
        taught = [*data.questions]
        for i in range(n_labelled, len(taught)):
            taught[i] = replace(taught[i], positives=(int(rows[i, 0]),))
        scores = TeacherScores(rows, values / self.ranker.model.temperature, n_labelled, len(data.answers))
        return replace(data, questions=taught), scores

    def _with_unlabelled(self, data: Dataset) -> Dataset:
        labelled = {question.text for question in data.questions}
        added = [text for text in self.questions if text not in labelled and text not in data.withheld]
        unlabelled = [Question(f"unlabelled-{i}", text, ()) for i, text in enumerate(added)]
        return replace(data, questions=[*data.questions, *unlabelled])

    def _pools(self, data: Dataset, language: str | None) -> list[tuple[int, ...]]:
        """The answers to score for each question: its right ones and, as in an evaluation, its candidates."""
        free = [question for question in data.questions if question.candidates is None]
        chosen: list[tuple[int, ...]] = []
        if free:
            retriever = self.ranker if self.ranker.has_vectors else None
            evaluation_set = EvaluationSet(
                replace(data, questions=free), unanswerable=True, language=language, retriever=retriever
            )
            chosen = evaluation_set.pools
        pools = iter(chosen)
        candidates = [q.candidates if q.candidates is not None else next(pools) for q in data.questions]
        return [
            tuple(dict.fromkeys((*rows, *question.positives)))
            for rows, question in zip(candidates, data.questions, strict=True)
        ]

    def _kept(
        self, data: Dataset, questions: Sequence[Question], pools: Sequence[Sequence[int]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(n, K) answers and (n, K) scores of some questions, from the file or computed and written."""
        path = cache_folder(CACHE) / f"{self._key(data, questions, pools)}.safetensors"
        try:
            kept = load_file(path)
            if kept["rows"].shape == kept["scores"].shape and len(kept["rows"]) == len(questions):
                return kept["rows"], kept["scores"]
        except (OSError, SafetensorError, KeyError):
            pass  # not there yet, or damaged
        rows, scores = self._score(data, questions, pools)
        with atomic_file(path) as draft:
            save_file({"rows": rows, "scores": scores}, draft)
        return rows, scores

    def _key(self, data: Dataset, questions: Sequence[Question], pools: Sequence[Sequence[int]]) -> str:
        """A hash of the teacher and of all that its scores depend on."""
        asked = [(question.text, list(rows)) for question, rows in zip(questions, pools, strict=True)]
        answers = [(answer.text, answer.wordings) for answer in data.answers]
        content = repr((self._fingerprint, self._wording_weight, str(self.ranker.stored_dtype), answers, asked))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def _wording_weight(self) -> float:
        return self.ranker.config.wording_weight if self.ranker.config else 0.0

    def _score(
        self, data: Dataset, questions: Sequence[Question], pools: Sequence[Sequence[int]]
    ) -> tuple[np.ndarray, np.ndarray]:
        scores = score_candidates(self.ranker, data, questions, pools)
        vectors, weight = scores.question_vectors, self._wording_weight
        if weight and scores.cosines and vectors is not None and any(answer.wordings for answer in data.answers):
            encoded = self.ranker.wording_vectors
            wordings = score_wordings(self.ranker, data, questions, pools, scores.cosines, vectors, encoded)
            scores = scores.with_wordings(wordings, weight)
        if not all(np.isfinite(values).all() for values in scores.by_question):
            raise InputError(f"{self.source}: expected finite scores of the teacher, found others. Train it again.")
        orders = [np.argsort(-values, kind="stable") for values in scores.by_question]
        rows = [np.asarray(pool, dtype=np.int32)[order] for pool, order in zip(pools, orders, strict=True)]
        values = [each[order].astype(np.float32) for each, order in zip(scores.by_question, orders, strict=True)]
        return _padded(rows, -1), _padded(values, np.nan)


def _padded(parts: Sequence[np.ndarray], fill: float) -> np.ndarray:
    """Rows of different lengths as one array."""
    padded = np.full((len(parts), max(map(len, parts))), fill, dtype=parts[0].dtype)
    for row, part in zip(padded, parts, strict=True):
        row[: len(part)] = part
    return padded


def _stack(parts: Sequence[np.ndarray], fill: float) -> np.ndarray:
    """(n, K) arrays of different K below each other."""
    return _padded([row for part in parts for row in part], fill)
