"""Training batches: questions with one right answer each, and negatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import Sampler

from ap_ranker.data.dataset import Dataset
from ap_ranker.text.batch import TokenBatch
from ap_ranker.text.subwords import AnyTokenizer
from ap_ranker.training.negatives import HardNegatives, not_wrong
from ap_ranker.training.objectives.spec import IGNORE, NEGATIVE
from ap_ranker.training.teacher import TeacherScores

JUDGED_NEGATIVES = 4
"""Maximum number of answers judged wrong for a question in a shared batch: they are the hardest negatives, but all of
them would crowd out the other questions' answers."""


HIGHEST = 20
"""Number of the teacher's best answers to draw from."""


class Pairs(TorchDataset[tuple[int, int]]):
    """The (question, right answer) pairs of a data set, as positions; an epoch is one pass over them.

    With `own_candidates` each question occurs once, with its first right answer: its batch also holds the others.
    """

    def __init__(self, dataset: Dataset, *, own_candidates: bool) -> None:
        end = 1 if own_candidates else None
        self._pairs = [(i, row) for i, question in enumerate(dataset.questions) for row in question.positives[:end]]

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> tuple[int, int]:
        return self._pairs[index]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._pairs)


class Order(Sampler[int], ABC):
    """Orders the pairs randomly in each epoch.

    The order depends only on the seed and the epoch, so a resumed run sees the same one.

    Args:
        seed: seed of the shuffles.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the Trainer before each epoch."""
        self._epoch = epoch

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng([self._seed, self._epoch])

    @abstractmethod
    def __len__(self) -> int:
        """Number of pairs."""

    @abstractmethod
    def __iter__(self) -> Iterator[int]:
        """The positions of the pairs."""


