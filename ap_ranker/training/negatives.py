"""Mines hard negatives, and filters right answers out of them.

BM25 retrieves answers that share a question's words; the model in training then picks those that it scores highest (as
Xiong et al. 2021, ANCE, do with all answers). The harder a negative, the likelier it is an unlabelled right answer (Qu
et al. 2021, RocketQA); each filter below removes one kind of these.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ap_ranker.data.dataset import Answer, Dataset, Question, normalized
from ap_ranker.evaluation.scoring import score_candidates
from ap_ranker.ranking.bm25 import BM25, best_rows
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import split_words
from ap_ranker.training.distributed import is_first_process

logger = logging.getLogger(__name__)

DEPTH = 100
"""Number of BM25's best answers to consider per question, as many as a pipeline usually ranks."""

HARDEST = 20
"""Number of these, highest-scored by the model, to draw from: with fewer, an epoch would repeat the same ones."""

ALIKE = 0.9
"""Share of common words from which two answers are near-copies: one word in ten is a typing error or a product name."""

LEAD = 0.05
"""A negative must score this share below the right answer (Moreira et al. 2024, NV-Retriever, TopK-PercPos)."""

QUESTIONS_AT_ONCE = 4096
"""Number of questions to score at once while mining: their states are in memory, and all answers are encoded again."""


class HardNegatives:
    """For each question, wrong answers to draw negatives from: BM25's best until `mine` is called, then the model's.

    Args:
        dataset: Q questions, each with a right answer.
        language: of BM25's stemmer; `None` for no stemmer.

    Attributes:
        rows: (Q,) arrays of answers that share a word with the question, in BM25's order, without answers that may be
            right and without those judged for the question, which are known already.
        not_wrong: (Q,) answers that must not count as wrong for the question in any batch.
        left_out: reason -> number of answers left out of BM25's lists.
    """

    def __init__(self, dataset: Dataset, language: str | None = None) -> None:
        started = time.perf_counter()
        self._dataset = dataset
        texts = [answer.text for answer in dataset.answers]
        bm25, words = BM25(texts, language=language), word_sets(texts)
        shared = right_answers(dataset.questions)
        self.not_wrong = not_wrong(dataset)
        self.left_out: Counter[str] = Counter()
        self.rows: list[np.ndarray] = []
        for i, question in enumerate(dataset.questions):
            rows = best_rows(bm25.scores(question.text), DEPTH)
            known = np.isin(rows, question.candidates) if dataset.judged and question.candidates else rows < 0
            right = np.isin(rows, list(shared[i]))
            copy = np.isin(rows, list(self.not_wrong[i])) & ~right
            near = near_copies(words, rows, sorted(shared[i])) & ~right & ~copy
            self.not_wrong[i] |= set(rows[near].tolist())
            self.rows.append(rows[~(known | right | copy | near)])
            self.left_out["right"] += int(right.sum())
            self.left_out["copies of a right one"] += int(copy.sum())
            self.left_out["near-copies of a right one"] += int(near.sum())
        self._retrieved = list(self.rows)
        self._log("BM25", self.left_out, started)

    def mine(self, ranker: Ranker) -> None:
        """Keep those of BM25's answers that the model now scores highest, but below the right answer.

        The order stays BM25's, so that rounding, which differs between one process and several, changes no draw.
        """
        started, skipped = time.perf_counter(), 0
        for start in range(0, len(self._retrieved), QUESTIONS_AT_ONCE):
            questions = self._dataset.questions[start : start + QUESTIONS_AT_ONCE]
            retrieved = self._retrieved[start : start + QUESTIONS_AT_ONCE]
            candidates = [[*q.positives, *rows.tolist()] for q, rows in zip(questions, retrieved, strict=True)]
            scores = score_candidates(ranker, self._dataset, questions, candidates).by_question
            for i, (question, rows, values) in enumerate(zip(questions, retrieved, scores, strict=True), start):
                right, others = np.split(values, [len(question.positives)])
                trusted = np.flatnonzero(~like_right(others, right.max()))
                hardest = trusted[np.argsort(-others[trusted], kind="stable")[:HARDEST]]
                self.rows[i] = rows[np.sort(hardest)]
                skipped += len(rows) - len(trusted)
        self._log("the model", {"scored like a right one": skipped}, started)

    def _log(self, source: str, left_out: dict[str, int], started: float) -> None:
        if is_first_process():
            sizes = [len(rows) for rows in self.rows]
            logger.info(
                "Hard negatives by %s: %.1f per question, none for %d of %d; left out: %s; %.0f s.",
                source,
                sum(sizes) / max(1, len(sizes)),
                sizes.count(0),
                len(sizes),
                ", ".join(f"{count:,} {reason}" for reason, count in left_out.items()),
                time.perf_counter() - started,
            )


