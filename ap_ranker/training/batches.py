"""Training batches: questions with one right answer each, and negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from ap_ranker.data.dataset import Dataset
from ap_ranker.models.spec import Recipe
from ap_ranker.text.tokenizer import AnyTokenizer, TokenBatch
from ap_ranker.training.objectives import IGNORE, NEGATIVE, relevance
from ap_ranker.training.teacher import TeacherScores
from ap_ranker.training.wrong_answers import not_wrong

JUDGED_NEGATIVES = 4
"""Answers judged wrong for a question in a shared batch: all of them would crowd out the other questions' answers."""

HIGHEST = 20
"""Number of the teacher's best answers to draw from."""

QUESTIONS_OF_ANSWER = 4
"""Questions of an answer in a batch: one is no better on the example FAQ, and an epoch takes twice as long."""

MOST_BATCHES = 30
"""Batches in a run that is sorted by length; longer ones save hardly any more padding."""

BATCHES_BY_QUESTION = 6
"""Batches sorted by question length, too: a match costs question tokens x answer tokens."""

ANSWERS_PER_ROW = 8
"""Distinct answers per row of a run below which nothing is sorted: neighbours in length would mostly share one."""

Order = Callable[[np.random.Generator], np.ndarray]
"""Shuffles the pairs: their positions in an order that a generator of random numbers decides."""


class EachEpoch(Sampler[int]):
    """Shuffles the pairs in each epoch by its seed and number only, so that a resumed run sees the same order."""

    def __init__(self, order: Order, n_pairs: int, seed: int) -> None:
        self._order = order
        self._n_pairs = n_pairs
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the Trainer before each epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return self._n_pairs

    def __iter__(self) -> Iterator[int]:
        yield from self._order(np.random.default_rng([self._seed, self._epoch])).tolist()


