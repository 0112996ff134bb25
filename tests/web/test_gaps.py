"""What a FAQ lacks: which questions count, how they are grouped, and the rows that are written."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from conftest import TEXTS
from haystack import Document

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Entry, Match, read_faq
from ap_ranker.data.wordings import Wordings
from ap_ranker.errors import InputError
from ap_ranker.web.gaps import Gap, Unanswered, find_unanswered, group, still_open, write_gaps
from ap_ranker.web.question_log import LoggedQuestion, Outcome, QuestionLog

FAQ = [Entry(question, answer, {}, "") for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)]


def logged(outcome: str, *questions: str) -> list[LoggedQuestion]:
    return [LoggedQuestion("2026-01-01", question, Outcome(outcome)) for question in questions]


WORDS = ["dogs", "Rent", "rent", "tour", "bikes"]


def by_first_word(texts: Sequence[str], shared: float = 0.0) -> np.ndarray:
    """Vectors of the first words, and a little of the whole text; all questions have `shared` in common."""
    vectors = np.random.default_rng(0).normal(scale=0.05, size=(len(texts), 50))
    for row, text in enumerate(texts):
        vectors[row, WORDS.index(text.split()[0])] += 1
    vectors[:, -1] += shared
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def grouped(*texts: str) -> list[Gap]:
    return group([Unanswered(text) for text in texts], by_first_word)


def write_feedback(path: Path, *judgements: tuple[str, str, int]) -> Path:
    rows = [{"question": question, "answer": answer, "label": label} for question, answer, label in judgements]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_which_questions_count(tmp_path: Path) -> None:
    feedback = write_feedback(
        tmp_path / "feedback.jsonl",
        ("did not help", "A", 0),
        ("helped one of two", "A", 0),
        ("helped one of two", "B", 1),
        ("helped", "A", 1),
    )
    questions = [*logged("refused", "no", "=cmd|'/c calc'!A0", "+-"), *logged("answered", "yes")]
    questions += logged("nothing found", "nothing")
    found = find_unanswered(questions, feedback)
    assert found == [
        Unanswered("no"),
        Unanswered("cmd|'/c calc'!A0"),
        Unanswered("nothing"),
        Unanswered("did not help", "a"),
    ]
    (tmp_path / "new.jsonl").touch()
    assert find_unanswered([], tmp_path / "new.jsonl") == []


def test_what_is_answered_by_now() -> None:
    text = FAQ[0].text(Match.both).casefold().replace("\n", " ")
    entries = [*FAQ, Entry("new question", "new answer", {"aid": "n"}, "", ("another wording",))]
    known = [Wordings(by_id={"n": ["from a file"]})]
    asked = ["New question?", "another  wording", "from a file!", "something else"]
    assert still_open([Unanswered(one) for one in asked], entries, Match.both, known) == [Unanswered("something else")]
    unhelpful = Unanswered(TEXTS[0], text)  # its entry knows it, but the answer does not help
    assert still_open([unhelpful], FAQ, Match.both) == [unhelpful]
    assert still_open([unhelpful], [Entry(TEXTS[0], "A better answer.", {}, "")], Match.both) == []
    elsewhere = [*FAQ, Entry("Other?", "Other.", {}, "", (TEXTS[0],))]
    assert still_open([unhelpful], elsewhere, Match.both) == []


def test_groups_the_largest_first() -> None:
    texts = [f"{topic} about the matter {word}" for topic, words in TOPICS.items() for word in words]
    np.random.default_rng(1).shuffle(texts)
    gaps = grouped(*texts)
    assert [gap.asked for gap in gaps] == [4, 3, 1]
    assert [{question.split()[0] for question in gap.questions} for gap in gaps] == [{"dogs"}, {"rent"}, {"tour"}]
    assert sorted(question for gap in gaps for question in gap.questions) == sorted(texts)


TOPICS = {
    "rent": ("one entirely", "two somewhat", "three hardly"),
    "dogs": ("brown ones", "small ones maybe", "that bark at night", "or cats"),
    "tour": ("guide",),
}


def test_near_copies_are_counted_not_repeated() -> None:
    same = ["rent a bike for the whole day", "Rent a bike for the whole day?", "rent a bike for the whole day"]
    (gap,) = grouped(*same)
    assert gap == Gap(("rent a bike for the whole day",), 3)
    first, second = grouped(*same, "dogs")
    assert (first.asked, second.asked) == (3, 1)
    assert grouped() == []


def test_what_all_questions_have_in_common_does_not_count() -> None:
    texts = [Unanswered(text) for text in ("dogs one", "dogs not two", "rent three", "rent any four")]
    known = [f"{topic} number {number}" for number in range(200) for topic in ("dogs", "rent")]

    def embed(texts: Sequence[str]) -> np.ndarray:
        return by_first_word(texts, shared=3.0)

    assert len(group(texts, embed)) == 1
    assert sorted(len(gap.questions) for gap in group(texts, embed, known)) == [2, 2]


def test_without_vectors_only_near_copies_are_joined() -> None:
    gaps = group([Unanswered(text) for text in ("rent a bike", "Rent a bike!", "bike rental")], None)
    assert [(len(gap.questions), gap.asked) for gap in gaps] == [(1, 2), (1, 1)]


def test_the_rows_become_entries_once_answered(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    write_gaps([Gap(('rent, "now"', "hire\tone"), 7, "e", "Do you sell bikes?", 0.25), Gap(("dogs",), 1)], path)
    with pytest.raises(InputError, match="expected text in column 'answer', found nothing"):
        read_faq(path)
    rows = list(csv.DictReader(path.open(newline="")))
    assert rows[0]["asked"] == "7"
    assert rows[0]["nearest_question"] == "Do you sell bikes?"
    for row in rows:
        row["answer"] = f"About {row['question']}."
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    first, second = read_faq(path)
    assert (first.question, first.answer, first.wordings) == ('rent, "now"', 'About rent, "now".', ("hire\tone",))
    assert second.wordings == ()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A FAQ, a log of its search, and feedback."""
    with (tmp_path / "faq.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *((entry.question, entry.answer) for entry in FAQ)])
    log = QuestionLog(tmp_path / "questions.jsonl")
    for question in ("do you rent bikes", "Do you rent bikes?", "the tour", TEXTS[0]):
        log.add(question, [], [])
    log.add("where is my parcel now", [Document(content="an answer", score=0.9)])
    log.close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*options: str) -> Any:
    return CliRunner().invoke(app, ["gaps", "questions.jsonl", *options])