class MineEachEpoch(TrainerCallback):
    """Mines the negatives again before each epoch but the first, when the model is untrained.

    A run resumed after an epoch has that epoch's weights, so it mines the same negatives.
    """

    def __init__(self, hard: HardNegatives, ranker: Ranker) -> None:
        self._hard, self._ranker = hard, ranker

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.epoch:
            self._hard.mine(self._ranker)


# Filters of answers that may be right.


def right_answers(questions: Sequence[Question]) -> list[frozenset[int]]:
    """(Q,) the right answers of each question and of equal questions, ignoring case and white space."""
    by_text: dict[str, set[int]] = defaultdict(set)
    for question in questions:
        by_text[normalized(question.text)].update(question.positives)
    return [frozenset(by_text[normalized(question.text)]) for question in questions]


def with_copies(groups: Iterable[frozenset[int]], answers: Sequence[Answer]) -> list[frozenset[int]]:
    """Extend each group of answers by all answers with equal texts, ignoring case and white space."""
    texts = [normalized(answer.text) for answer in answers]
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(texts):
        rows_of[text].append(row)
    return [frozenset(copy for row in group for copy in rows_of[texts[row]]) for group in groups]


def not_wrong(dataset: Dataset) -> list[frozenset[int]]:
    """(Q,) answers that must not count as wrong: right answers of the question and of equal ones, and their copies."""
    return with_copies(right_answers(dataset.questions), dataset.answers)


def word_sets(texts: Iterable[str]) -> csr_matrix:
    """(N, words) sparse, 1 where a text has a word."""
    vocabulary: dict[str, int] = {}
    sets = [{vocabulary.setdefault(word, len(vocabulary)) for word in split_words(text)} for text in texts]
    columns = [word for words in sets for word in words]
    starts = np.cumsum([0, *map(len, sets)])
    return csr_matrix((np.ones(len(columns), np.float32), columns, starts), (len(sets), max(1, len(vocabulary))))


def near_copies(words: csr_matrix, rows: np.ndarray, right: Sequence[int]) -> np.ndarray:
    """(R,) whether the Jaccard index of the words of an answer in `rows` and of one in `right` is at least `ALIKE`.

    Args:
        words: words of all answers, from `word_sets`.
        rows: (R,) answers.
        right: answers to compare with.
    """
    common = (words[rows] @ words[right].T).toarray()
    sizes = np.diff(words.indptr)
    either = sizes[rows][:, None] + sizes[right] - common
    near: np.ndarray = (common / np.maximum(either, 1) >= ALIKE).any(axis=1)
    return near


def like_right(scores: np.ndarray, right: float) -> np.ndarray:
    """(R,) whether a score is too high for a negative: above the right answer's, or too close to it.

    The paper's limit, 95 % of the right answer's score, would be above that score if it is negative (cosines,
    log-odds). The score minus 5 % of its magnitude is the same for positive scores, and lower for all.
    """
    suspected: np.ndarray = scores >= right - LEAD * abs(right)
    return suspected
