"""Training batches: questions, one right answer each, and further answers that are wrong for most of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from ap_ranker.data.dataset import Dataset
from ap_ranker.text.batch import TokenBatch
from ap_ranker.text.tokenizer import WordTokenizer
from ap_ranker.training.objectives import IGNORE, NEGATIVE, POSITIVE

JUDGED_NEGATIVES = 4
"""Of the answers judged wrong for a question, so many join each batch: they are the hardest ones there are, but all of
them would crowd out the other questions' answers."""


class Pairs(TorchDataset[tuple[int, int]]):
    """The (question, right answer) pairs of a data set, as positions; what an epoch goes through."""

    def __init__(self, dataset: Dataset) -> None:
        self._pairs = [(number, row) for number, q in enumerate(dataset.questions) for row in q.positives]

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> tuple[int, int]:
        return self._pairs[index]


class Batches:
    """Makes a batch of tensors from B pairs; all questions of a batch share all its N answers.

    The answers are the pairs' own, some of those judged wrong for the questions, and `negatives` drawn from the whole
    answer set. Each question so meets at least as many random answers as if it drew its own, at a B-th of the encoding.
    A batch depends on its pairs and the seed only, so that a resumed run sees what an unbroken one would.
    """

    def __init__(self, dataset: Dataset, tokenizer: WordTokenizer, *, negatives: int, seed: int) -> None:
        self._questions = tokenizer.encode([question.text for question in dataset.questions])[0]
        self._answers, self.cut_answers = tokenizer.encode([answer.text for answer in dataset.answers])
        self.n_answers = len(dataset.answers)
        self._positives = [frozenset(question.positives) for question in dataset.questions]
        self._judged = [question.negatives if dataset.judged else () for question in dataset.questions]
        # The same text under another id is not a wrong answer.
        self._texts = [answer.text for answer in dataset.answers]
        self._negatives = min(negatives, len(dataset.answers))
        self._seed = seed

    def __call__(self, pairs: Sequence[tuple[int, int]]) -> dict[str, Tensor]:
        """The arguments of the model's scores and of the objective.

        Returns:
            question_ids, question_mask: (B, M); answer_ids, answer_mask: (N, L); relevance: (B, N); target: (B,).
        """
        rng = np.random.default_rng([self._seed, *(number for pair in pairs for number in pair)])
        rows = [row for _, row in pairs]
        for question, _ in pairs:
            judged = self._judged[question]
            rows += rng.permutation(judged)[:JUDGED_NEGATIVES].tolist() if judged else []
        if self._negatives:
            rows += rng.choice(len(self._answers), self._negatives, replace=False).tolist()
        rows = list(dict.fromkeys(rows))
        column = {row: place for place, row in enumerate(rows)}
        questions = TokenBatch.from_lists([self._questions[question] for question, _ in pairs])
        answers = TokenBatch.from_lists([self._answers[row] for row in rows])
        return {
            "question_ids": questions.ids,
            "question_mask": questions.mask,
            "answer_ids": answers.ids,
            "answer_mask": answers.mask,
            "relevance": torch.tensor([self._relevance(question, rows) for question, _ in pairs]),
            "target": torch.tensor([column[row] for _, row in pairs]),
        }

    def _relevance(self, question: int, rows: Sequence[int]) -> list[int]:
        right = self._positives[question]
        right_texts = {self._texts[row] for row in right}
        return [
            POSITIVE if row in right else IGNORE if self._texts[row] in right_texts else NEGATIVE for row in rows
        ]
