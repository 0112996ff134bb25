"""Users' judgements as training data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.feedback import add_feedback, read_feedback

TRAINING = Dataset(
    "faq",
    [Answer("0", "Where is it?\nOn its way."), Answer("1", "It is free."), Answer("2", "Next week.")],
    [Question("a", "where", (0,)), Question("b", "when", (2,))],
)
DEV = replace(TRAINING, questions=[Question("d", "How Much", (1,))])


def write(folder: Path, *lines: tuple[str, str, int, str]) -> Path:
    keys = ("question", "answer", "label", "stored_question")
    path = folder / "feedback.jsonl"
    path.write_text("".join(json.dumps(dict(zip(keys, line, strict=True))) + "\n" for line in lines))
    return path


def test_what_helped_is_learnt(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        ("my parcel", "Where is it?\nOn its way.", 1, "Where is it?"),
        ("my parcel", "It is free.", 0, ""),
        ("price", "What does it cost?\nIt is free.", 1, "What does it cost?"),  # the data has the answer alone
        ("when", "It is free.", 1, ""),  # a question that the data has, with another right answer
        ("how much", "It is free.", 1, ""),  # of dev
        ("old", "An answer that is gone.", 1, ""),
    )
    found = add_feedback(TRAINING, DEV, path)
    assert {question.text: question.positives for question in found.questions} == {
        "where": (0,),
        "when": (2, 1),
        "my parcel": (0,),
        "price": (1,),
    }
    assert found.answers == TRAINING.answers
    assert dict(found.notes) == {
        "judgements for dev questions left out": 1,
        "judgements of answers that the data does not have left out": 1,
        "questions that users' feedback answers": 3,
    }


@pytest.mark.parametrize(("labels", "learnt"), [([1, 0], False), ([1, 0, 1], True), ([0, 1, 0], False), ([0], False)])
def test_users_who_disagree(tmp_path: Path, labels: list[int], learnt: bool) -> None:
    path = write(tmp_path, *(("price", "It is free.", label, "") for label in labels))
    assert ("price" in [question.text for question in add_feedback(TRAINING, DEV, path).questions]) == learnt


def test_a_file_without_judgements(tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").touch()
    assert read_feedback(tmp_path / "new.jsonl") == []
    with refused("none.jsonl"):
        read_feedback(tmp_path / "none.jsonl")


def test_what_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ("price", "It is free.", 2, ""))
    with refused("feedback.jsonl, line 1 … 1 … '2'"):
        add_feedback(TRAINING, DEV, path)
    with refused("feedback.jsonl"):
        add_feedback(replace(TRAINING, judged=True), DEV, path)
    path.write_text('{"question": "a", "answer": "b"}\n')
    with refused("'label' … question, answer"):
        add_feedback(TRAINING, DEV, path)
