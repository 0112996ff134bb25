"""What a FAQ lacks: which questions count, how they are grouped, and the rows that are written."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from conftest import TEXTS
from haystack import Document

from ap_ranker.data.faq import Entry, Match, read_faq
from ap_ranker.data.wordings import Wordings
from ap_ranker.errors import InputError
from ap_ranker.web.database import open_database
from ap_ranker.web.gaps import Gap, Unanswered, find_unanswered, group, still_open, write_gaps
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.question_log import QuestionLog

FAQ = [Entry(question, answer, {}, "") for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)]


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


def test_which_questions_count(place: str) -> None:
    database = open_database(place)
    judged = [("did not help", "A", False), ("helped one of two", "A", False), ("helped one of two", "B", True)]
    for question, answer, helped in [*judged, ("helped", "A", True)]:
        given = {"question": question, "answer": answer, "stored_question": "", "helped": helped}
        Judgements(database).keep(**given, network="n", visit=answer)
    log = QuestionLog(database)
    for question in ("no", "=cmd|'/c calc'!A0", "+-", "nothing"):
        log.add(question, "n", [], [] if question == "nothing" else None)
    log.add("yes", "n", [Document(content="an answer", score=0.9)])
    log.close()

    assert find_unanswered(database) == [
        Unanswered("no"),
        Unanswered("cmd|'/c calc'!A0"),
        Unanswered("nothing"),
        Unanswered("did not help", "a"),
    ]


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
