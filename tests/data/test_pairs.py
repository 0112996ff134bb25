"""Pairs among the entries of a FAQ: every entry is a candidate, and no pair disappears unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refused

from ap_ranker.data.faq import Match
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.wordings import read_with_wordings

FAQ = (
    "question,answer,wordings\n"
    'Where is my parcel?,Open the tracking link.,"lost parcel\nno parcel yet"\n'
    "How do I pay?,By card or invoice.,\n"
    "May I pay by card?,By card or invoice.,\n"
    "Is there a shop?,No. We only sell online.,\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "FAQ.csv").write_text(FAQ)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(*rows: tuple[str, str]) -> Path:
    path = Path("QUESTIONS.csv")
    path.write_text("question,answer\n" + "".join(f'"{question}","{answer}"\n' for question, answer in rows))
    return path


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("Open the tracking link.", (0,)),
        ("  open THE\n tracking   link. ", (0,)),
        ("Where is my parcel?\nOpen the tracking link.", (0,)),
        ("where is my parcel? open the tracking link.", (0,)),
        ("By card or invoice.", (1, 2)),
        ("May I pay by card?\nBy card or invoice.", (2,)),
    ],
)
def test_an_answer_is_recognized_by_its_text(folder: Path, answer: str, right: tuple[int, ...]) -> None:
    data = read_dataset(asked(("what now", answer)), "test", answers=Path("FAQ.csv"))
    assert len(data.answers) == 4
    assert data.questions[0].candidates is None
    assert data.questions[0].positives == right
    assert not data.notes
    assert not data.own_answers


def test_the_entries_are_those_of_a_search(folder: Path) -> None:
    data = read_dataset(asked(("what now", "No. We only sell online.")), "test", answers=Path("FAQ.csv"))
    assert data.answers[0].text == "Where is my parcel?\nOpen the tracking link."
    assert data.answers[0].wordings == ("Where is my parcel?", "lost parcel", "no parcel yet")
    short = read_dataset(asked(("q", "No. We only sell online.")), "test", answers=Path("FAQ.csv"), match=Match.answer)
    assert [answer.text for answer in short.answers][1:3] == ["By card or invoice."] * 2


def test_a_question_does_not_meet_its_own_text(folder: Path) -> None:
    """A stored question that is asked stays a known wording, but is no part of the text that is matched."""
    rows = (("how do i PAY", "By card or invoice."), ("lost parcel", "Open the tracking link."))
    data = read_dataset(asked(*rows), "test", answers=Path("FAQ.csv"))
    assert data.answers[1].text == "By card or invoice."
    assert data.answers[1].wordings == ("How do I pay?",)
    assert data.answers[2].text == "May I pay by card?\nBy card or invoice."
    assert data.questions[0].positives == (1, 2)


def test_pairs_whose_answer_is_not_there_are_counted_and_named(folder: Path) -> None:
    rows = [("q", "No. We only sell online."), *((f"q{n}", f"Other {n}.") for n in range(5))]
    data = read_dataset(asked(*rows), "test", answers=Path("FAQ.csv"))
    assert [question.text for question in data.questions] == ["q"]
    assert dict(data.notes) == {
        "pairs left out, because their answer is not in FAQ.csv: line 3; line 4; line 5; and 2 more": 5
    }
    with refused("QUESTIONS.csv … FAQ.csv"):
        read_dataset(asked(("q", "Other.")), "test", answers=Path("FAQ.csv"))


def test_the_two_files_may_name_their_columns_differently(folder: Path) -> None:
    Path("Q.csv").write_text("Kunde,Text\nwhat now,no. we only sell online.\n")
    data = read_dataset("Q.csv", "test", answers=Path("FAQ.csv"), columns=("Kunde", "Text"))
    assert data.questions[0].positives == (3,)


def test_judged_candidates_have_no_faq(folder: Path) -> None:
    Path("judged.csv").write_text("question,answer,label\nq,a,1\nq,b,0\n")
    with refused("--answers"):
        read_dataset("judged.csv", "test", answers=Path("FAQ.csv"))


def test_wordings_of_a_row_are_questions_too(folder: Path) -> None:
    data = read_dataset("FAQ.csv", "train")
    assert [question.text for question in data.questions if question.positives == (0,)] == [
        "Where is my parcel?",
        "lost parcel",
        "no parcel yet",
    ]
    assert data.own_answers


def test_a_file_of_pairs_has_wordings_for_entries_with_stored_questions(folder: Path) -> None:
    Path("more.csv").write_text("question,answer\nshop near me,no. we only sell ONLINE.\n")
    path = asked(("q", "Open the tracking link."))
    data = read_with_wordings(path, "test", answers=Path("FAQ.csv"), wordings="more.csv")
    assert data.answers[3].wordings == ("Is there a shop?", "shop near me")
    assert all("shop near me" not in answer.wordings for answer in data.answers[:3])
