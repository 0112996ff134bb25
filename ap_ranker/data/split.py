"""Divides questions into training, dev and test, which share no question and no near copy of one, and writes them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.html_cells import as_cell
from ap_ranker.data.reader import Layout, find_layout, read_pairs
from ap_ranker.data.tables import read_named_table
from ap_ranker.errors import InputError
from ap_ranker.files import atomic_directory, csv_text, restore
from ap_ranker.progress import Progress, untold
from ap_ranker.text.near_copies import near_groups

DEV = "dev.jsonl"
"""The file of a checkpoint with the dev questions that training has set aside; it is not pushed to the hub."""


def split_questions(
    dataset: Dataset, share: float, seed: int, on_progress: Progress = untold
) -> tuple[Dataset, Dataset]:
    """Set a share of the users' questions aside, at random by the seed: the remaining ones, and those set aside.

    Both keep all answers. The share is of the distinct texts of the users' answerable questions, between 0 and 1. Near
    copies stay together, so the result may miss it by the size of a group. Stored questions near one that was set aside
    are in neither part: they would reveal its answer. InputError if all of the users' answerable questions are near to
    each other, or there are none.
    """
    groups = near_groups(dataset.question_texts, on_progress).tolist()
    grouped = list(zip(dataset.questions, groups, strict=True))
    group_of: dict[str, int] = {}  # of the users' answerable questions
    for question, group in grouped:
        if question.positives and not question.stored:
            group_of[question.text.casefold()] = group
    n_groups = len(set(group_of.values()))
    if n_groups < 2:
        raise InputError(
            f"{dataset.name}: expected two different questions of users beside stored ones, one to choose the epoch "
            f"by, found {n_groups} (near copies count as one). Add some, or name a file of dev questions with --dev."
        )
    order = sorted(group_of)
    random.Random(seed).shuffle(order)
    groups_aside = _fill([group_of[text] for text in order], share)
    remaining: list[Question] = []
    held_out: list[Question] = []
    for question, group in grouped:
        part = held_out if group in groups_aside else remaining
        part.append(question)
    of_users = [question for question in held_out if not question.stored]
    left_out = {"stored questions equal or near to a dev question left out": len(held_out) - len(of_users)}
    withheld = dataset.withheld | {question.text for question in held_out}
    return (
        replace(dataset, questions=remaining, notes=dataset.notes + Counter(left_out), withheld=withheld),
        replace(dataset, questions=of_users, notes=Counter()),
    )


def _fill(order: Sequence[int], share: float) -> set[int]:
    """The first groups that fit into the share; the smallest group if none fits."""
    sizes = Counter(order)
    at_least_one = max(1, round(share * len(order)))
    left = min(at_least_one, len(order) - 1)
    taken: set[int] = set()
    for group, size in sizes.items():
        if size <= left:
            taken.add(group)
            left -= size
    return taken or {min(sizes, key=sizes.__getitem__)}


def split_file(
    path: Path,
    folder: Path,
    *,
    share: float = 0.15,
    seed: int = 1,
    columns: tuple[str, str] | None = None,
    on_progress: Progress = untold,
) -> dict[str, Dataset]:
    """Divide the questions of a FAQ, or of other pairs, into a folder of `train`, `dev` and `test`, and return these.

    The parts share no question and no near copy of one. All answers are candidates of all of them (`answers.csv`),
    without stored questions, which would be the questions of the test.

    Questions that are marked as unanswerable become dev and test questions, half of them each.

    The file is a table of pairs, whose further wordings are questions, too; its `columns` of questions and answers are
    recognized by default. The share, below 0.5, is that of the different questions that become dev questions, and that
    become test questions. The same seed gives the same split. InputError if the share is out of range, the folder holds
    something or cannot be written, or the file cannot be read, holds no pairs or too few different questions.
    """
    if not 0 < share < 0.5:
        raise InputError(f"Expected a share above 0 and below 0.5, as dev and test get one each, found {share:g}.")
    check_is_new(folder)
    table = read_named_table(path, columns)
    layout = find_layout(table)
    if layout != Layout.pairs:
        raise InputError(f"{path}: expected pairs of a question and its answer to split, found {layout}.")
    dataset = read_pairs(table)
    try:
        rest, test = split_questions(dataset, share, seed, on_progress)
        train, dev = split_questions(rest, share / (1 - share), seed, on_progress)
    except InputError as error:
        raise InputError(
            f"{path}: expected at least three different questions, one each for training, dev and test, found fewer "
            "(near copies count as one). Add some."
        ) from error
    train, dev, test = move_unanswerable(train, [dev, test], seed, on_progress)
    parts = {"train": train, "dev": dev, "test": test}
    write_parts(parts, dataset.answers, folder)
    return parts


def move_unanswerable(
    train: Dataset, parts: Sequence[Dataset], seed: int, on_progress: Progress = untold
) -> list[Dataset]:
    """The training questions without those that no answer is right for, and the other parts, which get them in turn.

    Nothing is learnt from them. Near copies stay together: one of an answerable training question stays with it.
    """
    if len(train.answerable) == len(train.questions):
        return [train, *parts]
    groups = near_groups(train.question_texts, on_progress).tolist()
    answerable_groups: set[int] = set()
    for question, group in zip(train.questions, groups, strict=True):
        if question.positives:
            answerable_groups.add(group)
    movable = sorted(set(groups) - answerable_groups)
    random.Random(seed).shuffle(movable)
    part_of = {group: number % len(parts) for number, group in enumerate(movable)}
    remaining: list[Question] = []
    moved: list[list[Question]] = [[] for _ in parts]
    for question, group in zip(train.questions, groups, strict=True):
        part = moved[part_of[group]] if group in part_of else remaining
        part.append(question)
    questions_of = [[*part.questions, *new] for part, new in zip(parts, moved, strict=True)]
    larger = [replace(part, questions=questions) for part, questions in zip(parts, questions_of, strict=True)]
    return [replace(train, questions=remaining), *larger]


def check_is_new(folder: Path) -> None:
    """Refuse a folder that holds something, which writing would replace, by an `InputError`."""
    restore(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder}: expected a folder that does not exist yet, found one. Choose another --output.")


def write_parts(parts: Mapping[str, Dataset], answers: Sequence[Answer], folder: Path) -> None:
    """Write data sets that share their answers: `answers.csv`, and the questions of each as `NAME.csv`."""
    answer_rows = [(answer.id, as_cell(answer.text)) for answer in answers]
    files = {"answers": csv_text(("aid", "answer"), answer_rows)}
    for name, part in parts.items():
        rows = []
        for question in part.questions:
            right_ids = " ".join(answers[row].id for row in question.positives)
            mark = "" if right_ids else "no"
            rows.append((question.id, as_cell(question.text), right_ids, mark))
        files[name] = csv_text(("qid", "question", "answer_ids", "answerable"), rows)
    with atomic_directory(folder) as draft:
        for name, text in files.items():
            (draft / f"{name}.csv").write_text(text, encoding="utf-8")


def question_lines(dataset: Dataset) -> str:
    """The questions with their right answers, or their judged candidates, as lines of JSON."""
    lines: list[dict[str, str]] = []
    names = dataset.classes if len(dataset.classes) > 2 else ("0", "1")
    cells = [as_cell(answer.text) for answer in dataset.answers]
    for question in dataset.questions:
        text = as_cell(question.text)
        if dataset.judged:
            judged = zip(question.candidates or (), question.labels, strict=True)
            for row, label in judged:
                lines.append({"qid": question.id, "question": text, "answer": cells[row], "label": names[label]})
        else:
            for row in question.positives:
                lines.append({"question": text, "answer": cells[row]})
            if not question.positives:
                lines.append({"question": text, "answer": "", "answerable": "no"})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
