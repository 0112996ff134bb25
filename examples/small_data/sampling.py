"""The data of the tables: a folder as it is, or one messy FAQ split by question; and so many training pairs of it."""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import split_questions

TEST_SHARE, DEV_SHARE = 0.25, 0.1
"""Of all the questions of a FAQ without a split."""

SPLIT_SEED = 1
"""The split is the same for every run: only what is drawn from the rest differs."""


@dataclass(frozen=True)
class Parts:
    """A data set; all three parts have the same answers.

    Attributes:
        training: what pairs are drawn from.
        dev: chooses the epoch.
        test: what the table is about.
    """

    training: Dataset
    dev: Dataset
    test: Dataset


def read_folder(folder: Path, match: Match) -> Parts:
    """A folder with `train.*`, `dev.*` and `test.*` that share a file of answers, as it is.

    Stored questions of answers are pairs like the users': both are drawn.

    Raises:
        InputError: a file is missing, or cannot be used.
    """
    training, dev, test = (read_dataset(folder, split, match=match) for split in ("train", "dev", "test"))
    return _named(folder.resolve().name, training, dev, test)


def read_covid(path: Path, match: Match) -> Parts:
    """A file of `question, answer` rows, split so that no question text stands on two sides, case and spaces ignored.

    A quarter of the questions is for testing, a tenth for dev. The same answer text in several rows is one answer, and
    right for each of their questions; a question with several answers has several right ones; a repeated row counts
    once. Every distinct answer of the file is a candidate of every dev and test question, also those whose own
    questions were held out or not drawn: they stand in the FAQ all the same.

    Raises:
        InputError: the file cannot be used.
    """
    data = read_dataset(path, "train", match=match)
    spaced = [replace(question, text=" ".join(question.text.split())) for question in data.questions]
    rest, test = split_questions(replace(data, questions=spaced), TEST_SHARE, SPLIT_SEED)
    training, dev = split_questions(rest, DEV_SHARE / (1 - TEST_SHARE), SPLIT_SEED)
    return _named("covid", training, _all_answers(dev), _all_answers(test))


def draw(training: Dataset, pairs: int, seed: int) -> Dataset:
    """Whole questions drawn at random, with `pairs` right answers in all; fewer if the next question had too many.

    All the answers stay, those that no drawn question speaks of, too. With the same seed, a smaller draw is part of a
    larger one.
    """
    shuffled = random.Random(seed).sample(training.answerable, len(training.answerable))
    totals = list(accumulate(len(question.positives) for question in shuffled))
    name = f"{training.name}, {pairs} pairs drawn with seed {seed}"
    return replace(training, name=name, questions=shuffled[: bisect_right(totals, pairs)])


def _named(name: str, training: Dataset, dev: Dataset, test: Dataset) -> Parts:
    """Without the user's own path, a run can be carried to another machine and goes on there."""
    return Parts(
        replace(training, name=f"{name}/train"), replace(dev, name=f"{name}/dev"), replace(test, name=f"{name}/test")
    )


def _all_answers(dataset: Dataset) -> Dataset:
    """Every answer a candidate, however many there are: BM25 is compared with, so it must not choose."""
    everything = tuple(range(len(dataset.answers)))
    return replace(dataset, questions=[replace(question, candidates=everything) for question in dataset.questions])