class AnswerGroups(Order):
    """Brings several questions of an answer into a batch.

    A step's time goes into encoding answers, which are long and many. So each is encoded once for a few of its
    questions; the other answers of the batch are their negatives. No answer has its second group before all have had
    their first, so that hardly any is twice in a batch, which would cost a negative.
    """

    QUESTIONS = 4  # on the example FAQ one is no better, and an epoch takes more than twice as long

    def __init__(self, answers: Sequence[int], seed: int) -> None:
        """Initialise the order.

        Args:
            answers: the answer of each pair.
            seed: seed of the shuffles.
        """
        super().__init__(seed)
        self._answers = np.asarray(answers)

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[int]:
        rng = self._rng()
        shuffled = rng.permutation(len(self))
        by_answer = shuffled[np.argsort(self._answers[shuffled], kind="stable")]
        starts = np.flatnonzero(np.diff(self._answers[by_answer], prepend=-1))
        pairs = np.split(by_answer, starts[1:])
        groups = [group for each in pairs for group in enumerate(np.array_split(each, -(-len(each) // self.QUESTIONS)))]
        for i in np.lexsort((rng.random(len(groups)), np.array([turn for turn, _ in groups]))):
            yield from groups[i][1].tolist()


class LengthBuckets(Order):
    """Brings texts of similar lengths into a batch.

    Runs of many batches are sorted by answer length, groups of a few batches within them by question length, and the
    batches are shuffled again, so that a batch needs little padding.
    """

    # Sorting longer runs saves hardly any more padding.
    MOST_BATCHES = 30
    # A question is short, but a match costs question tokens x answer tokens: of groups of 1, 2, 3, 5, 6, 10 and 30
    # batches, those of 5 to 10 left the least padding on InsuranceQA, a third less than 1.
    BATCHES_BY_QUESTION = 6
    # With fewer distinct answers than this per row of a run, neighbours in length are mostly wordings of the same
    # answer, and a batch would have few negatives: then nothing is sorted.
    ANSWERS_PER_ROW = 8

    def __init__(self, lengths: Sequence[tuple[int, int]], n_answers: int, batch_size: int, seed: int) -> None:
        """Initialise the order.

        Args:
            lengths: number of tokens of each pair's question and answer.
            n_answers: number of distinct answers.
            batch_size: number of pairs per batch.
            seed: seed of the shuffles.
        """
        super().__init__(seed)
        self._questions, self._answers = np.asarray(lengths).reshape(-1, 2).T
        self._batch_size = batch_size
        batches = n_answers // (batch_size * self.ANSWERS_PER_ROW)
        self._run = batch_size * max(1, min(batches, self.MOST_BATCHES))

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[int]:
        rng = self._rng()
        order = rng.permutation(len(self))
        batches = []
        for run in _parts(order, self._run):
            by_answer = run[np.argsort(self._answers[run], kind="stable")]
            for group in _parts(by_answer, self._batch_size * self.BATCHES_BY_QUESTION):
                if len(group) > self._batch_size:  # within a batch the order does not matter
                    group = group[np.argsort(self._questions[group], kind="stable")]  # noqa: PLW2901
                batches += _parts(group, self._batch_size)
        # A short batch comes last: elsewhere it would shift the boundaries of all later batches.
        last = [batches.pop()] if len(batches[-1]) < self._batch_size else []
        for i in rng.permutation(len(batches)):
            yield from batches[i].tolist()
        for batch in last:
            yield from batch.tolist()


def _parts(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


class Batches:
    """Turns B pairs into a batch of tensors.

    By default all questions of a batch share its N answers: the right answers of the pairs, some of those judged wrong
    for the questions, and `negatives` random ones. So each question sees at least as many random answers as if it drew
    its own, at 1/B of the encoding cost. `hard` negatives replace the random ones: each question adds hard ones to
    those judged wrong, up to `negatives`.

    With `own_candidates`, each question has its right answers and up to `negatives` wrong ones to itself: judged ones
    first, then hard ones, then, for a question without judged ones, random ones. The other questions' answers are
    ignored: B x N comparisons by a network would cost too much.

    A batch depends only on its pairs, the seed and the current hard negatives, so a resumed run sees the same batches.
    A pair gets new negatives each epoch, because the sampler batches it with other pairs.

    Args:
        dataset: the training data.
        tokenizer: the model's tokenizer.
        negatives: number of wrong answers, as above.
        own_candidates: whether each question has its own candidates instead of all answers of the batch.
        seed: seed of the draws.
        hard: hard negatives of the same data set; its lists may change between batches.
        lessons: a teacher's scores of the same data set.
        taught: number of answers per question, drawn from the teacher's `HIGHEST` best.
    """

    def __init__(
        self,
        dataset: Dataset,
        tokenizer: AnyTokenizer,
        *,
        negatives: int,
        own_candidates: bool,
        seed: int,
        hard: HardNegatives | None = None,
        lessons: TeacherScores | None = None,
        taught: int = 0,
    ) -> None:
        self._questions = tokenizer.encode([question.text for question in dataset.questions])[0]
        self.answers, self.cut_answers = tokenizer.encode([answer.text for answer in dataset.answers])
        self._right = [frozenset(question.positives) for question in dataset.questions]
        self._judged = [question.negatives if dataset.judged else () for question in dataset.questions]
        self._classes = [dict(zip(q.candidates or (), q.labels, strict=False)) for q in dataset.questions]
        self.classes = len(dataset.classes)
        self._not_wrong = not_wrong(dataset) if hard is None else hard.not_wrong
        self._hard = hard
        self._lessons = lessons
        self._taught = taught
        self._negatives = min(negatives, len(dataset.answers))
        self._own_candidates = own_candidates
        self._seed = seed

    def lengths(self, pair: tuple[int, int]) -> tuple[int, int]:
        """Number of tokens of a pair's question and of its answer."""
        return len(self._questions[pair[0]]), len(self.answers[pair[1]])

    def __call__(self, pairs: Sequence[tuple[int, int]]) -> dict[str, Tensor]:
        """Make the arguments of the model and of the loss.

        Returns:
            question_ids, question_mask: (Q, M) of the different questions; question_rows: (B,) the question of each
            pair; answer_ids, answer_mask: (N, L); target: (B,) the column of the pair's answer; labels: (B, N) the
            class of each answer for each question, or `IGNORE`. With two classes they are `NEGATIVE` and `POSITIVE`.
            With lessons also teacher: (B, N) its logits, NaN where it has not scored.
        """
        rng = np.random.default_rng([self._seed, *(position for pair in pairs for position in pair)])
        if self._own_candidates:
            own = [self._candidates(question, rng) for question, _ in pairs]
            rows = [row for candidates in own for row in candidates]
        else:
            rows = [row for _, row in pairs]
            for question, _ in pairs:
                rows += self._wrong(question, JUDGED_NEGATIVES, rng)
            if self._hard is None:
                rows += rng.choice(len(self.answers), self._negatives, replace=False).tolist()
            own = []
        rows = list(dict.fromkeys(rows))
        column = {row: i for i, row in enumerate(rows)}
        labels = torch.tensor([self._labels(question, rows) for question, _ in pairs])
        for i, candidates in enumerate(own):
            others = sorted(set(column.values()) - {column[row] for row in candidates})
            labels[i, others] = IGNORE
        distinct = list(dict.fromkeys(question for question, _ in pairs))  # one with two right answers may be in two
        questions = TokenBatch.from_lists([self._questions[question] for question in distinct])
        answers = TokenBatch.from_lists([self.answers[row] for row in rows])
        batch = {
            "question_ids": questions.ids,
            "question_mask": questions.mask,
            "question_rows": torch.tensor([distinct.index(question) for question, _ in pairs]),
            "answer_ids": answers.ids,
            "answer_mask": answers.mask,
            "labels": labels,
            "target": torch.tensor([column[row] for _, row in pairs]),
        }
        if self._lessons is not None:
            logits = torch.from_numpy(np.stack([self._lessons.logits(question, rows) for question, _ in pairs]))
            for i, candidates in enumerate(own):
                logits[i, sorted(set(column.values()) - {column[row] for row in candidates})] = torch.nan
            batch["teacher"] = logits
        return batch

    def _candidates(self, question: int, rng: np.random.Generator) -> list[int]:
        """A question's right answers and its wrong ones."""
        wrong = self._wrong(question, self._negatives, rng)
        if not self._judged[question]:
            wrong += rng.choice(len(self.answers), max(0, self._negatives - len(wrong)), replace=False).tolist()
        return list(dict.fromkeys([*sorted(self._right[question]), *wrong]))

    def _wrong(self, question: int, most_judged: int, rng: np.random.Generator) -> list[int]:
        """Answers judged wrong for a question, and hard ones up to `negatives`."""
        wrong = _draw(self._judged[question], most_judged, rng)
        if self._hard is not None:
            wrong += _draw(self._hard.rows[question], max(0, self._negatives - len(wrong)), rng)
        if self._lessons is not None:
            wrong += _draw(self._lessons.best(question, HIGHEST), self._taught, rng)
        return wrong

    def _labels(self, question: int, rows: Sequence[int]) -> list[int]:
        if self._lessons is not None and question >= self._lessons.labelled:
            return [IGNORE] * len(rows)
        right, unsure, classes = self._right[question], self._not_wrong[question], self._classes[question]
        return [
            self.classes - 1 if row in right else IGNORE if row in unsure else classes.get(row, NEGATIVE)
            for row in rows
        ]


def _draw(rows: Sequence[int] | np.ndarray, most: int, rng: np.random.Generator) -> list[int]:
    return rng.permutation(rows)[:most].tolist() if len(rows) else []
