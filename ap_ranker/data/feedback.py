"""Users' judgements of answers that a search showed them, as more questions to learn from."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.data.tables import Row, read_table
from ap_ranker.errors import InputError, one_line

COLUMNS = ("question", "answer", "label")
"""A file of feedback is one of judged candidates, so it can be read as any other data, too."""


def add_feedback(training: Dataset, dev: Dataset, path: Path) -> Dataset:
    """The training data, and each question that users said an answer of it had helped with.

    An answer that did not help adds nothing: where another one did, all the others count as wrong already. If users
    disagree, more of them must have said that it helped than that it did not.

    Args:
        training: its answers are shared by all its questions.
        dev: its questions and near copies of them are not learnt from, whatever users said.
        path: what `ap-ranker serve` wrote.

    Raises:
        InputError: the file cannot be read, or the data's candidates were judged one by one.
    """
    from ap_ranker.data.audit.near import near_any  # its libraries take a second to load, and a command only names us

    table = read_table(path)
    if missing := [column for column in COLUMNS if column not in table.columns]:
        raise InputError(f"{path}: expected a column {missing[0]!r}, found {table.header}.")
    if training.judged:
        raise InputError(
            f"{path}: feedback adds to data whose answers are shared by all questions, found candidates judged for "
            f"each question in {training.name}. It has the same columns: append its lines to that file instead."
        )
    places = {answer.text: place for place, answer in enumerate(training.answers)}
    asked = {row.need("question") for row in table.rows}
    held = near_any(asked, {question.text for question in dev.questions})
    votes: defaultdict[tuple[str, int], int] = defaultdict(int)
    notes: Counter[str] = Counter()
    for row in table.rows:
        place = next((places[text] for text in _texts(row) if text in places), None)
        if place is None:
            notes["judgements of answers that the data does not have left out"] += 1
        elif row.need("question") in held:
            notes["judgements for dev questions left out"] += 1
        else:
            votes[row.need("question"), place] += 1 if _helped(row) else -1
    right: defaultdict[str, list[int]] = defaultdict(list)
    for (text, place), balance in votes.items():
        if balance > 0:
            right[text].append(place)
    notes["questions that users' feedback answers"] = len(right)
    known = [
        replace(question, positives=tuple(dict.fromkeys((*question.positives, *right.pop(question.text, [])))))
        for question in training.questions
    ]
    new = [Question(f"feedback-{number}", text, tuple(rows)) for number, (text, rows) in enumerate(right.items())]
    return replace(training, questions=[*known, *new], notes=training.notes + notes)


def _texts(row: Row) -> tuple[str, str]:
    """What was matched, and without the stored question, which data in the layout of pairs does not have."""
    answer = row.need("answer")
    return answer, answer.removeprefix(f"{row.get('stored_question')}\n")


def _helped(row: Row) -> bool:
    label = row.need("label")
    if label not in ("0", "1"):
        raise InputError(
            f"{row.place}: expected a label 1 (it helped) or 0 (it did not), found {one_line(repr(label))}."
        )
    return label == "1"
