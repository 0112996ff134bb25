"""Wrong answers that are hard to tell from the right one, and guards that keep right answers out of them.

BM25 retrieves answers that share a question's words; the model in training then picks those that it scores highest (as
Xiong et al. 2021, ANCE, do with all answers). The harder a negative, the likelier it is an unlabelled right answer (Qu
et al. 2021, RocketQA), so each guard below removes one kind of those.
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

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.scoring import score_candidates
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import split_words
from ap_ranker.training.distributed import is_first_process

logger = logging.getLogger(__name__)

DEPTH = 100
"""Number of BM25's best answers considered per question, as many as a pipeline usually ranks."""

HARDEST = 20
"""Number of those, highest-scored by the model, to draw from: fewer would be the same ones throughout an epoch."""

ALIKE = 0.9
"""Share of common words from which two answers say the same: one word in ten is a typing error or a product name."""

LEAD = 0.05
"""A negative must score this share below the right answer (Moreira et al. 2024, NV-Retriever, TopK-PercPos)."""

QUESTIONS_AT_ONCE = 4096
"""Number of questions scored at once while mining: their states are in memory, and all answers are encoded anew."""


class HardNegatives:
    """For each question, wrong answers to draw negatives from: BM25's best until `mine` is called, then the model's.

    Args:
        dataset: each of its Q questions has a right answer.

    Attributes:
        rows: (Q,) arrays of answers, in BM25's order; none that a guard suspects of being right, none that was judged
            for the question (those are known already), none that shares no word with it.
        not_wrong: (Q,) answers that must not count as wrong for the question, however they come into a batch.
        left_out: reason -> number of answers left out of BM25's lists.
    """

    def __init__(self, dataset: Dataset) -> None:
        started = time.perf_counter()
        self._dataset = dataset
        texts = [answer.text for answer in dataset.answers]
        bm25, words = BM25(texts), word_sets(texts)
        shared = right_answers(dataset.questions)
        self.not_wrong = not_wrong(dataset)
        self.left_out: Counter[str] = Counter()
        self.rows: list[np.ndarray] = []
        for i, question in enumerate(dataset.questions):
            rows = _best(bm25.scores(question.text), DEPTH)
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

        Args:
            ranker: the model as it is now.
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
    """Mines the negatives anew before each epoch but the first, when the model knows nothing yet.

    A run resumed after an epoch has that epoch's weights, so it mines what an unbroken run would.
    """

    def __init__(self, hard: HardNegatives, ranker: Ranker) -> None:
        self._hard, self._ranker = hard, ranker

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.epoch:
            self._hard.mine(self._ranker)


# The guards.


def right_answers(questions: Sequence[Question]) -> list[frozenset[int]]:
    """(Q,) the right answers of each question and of those with the same text, ignoring case and white space."""
    together: dict[str, set[int]] = defaultdict(set)
    for question in questions:
        together[_plain(question.text)].update(question.positives)
    shared = {text: frozenset(rows) for text, rows in together.items()}
    return [shared[_plain(question.text)] for question in questions]


def with_copies(groups: Iterable[frozenset[int]], answers: Sequence[Answer]) -> list[frozenset[int]]:
    """Each group of answers and all answers with the text of one of them, ignoring case and white space."""
    plain = [_plain(answer.text) for answer in answers]
    same: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(plain):
        same[text].append(row)
    return [frozenset(copy for row in group for copy in same[plain[row]]) for group in groups]


def not_wrong(dataset: Dataset) -> list[frozenset[int]]:
    """(Q,) answers that must not count as wrong for each question: right ones, also of equal questions, and copies."""
    return with_copies(right_answers(dataset.questions), dataset.answers)


def word_sets(texts: Iterable[str]) -> csr_matrix:
    """(N, words) sparse, 1 where a text has a word."""
    vocabulary: dict[str, int] = {}
    sets = [{vocabulary.setdefault(word, len(vocabulary)) for word in split_words(text)} for text in texts]
    columns = [word for words in sets for word in words]
    starts = np.cumsum([0, *map(len, sets)])
    return csr_matrix((np.ones(len(columns), np.float32), columns, starts), (len(sets), max(1, len(vocabulary))))


def near_copies(words: csr_matrix, rows: np.ndarray, right: Sequence[int]) -> np.ndarray:
    """(R,) whether an answer of `rows` has `ALIKE` of its words in common with one of `right`.

    The share is the Jaccard index: words that both have, of the words that either has.

    Args:
        words: of all answers, from `word_sets`.
        rows: (R,) answers.
        right: other answers.
    """
    common = (words[rows] @ words[right].T).toarray()
    sizes = np.diff(words.indptr)
    either = sizes[rows][:, None] + sizes[right] - common
    near: np.ndarray = (common / np.maximum(either, 1) >= ALIKE).any(axis=1)
    return near


def like_right(scores: np.ndarray, right: float) -> np.ndarray:
    """(R,) whether a score is too close to the right answer's, or above it, for a negative.

    95 % of the right answer's score, as in the paper, would be no lower than itself where scores are negative
    (cosines, log-odds); 5 % of its size below it is the same for positive ones and holds for all.
    """
    suspected: np.ndarray = scores >= right - LEAD * abs(right)
    return suspected


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _best(scores: np.ndarray, most: int) -> np.ndarray:
    """Positions of the `most` highest positive scores, best first, ties in order; only these few are sorted."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > most:
        rows = rows[scores[rows] >= np.partition(scores[rows], -most)[-most]]
    return rows[np.argsort(-scores[rows], kind="stable")][:most]
