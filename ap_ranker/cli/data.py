"""The data that several commands read, and what they say of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from ap_ranker.cli.console import Console

if TYPE_CHECKING:
    from ap_ranker.data.dataset import Dataset
    from ap_ranker.training.config import TrainingConfig


def read_training_data(
    data: Path, dev: Path | None, answers: Path | None, settings: TrainingConfig
) -> tuple[Dataset, Dataset]:
    """The training and dev data; without a dev file, some of the users' questions are set aside."""
    from ap_ranker.data.reader import find_split, read_dataset
    from ap_ranker.data.split import split_questions

    training = read_dataset(data, "train", answers=answers, match=settings.match)
    if dev is not None or (data.is_dir() and find_split(data, "dev")):
        return training, read_dataset(dev or data, "dev", answers=answers, match=settings.match)
    return split_questions(training, settings.dev_share, settings.seed)


def describe(console: Console, title: str, data: Dataset) -> None:
    """What a data set holds, and what was left out or merged."""
    console.print(
        f"{title}: {len(data.answerable):,} questions, {data.pairs:,} right answers among {len(data.answers):,} "
        f"({escape(data.name)})"
    )
    for reason, count in data.notes.items():
        console.print(f"  {count:,} {reason}")
    if without := len(data.questions) - len(data.answerable):
        console.print(f"  {without:,} questions without a right answer set aside")
