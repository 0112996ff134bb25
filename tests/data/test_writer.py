"""A split shares no question and flatters nobody; what is written is read again."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from command_line import run
from conftest import ROOT
from refusals import absent, refused

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import question_lines, split_file
from ap_ranker.text.question_keys import question_key

PARTS = ("train", "dev", "test")


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    """Users' questions about the example FAQ as one spreadsheet, some of them twice in another form."""
    data = read_dataset(ROOT / "examples" / "faq", "dev")
    pairs = [(question.text, data.answers[question.positives[0]].text) for question in data.answerable]
    with (tmp_path / "FAQ.csv").open("w", encoding="utf-8", newline="") as file:
        copies = [(f" {question.upper()} ?", answer) for question, answer in pairs[:40]]
        csv.writer(file).writerows([("question", "answer"), *pairs, *copies])
    return tmp_path / "FAQ.csv"


def test_the_parts_share_nothing_and_lose_nothing(faq: Path, tmp_path: Path) -> None:
    split_file(faq, tmp_path / "data")
    whole = read_dataset(faq, "test")
    parts = {name: read_dataset(tmp_path / "data", name) for name in PARTS}
    keys = [{question_key(question.text) for question in part.questions} for part in parts.values()]
    assert not keys[0] & keys[1]
    assert not keys[0] & keys[2]
    assert not keys[1] & keys[2]
    read = [
        (question.text, part.answers[row].text)
        for part in parts.values()
        for question in part.questions
        for row in question.positives
    ]
    assert sorted(read) == sorted((q.text, whole.answers[row].text) for q in whole.questions for row in q.positives)
    for part in parts.values():
        assert [answer.text for answer in part.answers] == [answer.text for answer in whole.answers]
        assert not part.own_answers
        assert part.questions[0].candidates is None
    distinct = len(set.union(*keys))
    for few in keys[1:]:
        assert len(few) == pytest.approx(0.15 * distinct, rel=0.2)


def test_a_seed_decides(faq: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        split_file(faq, tmp_path / name, seed=seed)
    texts = [[(tmp_path / name / f"{part}.csv").read_text() for part in PARTS] for name in "abc"]
    assert texts[0] == texts[1] != texts[2]


def test_the_command(faq: Path, tmp_path: Path) -> None:
    result = run("split", "FAQ.csv", "--output", "data", folder=tmp_path)
    assert result.code == 0, result.errors
    assert "Wrote data: " in result.output
    before = sorted((path, path.read_bytes()) for path in (tmp_path / "data").iterdir())
    again = run("split", "FAQ.csv", "--output", "data", "--seed", 2, folder=tmp_path)
    assert (again.code, absent("data … --output", again.errors)) == (2, [])
    assert sorted((path, path.read_bytes()) for path in (tmp_path / "data").iterdir()) == before


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("question,answer\nq,a\nQ?,b\n", "x.csv … three"),
        ("question,answer,label\nq,a,1\n", "x.csv … judged"),
        ("question,answer_ids\nq,1\n", "x.csv … by id"),
        ("question,answer\nq,\n", "line 2 … answer"),
    ],
)
def test_data_that_cannot_be_split(content: str, facts: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(content)
    with refused(facts):
        split_file(tmp_path / "x.csv", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_share_that_leaves_nothing(faq: Path, tmp_path: Path) -> None:
    with refused("0 … 0.5 … 0.5"):
        split_file(faq, tmp_path / "data", share=0.5)


def test_questions_set_aside_are_read_again(tmp_path: Path) -> None:
    answers = [Answer("x", 'One "quoted"\nline'), Answer("y", "Two")]
    shared = Dataset("d", answers, [Question("1", "a,b\nc", (0, 1)), Question("2", "é?", (1,))])
    judged = Dataset("d", answers, [Question("7", "q", (1,), (0, 1), (0, 1))], judged=True)
    classes = ("Bad", "PotentiallyUseful", "Good")
    graded = Dataset("d", answers, [Question("7", "q", (0,), (0, 1), (2, 1))], judged=True, classes=classes)
    for data in (shared, judged, graded):
        (tmp_path / "dev.jsonl").write_text(question_lines(data), encoding="utf-8")
        read = read_dataset(tmp_path, "dev")
        for question, again in zip(data.questions, read.questions, strict=True):
            assert again.text == question.text
            right = [{part.answers[row].text for row in q.positives} for part, q in ((data, question), (read, again))]
            assert right[0] == right[1]
            assert again.labels == question.labels
        assert (read.judged, read.classes) == (data.judged, data.classes)