def test_the_command(place: Path, checkpoint: Path) -> None:
    """With a model that has no vectors."""
    tour_helped = ("the tour", FAQ[2].text(Match.both), 1)  # one visitor's click answers nobody else
    write_feedback(place / "feedback.jsonl", ("my bike's battery", FAQ[2].text(Match.both), 0), tour_helped)
    result = run(
        "--documents", "faq.csv", "--model", str(checkpoint), "--feedback", "feedback.jsonl", "--output", "gaps.csv"
    )
    assert result.exit_code == 0, result.output
    assert "5 questions, 4 of them without an answer. 1 answers did not help." in result.output
    assert "1 of these questions are in the FAQ by now." in result.output
    rows = list(csv.DictReader((place / "gaps.csv").open(newline="")))
    assert [(row["question"], row["asked"]) for row in rows] == [
        ("Do you rent bikes?", "2"),
        ("my bike's battery", "1"),
        ("the tour", "1"),
    ]
    assert rows[1]["nearest_question"] in TEXTS[::2]
    assert 0 <= float(rows[1]["nearest_score"]) <= 1


def test_mistakes(place: Path) -> None:
    for options, message in [
        ([], "Name it with --documents"),
        (["--documents", "faq.csv", "--output", "gaps.xlsx"], "ending in .csv"),
        (["--documents", "none.csv"], "No file"),
        (["--documents", "faq.csv", "--feedback", "none.jsonl"], "No file"),
    ]:
        error = run(*options).exception
        assert isinstance(error, InputError), options
        assert message in str(error)
