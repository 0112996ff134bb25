"""Dev questions that do not flatter: users' own, and training sees neither their text nor a near copy."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.feedback import add_feedback
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import question_lines, split_file, split_questions
from ap_ranker.training.augment import with_answer_sentences
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.training_data import read_training_data

LONG = 12
"""Words of the one long question below, of which one may be another."""


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def near(one: str, other: str) -> bool:
    """Nearness of these questions alone: the same words, or one of a dozen others."""
    first, second = words_of(one), words_of(other)
    if len(first) != len(second):
        return False
    others = sum(word != counterpart for word, counterpart in zip(first, second, strict=True))
    return others == 0 or (len(first) >= LONG and others == 1 and first[-1] == second[-1])


def test_the_naive_nearness_tells_copies_from_others() -> None:
    assert near("Where is my parcel, please, and when?", "where is my parcel please and when")
    assert near("Ärger?", "ärger!")
    assert not near("Where is my parcel?", "Where is my refund?")


WORDS = ["parcel", "refund", "battery", "helmet", "subscription", "delivery", "garage", "invoice"]
TEMPLATES = [
    "where is my {}",
    "Where is my {}?",
    "the {} that I ordered from you last week has not arrived yet",
    "the {} that I ordered from you last week has not arrived, yet!",
    "can somebody help me with the {} of a friend",
    "{}",
]
questions = st.builds(str.format, st.sampled_from(TEMPLATES), st.sampled_from(WORDS))


@st.composite
def faqs(draw: st.DrawFn) -> Dataset:
    """A FAQ whose answers have stored questions, and what users asked; some of them as the FAQ itself does."""
    stored = draw(st.lists(questions | st.just(""), min_size=2, max_size=8))
    asked = draw(st.lists(st.tuples(questions, st.booleans()), min_size=2, max_size=25))
    answers = [Answer(str(row), f"{text}\nAll about it. And more of {row}.") for row, text in enumerate(stored)]
    users = [
        Question(f"u{n}", text, (n % len(stored),) if answerable else ()) for n, (text, answerable) in enumerate(asked)
    ]
    own = [Question(f"s{row}", text, (row,), stored=True) for row, text in enumerate(stored) if text]
    return Dataset("made up", answers, [*users, *own])


def components(texts: list[str]) -> list[set[str]]:
    """Texts that are near, near to those, and so on."""
    groups: list[set[str]] = []
    for text in texts:
        linked = [group for group in groups if any(near(text, other) for other in group)]
        groups = [group for group in groups if group not in linked] + [{text}.union(*linked)]
    return groups


@settings(max_examples=150, deadline=None)
@given(data=faqs(), share=st.sampled_from([0.1, 0.25, 0.5, 0.9]), seed=st.integers(0, 5))
def test_training_sees_no_dev_question(data: Dataset, share: float, seed: int) -> None:
    users = {question.text.casefold() for question in data.questions if question.positives and not question.stored}
    groups = [group & users for group in components([question.text.casefold() for question in data.questions])]
    groups = [group for group in groups if group]
    if len(groups) < 2:
        with refused("made up"):
            split_questions(data, share, seed)
        return
    kept, held = split_questions(data, share, seed)
    assert split_questions(data, share, seed) == (kept, held)
    assert not any(question.stored for question in held.questions)
    learnt = with_answer_sentences(kept).questions
    for dev in held.questions:
        assert not [question.text for question in learnt if near(question.text, dev.text)]

    # Nothing is lost but the stored questions that were left out, and these are counted.
    gone = [question for question in data.questions if question not in kept.questions + held.questions]
    assert all(question.stored for question in gone)
    assert kept.notes.total() == len(gone)
    assert kept.answerable
    assert held.answerable

    # The share is met as nearly as whole groups allow.
    size = len({question.text.casefold() for question in held.answerable})
    wanted = min(max(1, round(share * len(users))), len(users) - 1)
    assert size <= max(wanted, min(map(len, groups)))
    assert wanted - size < max(map(len, groups))


def test_a_share_of_different_questions_is_met_exactly() -> None:
    texts = [f"{name} {word}" for name in ("lost", "broken", "stolen", "new", "old") for word in WORDS]
    data = Dataset("d", [Answer("0", "a")], [Question(text, text, (0,)) for text in texts])
    for share in (0.1, 0.25, 0.5):
        assert len(split_questions(data, share, 1)[1].questions) == share * len(texts)


FAQ = {
    "answers.csv": "aid,question,answer\n"
    + "".join(f'{n},Where is my {w}?,"It is there. {w} and all."\n' for n, w in enumerate(WORDS)),
    "train.csv": "question,answer_ids\n" + "".join(f"where is my {w},{n}\n" for n, w in enumerate(WORDS)),
}


@pytest.fixture
def faq_folder(tmp_path: Path) -> Path:
    """A folder without dev questions; each user asked as the FAQ does."""
    for name, text in FAQ.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_command_line_sets_users_questions_aside(faq_folder: Path) -> None:
    training, dev = read_training_data(faq_folder, None, None, TrainingConfig(dev_share=0.25))
    assert len(dev.questions) == 2
    assert not any(question.stored for question in dev.questions)
    assert training.notes["stored questions equal or near to a dev question left out"] == 2
    learnt = with_answer_sentences(training).questions
    assert not [q.text for q in learnt for d in dev.questions if near(q.text, d.text)]
    assert len(training.questions) == 2 * (len(WORDS) - 2)


def test_too_few_questions(faq_folder: Path) -> None:
    (faq_folder / "train.csv").write_text("question,answer_ids\nwhere is my parcel,0\nWhere is my parcel?,0\n")
    with refused("train.csv … 1"):
        read_training_data(faq_folder, None, None, TrainingConfig())


def test_data_with_dev_questions_of_its_own_is_left_as_it_is(faq_folder: Path) -> None:
    (faq_folder / "dev.csv").write_text("question,answer_ids\nWhere is my parcel?,0\n")
    training, dev = read_training_data(faq_folder, None, None, TrainingConfig())
    assert training == read_dataset(faq_folder, "train")
    assert [question.text for question in training.questions if question.stored] == [f"Where is my {w}?" for w in WORDS]
    assert [question.text for question in dev.questions] == ["Where is my parcel?"]
    with_sentences = with_answer_sentences(replace(training, withheld=frozenset()))
    assert with_answer_sentences(training) == with_sentences


def test_the_example_is_read_as_ever() -> None:
    training, dev = read_training_data(ROOT / "examples" / "faq", None, None, TrainingConfig())
    users = [question for question in training.questions if not question.stored]
    stored = [question for question in training.questions if question.stored]
    assert (len(users), len(stored), len(training.answers)) == (1680, 168, 168)
    assert not training.withheld
    assert dev.answerable


def test_feedback_near_to_a_dev_question_is_not_learnt(tmp_path: Path) -> None:
    data = Dataset("faq", [Answer("0", "It is free.")], [Question("a", "what is the price", (0,))])
    dev = replace(data, questions=[Question("d", "how much is the delivery to an island", (0,))])
    (tmp_path / "f.csv").write_text(
        "question,answer,label\nHow much is the delivery to an island?!,It is free.,1\ncost,It is free.,1\n"
    )
    found = add_feedback(data, dev, tmp_path / "f.csv")
    assert [question.text for question in found.questions] == ["what is the price", "cost"]
    assert found.notes["judgements for dev questions left out"] == 1


UNANSWERABLE = ["do you repair lawn mowers", "can I rent a tent", "who won the match", "may I bring my dog"]


def pairs_with_unanswerable(folder: Path) -> Path:
    rows = [f"where is my {word},Open the link for {word}.," for word in WORDS]
    rows += [f"{question},,{mark}" for question, mark in zip(UNANSWERABLE, ("no", "No", "0", "false"), strict=True)]
    file = folder / "pairs.csv"
    file.write_text("question,answer,answerable\n" + "\n".join(rows) + "\n")
    return file


def test_unanswerable_questions_are_dev_and_test_questions(tmp_path: Path) -> None:
    """A row of a table of pairs says so, and what is written is read again; nothing is learnt from them."""
    parts = split_file(pairs_with_unanswerable(tmp_path), tmp_path / "data")
    read = {name: read_dataset(tmp_path / "data", name) for name in ("train", "dev", "test")}
    without = {name: [q.text for q in data.questions if not q.positives] for name, data in read.items()}
    assert without["train"] == []
    assert len(without["dev"]) == len(without["test"]) == 2
    assert sorted(without["dev"] + without["test"]) == sorted(UNANSWERABLE)
    for name, part in parts.items():
        assert [q.text for q in part.questions] == [q.text for q in read[name].questions if not q.stored]
        assert part.answerable
        assert len(read[name].answers) == len(WORDS)


def test_training_sets_unanswerable_questions_aside(tmp_path: Path) -> None:
    """And the checkpoint's own dev questions are read again with them."""
    training, dev = read_training_data(pairs_with_unanswerable(tmp_path), None, None, TrainingConfig())
    assert len(training.answerable) == len(training.questions)
    assert sorted(q.text for q in dev.questions if not q.positives) == sorted(UNANSWERABLE)
    kept = tmp_path / "dev.jsonl"
    kept.write_text(question_lines(dev))
    again = read_dataset(kept, "dev")
    assert sorted(q.text for q in again.questions if not q.positives) == sorted(UNANSWERABLE)
    assert len(again.answerable) == len(dev.answerable)


def test_an_answer_to_an_unanswerable_question_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("question,answer,answerable\nwhere is it,There.,yes\ncan I rent a tent,Yes.,no\n")
    with refused("pairs.csv, line 3 … answer … unanswerable"):
        read_dataset(file, "train")


def test_unanswerable_questions_beside_a_faq(tmp_path: Path) -> None:
    """Dev questions as a table of pairs, whose answers are those of a FAQ."""
    file = pairs_with_unanswerable(tmp_path)
    faq = tmp_path / "faq.csv"
    faq.write_text("question,answer\n" + "".join(f"Where is my {word}?,Open the link for {word}.\n" for word in WORDS))
    data = read_dataset(file, "dev", answers=faq)
    assert sorted(q.text for q in data.questions if not q.positives) == sorted(UNANSWERABLE)
    assert len(data.answerable) == len(WORDS)