def answer_groups(answers: Sequence[int]) -> Order:
    """Bring several questions of an answer into a batch; `answers` are those of each pair.

    A step's time goes into encoding answers, which are long and many. So each is encoded once for a few of its
    questions; the other answers of the batch are their negatives. No answer has its second group before all have had
    their first, so that hardly any is twice in a batch, which would cost a negative.
    """
    answer_rows = np.asarray(answers)

    def order(rng: np.random.Generator) -> np.ndarray:
        shuffled = rng.permutation(len(answer_rows))
        by_answer = shuffled[np.argsort(answer_rows[shuffled], kind="stable")]
        starts = np.flatnonzero(np.diff(answer_rows[by_answer], prepend=-1))
        groups: list[np.ndarray] = []
        turns: list[int] = []  # of each group: 0 for the first one of its answer, 1 for the second
        for pairs in np.split(by_answer, starts[1:]):
            n_groups = -(-len(pairs) // QUESTIONS_OF_ANSWER)  # rounded up
            groups += np.array_split(pairs, n_groups)
            turns += range(n_groups)
        by_turn = np.lexsort((rng.random(len(groups)), np.array(turns)))  # at random among those of a turn
        return np.concatenate([groups[place] for place in by_turn])

    return order


def length_buckets(lengths: Sequence[tuple[int, int]], n_answers: int, batch_size: int) -> Order:
    """Bring texts of similar lengths, in tokens of each pair's question and answer, into a batch.

    Runs of many batches are sorted by answer length, groups of a few batches within them by question length, and the
    batches are shuffled again, so that a batch needs little padding. `n_answers` are distinct.
    """
    questions, answers = np.asarray(lengths).reshape(-1, 2).T
    run_size = batch_size * max(1, min(n_answers // (batch_size * ANSWERS_PER_ROW), MOST_BATCHES))

    def order(rng: np.random.Generator) -> np.ndarray:
        batches = []
        for run in _parts(rng.permutation(len(answers)), run_size):
            by_answer = run[np.argsort(answers[run], kind="stable")]
            for group in _parts(by_answer, batch_size * BATCHES_BY_QUESTION):
                if len(group) > batch_size:  # within a batch the order does not matter
                    group = group[np.argsort(questions[group], kind="stable")]  # noqa: PLW2901
                batches += _parts(group, batch_size)
        # A short batch comes last: elsewhere it would shift the boundaries of all later batches.
        last = []
        if len(batches[-1]) < batch_size:
            last = [batches.pop()]
        shuffled = [batches[place] for place in rng.permutation(len(batches))]
        return np.concatenate([*shuffled, *last])

    return order


def _parts(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


class Batches:
    """Turns B pairs into a batch of tensors.

    By default all questions of a batch share its N answers: the right answers of the pairs, some of those judged wrong
    for the questions, and `negatives` random ones. So each question sees at least as many random answers as if it drew
    its own, at 1/B of the encoding cost.

    With `own_candidates`, each question has its right answers and up to `negatives` wrong ones to itself: judged ones
    or, if there are none, random ones. The other questions' answers are ignored: B x N comparisons by a network would
    cost too much. With `own_negatives`, each pair draws random ones, as in the papers.

    A batch depends only on its pairs, the seed and the epoch, so a resumed run sees the same batches, and a pair gets
    new negatives each epoch. With `lessons`, a teacher's scores, each question also adds `taught` answers, drawn from
    the teacher's `HIGHEST` best.

    `pairs` are the (question, right answer) pairs of the data, as positions; an epoch is one pass over them. With
    `own_candidates` each question occurs once, with its first right answer: its batch also holds the others.
    """

    def __init__(
        self,
        dataset: Dataset,
        tokenizer: AnyTokenizer,
        *,
        negatives: int,
        own_candidates: bool,
        own_negatives: bool = False,
        seed: int,
        lessons: TeacherScores | None = None,
        taught: int = 0,
    ) -> None:
        self._questions = tokenizer.encode(dataset.question_texts, questions=True)[0]
        self.answers, self.cut_answers = tokenizer.encode(dataset.answer_texts)
        most_right = 1 if own_candidates else None
        self.pairs: list[tuple[int, int]] = []
        self._right: list[frozenset[int]] = []
        self._judged: list[tuple[int, ...]] = []
        self._classes: list[dict[int, int]] = []  # of each question: answer -> the class that it was judged to have
        for place, question in enumerate(dataset.questions):
            for row in question.positives[:most_right]:
                self.pairs.append((place, row))
            self._right.append(frozenset(question.positives))
            self._judged.append(question.negatives if dataset.judged and not own_negatives else ())
            self._classes.append(dict(zip(question.candidates or (), question.labels, strict=False)))
        self.classes = len(dataset.classes)
        self._not_wrong = not_wrong(dataset)
        self._negatives = min(negatives, len(dataset.answers))
        self._lessons = lessons
        self._taught = taught
        self.instructive: set[bool] = set()  # of each batch so far, whether there was anything to learn from
        self._own_candidates = own_candidates or own_negatives
        self.own_negatives = own_negatives
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch."""
        self._epoch = epoch

    def order(self, recipe: Recipe) -> Order:
        """Which pairs share a batch."""
        answers = [row for _, row in self.pairs]
        if recipe.group_answers:
            return answer_groups(answers)
        lengths: list[tuple[int, int]] = []
        for question, row in self.pairs:
            lengths.append((len(self._questions[question]), len(self.answers[row])))
        return length_buckets(lengths, len(set(answers)), recipe.batch_size)

    def __call__(self, pairs: Sequence[tuple[int, int]]) -> dict[str, Tensor]:
        """Make the arguments of the model and of the loss.

        Returns:
            question_ids, question_mask: (Q, M) of the different questions; question_rows: (B,) the question of each
            pair; answer_ids, answer_mask: (N, L); target, labels and, with lessons, teacher as in `ScoredBatch`.
        """
        rng = np.random.default_rng([self._seed, self._epoch, *chain.from_iterable(pairs)])
        questions_of_pairs = [question for question, _ in pairs]
        right_rows = [row for _, row in pairs]
        if self._own_candidates:
            candidates_of_pairs = [self._candidates(question, rng) for question in questions_of_pairs]
            rows = list(chain.from_iterable(candidates_of_pairs))
        else:
            rows = list(right_rows)
            for question in questions_of_pairs:
                rows += self._wrong(question, JUDGED_NEGATIVES, rng)
            rows += rng.choice(len(self.answers), self._negatives, replace=False).tolist()
            candidates_of_pairs = [rows] * len(pairs)
        column_of = {row: column for column, row in enumerate(dict.fromkeys(rows))}
        shape = (len(pairs), len(column_of))
        labels = np.full(shape, IGNORE)
        logits = np.full(shape, np.float32(np.nan))
        for place, (question, candidates) in enumerate(zip(questions_of_pairs, candidates_of_pairs, strict=True)):
            columns = [column_of[row] for row in candidates]
            if self._lessons is None or question < self._lessons.labelled:
                labels[place, columns] = self._labels(question, candidates)
            if self._lessons is not None:
                logits[place, columns] = self._lessons.logits(question, candidates)
        distinct = list(dict.fromkeys(questions_of_pairs))  # one with two right answers may be in two pairs
        questions = TokenBatch.from_lists([self._questions[question] for question in distinct])
        answers = TokenBatch.from_lists([self.answers[row] for row in column_of])
        batch = {
            "question_ids": questions.ids,
            "question_mask": questions.mask,
            "question_rows": torch.tensor([distinct.index(question) for question in questions_of_pairs]),
            "answer_ids": answers.ids,
            "answer_mask": answers.mask,
            "labels": torch.from_numpy(labels),
            "target": torch.tensor([column_of[row] for row in right_rows]),
        }
        if self._lessons is not None:
            batch["teacher"] = torch.from_numpy(logits)
        has_wrong = bool((relevance(batch["labels"], self.classes) == NEGATIVE).any())
        self.instructive.add(self._lessons is not None or has_wrong)
        return batch

    def _candidates(self, question: int, rng: np.random.Generator) -> list[int]:
        wrong = self._wrong(question, self._negatives, rng)
        if not self._judged[question]:
            n_random = max(0, self._negatives - len(wrong))
            wrong += rng.choice(len(self.answers), n_random, replace=False).tolist()
        return list(dict.fromkeys([*sorted(self._right[question]), *wrong]))

    def _wrong(self, question: int, most_judged: int, rng: np.random.Generator) -> list[int]:
        """Answers judged wrong for a question, and some that the teacher ranks highest."""
        wrong = _draw(self._judged[question], most_judged, rng)
        if self._lessons is not None:
            wrong += _draw(self._lessons.rows[question][:HIGHEST], self._taught, rng)
        return wrong

    def _labels(self, question: int, rows: Sequence[int]) -> list[int]:
        right = self._right[question]
        unsure = self._not_wrong[question]
        classes = self._classes[question]
        best = self.classes - 1
        labels: list[int] = []
        for row in rows:
            if row in right:
                labels.append(best)
            elif row in unsure:
                labels.append(IGNORE)
            else:
                labels.append(classes.get(row, NEGATIVE))
        return labels


def _draw(rows: Sequence[int] | np.ndarray, most: int, rng: np.random.Generator) -> list[int]:
    if len(rows):
        return rng.permutation(rows)[:most].tolist()
    return []
