"""Mines hard negatives, and filters right answers out of them.

BM25 retrieves answers that share a question's words; the model in training then picks those that it scores highest (as
Xiong et al. 2021, ANCE, do with all answers). The harder a negative, the likelier it is an unlabelled right answer (Qu
et al. 2021, RocketQA); each filter below removes one kind of these.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from transformers import TrainerCallback, TrainerState, TrainingArguments

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.scoring import score_candidates
from ap_ranker.processes import process_number
from ap_ranker.ranking.bm25 import BM25, best_rows
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.near_copies import near_pairs
from ap_ranker.text.reading import normalized

logger = logging.getLogger(__name__)

DEPTH = 100
"""Number of BM25's best answers to consider per question, as many as a pipeline usually ranks."""

HARDEST = 20
"""Number of these, highest-scored by the model, to draw from: with fewer, an epoch would repeat the same ones."""

LEAD = 0.05
"""A negative must score below the right answer by this share of its magnitude (Moreira et al. 2024, NV-Retriever,
TopK-PercPos: a share of the score, which would be above a negative one)."""


QUESTIONS_AT_ONCE = 4096
"""Questions that are scored at once: their states are in memory, and all answers are encoded again."""


class HardNegatives:
    """For each question, wrong answers to draw negatives from: BM25's best until `mine` is called, then the model's.

    `rows` are (Q,) arrays in BM25's order, without answers that may be right (`not_wrong`) and those judged already.
    """

    def __init__(self, dataset: Dataset, language: str | None = None) -> None:
        started = time.perf_counter()
        self._dataset = dataset
        bm25 = BM25((answer.text for answer in dataset.answers), language=language)
        shared = right_answers(dataset.questions)
        self.not_wrong = with_copies(shared, dataset.answers)
        n_right = n_copies = 0
        self.rows: list[np.ndarray] = []
        for question, same, unsure in zip(dataset.questions, shared, self.not_wrong, strict=True):
            rows = best_rows(bm25.scores(question.text), DEPTH)
            known = np.isin(rows, question.candidates or ()) & dataset.judged
            right, doubtful = (np.isin(rows, list(group)) for group in (same, unsure))
            self.rows.append(rows[~(known | doubtful)])
            n_right += int(right.sum())
            n_copies += int((doubtful & ~right).sum())
        self._retrieved = list(self.rows)
        self._log("BM25", f"{n_right:,} right, {n_copies:,} copies of a right one", started)

    def guide(self, ranker: Ranker) -> None:
        """Leave out for good what an untrained encoder finds as close as a right answer (Solatorio 2024, GISTEmbed)."""
        if ranker.has_vectors:
            self._choose(ranker, "cosines", None, "BM25 with a guide")
            self._retrieved = list(self.rows)

    def mine(self, ranker: Ranker) -> None:
        """Keep those of BM25's answers that the model now scores highest, but below the right answer.

        The order stays BM25's, so that rounding, which differs between one process and several, changes no draw.
        """
        self._choose(ranker, "by_question", HARDEST, "the model")

    def _choose(self, ranker: Ranker, kind: str, most: int | None, source: str) -> None:
        """The retrieved answers of the highest scores, in BM25's order, without those scored like a right one."""
        started, skipped = time.perf_counter(), 0
        for start in range(0, len(self._retrieved), QUESTIONS_AT_ONCE):
            part = slice(start, start + QUESTIONS_AT_ONCE)
            questions, retrieved = self._dataset.questions[part], self._retrieved[part]
            candidates = [[*q.positives, *rows.tolist()] for q, rows in zip(questions, retrieved, strict=True)]
            scores = getattr(score_candidates(ranker, self._dataset, questions, candidates), kind)
            for i, (question, rows, values) in enumerate(zip(questions, retrieved, scores, strict=True), start):
                right, others = np.split(values, [len(question.positives)])
                trusted = np.flatnonzero(~like_right(others, float(right.max())))
                hardest = trusted[np.argsort(-others[trusted], kind="stable")[:most]]
                self.rows[i] = rows[np.sort(hardest)]
                skipped += len(rows) - len(trusted)
        self._log(source, f"{skipped:,} scored like a right one", started)

    def _log(self, source: str, left_out: str, started: float) -> None:
        if process_number() == 0:
            sizes, seconds = [len(rows) for rows in self.rows], time.perf_counter() - started
            found = f"{np.mean(sizes):.1f} per question, none for {sizes.count(0)} of {len(sizes)}"
            logger.info("Hard negatives by %s: %s; left out: %s; %.0f s.", source, found, left_out, seconds)


class MineEachEpoch(TrainerCallback):
    """Mines the negatives before each epoch but the first; a resumed run has the same weights, and mines the same."""

    def __init__(self, hard: HardNegatives, ranker: Ranker) -> None:
        self._hard, self._ranker = hard, ranker

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        if state.epoch:
            self._hard.mine(self._ranker)


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


def like_right(scores: np.ndarray, right: float) -> np.ndarray:
    """(R,) whether a score is too high for a negative: above the right answer's, or within `LEAD` of its magnitude."""
    return np.asarray(scores >= right - LEAD * abs(right))
