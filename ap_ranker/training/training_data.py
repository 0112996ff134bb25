"""Reads the data of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ap_ranker.data.dataset import Dataset, answerable
from ap_ranker.data.reader import find_split, read_dataset
from ap_ranker.data.tables import read_columns
from ap_ranker.progress import Progress, untold

if TYPE_CHECKING:
    from ap_ranker.training.config import TrainingConfig


def read_training_data(
    data: Path,
    dev: Path | None,
    answers: Path | None,
    config: TrainingConfig,
    feedback: Path | None = None,
    columns: tuple[str, str] | None = None,
    on_progress: Progress = untold,
) -> tuple[Dataset, Dataset]:
    """Read the training and dev questions, with `answers` and `columns` as for `read_dataset`.

    `data` is a file of training questions, or a folder with `train.*` and, if there is one, `dev.*`. Without `dev`
    questions, some of the users' questions are set aside as `config` says, with all unanswerable ones. Users'
    `feedback` is learnt from as well.
    InputError if the data cannot be read, has no right answer, or too few questions to set some aside.
    """
    from ap_ranker.data.feedback import add_feedback  # its libraries, and those of the next, take a second to load
    from ap_ranker.data.split import move_unanswerable, split_questions

    training = read_dataset(data, "train", answers=answers, match=config.match, columns=columns)
    if dev is not None or find_split(data, "dev"):
        development = read_dataset(dev or data, "dev", answers=answers, match=config.match, columns=columns)
    else:
        answerable(training)
        training, development = split_questions(training, config.dev_share, config.seed, on_progress)
        if not training.judged:  # a judged question without a right answer has wrong ones to learn from
            training, development = move_unanswerable(training, [development], config.seed, on_progress)
    if feedback is not None:
        training = add_feedback(training, development, feedback)
    for questions in (training, development):
        answerable(questions)
    return training, development


def read_questions(path: Path, dev: Dataset) -> list[str]:
    """Read questions whose answers are unknown: a table's column question, without those of `dev` and near copies.

    InputError if the file cannot be read, has no such column, or has a row without a question.
    """
    from ap_ranker.text.near_copies import near_any  # as above

    table = read_columns(path, "question")
    texts = list(dict.fromkeys(row.need("question") for row in table.rows))
    held_out = near_any(set(texts), set(dev.question_texts))
    return [text for text in texts if text not in held_out]
