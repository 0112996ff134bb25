"""Writes questions, answers and entries as files that `read_dataset` and `read_faq` read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ap_ranker.data.columns import read_named_table
from ap_ranker.data.dataset import Answer, Dataset
from ap_ranker.data.faq import Entry
from ap_ranker.data.reader import Layout, find_layout, read_pairs
from ap_ranker.data.split import split_questions
from ap_ranker.errors import InputError
from ap_ranker.files import atomic_directory, csv_text, restore, write_text_atomically

DEV = "dev.jsonl"
"""The file of a checkpoint with the dev questions that training has set aside; it is not pushed to the hub."""


def question_lines(dataset: Dataset) -> str:
    """The questions with their right answers, or their judged candidates, as lines of JSON."""
    lines: list[dict[str, str]] = []
    names = dataset.classes if len(dataset.classes) > 2 else ("0", "1")
    for question in dataset.questions:
        judged = zip(question.candidates or (), question.labels, strict=True) if dataset.judged else ()
        texts = {"qid": question.id, "question": question.text}
        lines += [texts | {"answer": dataset.answers[row].text, "label": names[label]} for row, label in judged]
        if not dataset.judged:
            lines += [{"question": question.text, "answer": dataset.answers[row].text} for row in question.positives]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def write_entries(entries: Sequence[Entry], path: Path) -> None:
    """Write the entries of a FAQ as a CSV file: their other columns, question, answer and wordings, one per line."""
    others = list(dict.fromkeys(name for entry in entries for name in entry.other))
    rows = (
        [*(entry.other.get(name, "") for name in others), entry.question, entry.answer, "\n".join(entry.wordings)]
        for entry in entries
    )
    write_text_atomically(path, csv_text([*others, "question", "answer", "wordings"], rows))


def split_file(
    path: Path,
    folder: Path,
    *,
    share: float = 0.15,
    by_answer: bool = False,
    seed: int = 1,
    columns: tuple[str, str] | None = None,
) -> dict[str, Dataset]:
    """Divide the questions of a FAQ, or of other pairs, into a folder of `train`, `dev` and `test`, and return these.

    The parts share no question and no near copy of one. All answers are candidates of all of them (`answers.csv`),
    without stored questions, which would be the questions of the test.

    Args:
        path: a table of pairs; further wordings of a row are questions, too.
        folder: the folder to write, which does not exist or is empty.
        share: of the different questions that become dev questions, and that become test questions; below 0.5.
        by_answer: keep all questions of an answer in one part: the test has answers that training does not know.
        seed: same seed, same split.
        columns: the names of the columns of questions and answers; by default they are recognized.

    Raises:
        InputError: the share is out of range, the folder holds something, or the file cannot be read, holds no pairs
            or too few different questions.
        WriteError: the folder cannot be written.
    """
    if not 0 < share < 0.5:
        raise InputError(f"Expected a share above 0 and below 0.5, as dev and test get one each, found {share:g}.")
    check_is_new(folder)
    table = read_named_table(path, columns)
    if (layout := find_layout(table)) != Layout.pairs:
        raise InputError(f"{path}: expected pairs of a question and its answer to split, found {layout}.")
    dataset = read_pairs(table)
    try:
        rest, test = split_questions(dataset, share, seed, by_answer=by_answer)
        train, dev = split_questions(rest, share / (1 - share), seed, by_answer=by_answer)
    except InputError as error:
        together = " and all questions of an answer" if by_answer else ""
        raise InputError(
            f"{path}: expected at least three different questions, one each for training, dev and test, found fewer "
            f"(near copies{together} count as one)."
        ) from error
    parts = {"train": train, "dev": dev, "test": test}
    write_parts(parts, dataset.answers, folder)
    return parts


def check_is_new(folder: Path) -> None:
    """Refuse a folder that holds something, which writing would replace, by an `InputError`."""
    restore(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder}: expected a folder that does not exist yet, found one. Choose another --output.")


def write_parts(parts: Mapping[str, Dataset], answers: Sequence[Answer], folder: Path) -> None:
    """Write data sets that share their answers: `answers.csv`, and the questions of each as `NAME.csv`."""
    files = {"answers": csv_text(("aid", "answer"), ((answer.id, answer.text) for answer in answers))}
    for name, part in parts.items():
        rows = ((q.id, q.text, " ".join(answers[row].id for row in q.positives)) for q in part.questions)
        files[name] = csv_text(("qid", "question", "answer_ids"), rows)
    with atomic_directory(folder) as draft:
        for name, text in files.items():
            (draft / f"{name}.csv").write_text(text, encoding="utf-8")
