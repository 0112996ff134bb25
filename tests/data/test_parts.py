"""The parts of a split and what is written of them, counted and written by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.split import (
    check_is_new,
    move_unanswerable,
    question_lines,
    split_file,
    split_questions,
    write_parts,
)

NAMES = ("parcel", "refund", "battery", "helmet", "subscription", "delivery", "garage", "invoice", "bell", "saddle")
VERBS = ("lost", "broken", "stolen", "sold")
TEXTS = [f"{verb} {name}" for verb in VERBS for name in NAMES]
"""Forty questions, none near another one."""

ANSWERS = [Answer("a", "Here."), Answer("b", "There & <b>then</b>.")]


def asked(texts: list[str], right: tuple[int, ...] = (0,), **options: bool) -> list[Question]:
    return [Question(text, text, right, **options) for text in texts]


def texts_of(*parts: Dataset) -> list[str]:
    return [text for part in parts for text in part.question_texts]


def pairs(folder: Path, texts: list[str]) -> Path:
    file = folder / "pairs.csv"
    file.write_text("question,answer\n" + "".join(f"{text},About {text}.\n" for text in texts))
    return file


@pytest.mark.parametrize(("share", "sizes"), [(0.15, (28, 6, 6)), (0.1, (32, 4, 4)), (0.45, (4, 18, 18))])
def test_dev_and_test_get_a_share_of_all_each(tmp_path: Path, share: float, sizes: tuple[int, ...]) -> None:
    """Of the forty, not of what the other one has left."""
    parts = split_file(pairs(tmp_path, TEXTS), tmp_path / "data", share=share)
    assert [len(part.questions) for part in parts.values()] == list(sizes)
    assert list(parts) == ["train", "dev", "test"]
    assert sorted(texts_of(*parts.values())) == sorted(TEXTS)


def test_what_is_not_said_is_15_percent_and_the_seed_1(tmp_path: Path) -> None:
    file = pairs(tmp_path, TEXTS)
    by_default = split_file(file, tmp_path / "a")
    for name, options, same in (("b", {"share": 0.15, "seed": 1}, True), ("c", {"seed": 2}, False)):
        parts = split_file(file, tmp_path / name, **options)  # type: ignore[arg-type]  # a share and a seed
        assert (texts_of(*parts.values()) == texts_of(*by_default.values())) is same
        assert len(parts["dev"].questions) == 6


def test_the_seed_also_parts_what_has_no_answer(tmp_path: Path) -> None:
    file = pairs(tmp_path, TEXTS[:20])
    marked = "".join(f"{text},,no\n" for text in TEXTS[20:])
    file.write_text(
        file.read_text().replace(".\n", ".,\n").replace("question,answer", "question,answer,answerable") + marked
    )
    first, second, other = (
        split_file(file, tmp_path / name, seed=seed) for name, seed in zip("abc", (1, 1, 2), strict=True)
    )
    for part in first:
        assert first[part].question_texts == second[part].question_texts
    assert first["dev"].question_texts != other["dev"].question_texts
    assert [sum(not q.positives for q in part.questions) for part in first.values()] == [0, 10, 10]


@pytest.mark.parametrize("share", [0.0, -0.1, 0.5, 0.6])
def test_a_share_that_leaves_a_part_empty(tmp_path: Path, share: float) -> None:
    with refused(f"0 … 0.5 … {share:g}"):
        split_file(pairs(tmp_path, TEXTS), tmp_path / "data", share=share)


def test_columns_that_are_named(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("one,two\n" + "".join(f"About {text}.,{text}\n" for text in TEXTS))
    parts = split_file(file, tmp_path / "data", columns=("two", "one"))
    assert sorted(texts_of(*parts.values())) == sorted(TEXTS)


def test_three_different_questions_are_enough(tmp_path: Path) -> None:
    parts = split_file(pairs(tmp_path, TEXTS[:3]), tmp_path / "data")
    assert [len(part.questions) for part in parts.values()] == [1, 1, 1]
    with refused("pairs.csv … three"):
        split_file(pairs(tmp_path, [*TEXTS[:2], f"{TEXTS[0]}?"]), tmp_path / "few")


@pytest.mark.parametrize(
    ("copies", "share", "sizes"),
    [
        ([1] * 10, 0.3, {3}),
        ([1] * 10, 0.04, {1}),  # at least one
        ([1] * 2, 0.99, {1}),  # and one is left
        ([4, 4], 0.1, {4}),  # whole groups: the smallest where none fits
        ([6, 2, 6], 0.1, {2}),
        ([5, 5, 1], 0.55, {5, 6}),
    ],
)
def test_groups_of_near_copies_stay_together(copies: list[int], share: float, sizes: set[int]) -> None:
    """Of a group of so many copies each, which differ by a sign, the parts get all or none."""
    groups = [[f"{text}{'?' * number}" for number in range(count)] for text, count in zip(TEXTS, copies, strict=False)]
    data = Dataset("d", ANSWERS, asked([text for group in groups for text in group]))
    for seed in range(5):
        kept, held = split_questions(data, share, seed)
        assert len(held.questions) in sizes
        for group in groups:
            assert len({text in texts_of(held) for text in group}) == 1
        assert texts_of(kept) == [text for text in data.question_texts if text not in texts_of(held)], "in their order"


def test_one_text_in_another_case_counts_once() -> None:
    data = Dataset("d", ANSWERS, asked([*TEXTS[:4], *(text.upper() for text in TEXTS[:4])]))
    for seed in range(5):
        held = split_questions(data, 0.25, seed)[1]
        assert {text.casefold() for text in texts_of(held)} in [{text} for text in TEXTS[:4]]
        assert len(held.questions) == 2


def test_stored_questions_are_nobodys_dev_questions() -> None:
    """One near a dev question is left out and counted; others stay, beside what is asked and has no answer."""
    stored = asked([f"{text}!" for text in TEXTS[:10]], stored=True)
    unanswerable = asked(TEXTS[20:24], ())
    data = Dataset("d", ANSWERS, [*stored, *asked(TEXTS[:10]), *unanswerable], withheld=frozenset({"x"}))
    data.notes["merged"] = 3
    kept, held = split_questions(data, 0.2, 1)
    assert len(held.questions) == 2
    gone = {f"{text}!" for text in texts_of(held)}
    assert texts_of(kept) == [text for text in data.question_texts if text not in {*texts_of(held), *gone}]
    assert kept.notes == {"merged": 3, "stored questions equal or near to a dev question left out": 2}
    assert held.notes == {}
    assert kept.withheld == {"x", *texts_of(held), *gone}
    assert [part.answers for part in (kept, held)] == [ANSWERS, ANSWERS]
    for few in (stored, unanswerable, [*stored, *asked(TEXTS[:1])]):
        with refused("d … two"):
            split_questions(replace(data, questions=few), 0.2, 1)
    two = replace(data, questions=[*stored, *asked(TEXTS[:2])])
    assert len(split_questions(two, 0.2, 1)[1].questions) == 1


def test_questions_without_an_answer_go_to_the_other_parts_in_turn() -> None:
    """None is lost; a near copy of one goes with it, and one that is near to an answerable question stays."""
    lone = [f"{text} {sign}" for text in TEXTS[:6] for sign in ("", "?")]
    near = f"{TEXTS[10]}?"
    train = Dataset("d", ANSWERS, [*asked(TEXTS[10:14]), *asked([*lone, near], ())])
    dev, test = (Dataset("d", ANSWERS, asked([text])) for text in TEXTS[20:22])
    for seed in range(4):
        rest, *others = move_unanswerable(train, [dev, test], seed)
        assert texts_of(rest) == [*TEXTS[10:14], near]
        assert [part.question_texts[0] for part in others] == TEXTS[20:22]
        new = [part.question_texts[1:] for part in others]
        assert [len(texts) for texts in new] == [6, 6]
        assert sorted(texts_of(*others)) == sorted([*lone, *TEXTS[20:22]])
        for place in range(0, 12, 2):
            assert [lone[place] in texts for texts in new] == [lone[place + 1] in texts for texts in new]
        assert move_unanswerable(train, [dev, test], seed) == [rest, *others]
    orders = {tuple(texts_of(*move_unanswerable(train, [dev, test], seed)[1:])) for seed in range(6)}
    assert len(orders) > 1, "by the seed"
    all_answerable = replace(train, questions=asked(TEXTS[:3]))
    assert move_unanswerable(all_answerable, [dev, test], 1) == [all_answerable, dev, test]


def test_the_files_of_the_parts(tmp_path: Path) -> None:
    """As docs/data has them: ids, and `no` where there is no answer; what a reader would take for HTML is escaped."""
    part = Dataset("d", ANSWERS, [Question("1", "q, <i>x</i>", (0, 1)), Question("2", "no", ())])
    write_parts({"train": part, "dev": replace(part, questions=[])}, ANSWERS, tmp_path / "data")
    written = {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "data").iterdir()}
    assert written == {
        "answers.csv": "aid,answer\na,Here.\nb,There &#38; &#60;b&#62;then&#60;/b&#62;.\n",
        "train.csv": 'qid,question,answer_ids,answerable\n1,"q, &#60;i&#62;x&#60;/i&#62;",a b,\n2,no,,no\n',
        "dev.csv": "qid,question,answer_ids,answerable\n",
    }


def test_lines_of_questions() -> None:
    """One for each right answer, or for each judged candidate with its label."""
    part = Dataset("d", ANSWERS, [Question("1", "ü?", (0, 1)), Question("2", "<i>x</i>", ())])
    there = "There &#38; &#60;b&#62;then&#60;/b&#62;."
    assert question_lines(part).count("ü") == 2, "as it is"
    assert [json.loads(line) for line in question_lines(part).splitlines()] == [
        {"question": "ü?", "answer": "Here."},
        {"question": "ü?", "answer": there},
        {"question": "&#60;i&#62;x&#60;/i&#62;", "answer": "", "answerable": "no"},
    ]
    for classes, names in ((("wrong", "right"), ("0", "1")), (("bad", "fair", "good"), ("bad", "fair"))):
        question = Question("7", "q", (1,), (1, 0), (1, 0))
        judged = Dataset("d", ANSWERS, [question, Question("8", "none", ())], judged=True, classes=classes)
        assert [json.loads(line) for line in question_lines(judged).splitlines()] == [
            {"qid": "7", "question": "q", "answer": there, "label": names[1]},
            {"qid": "7", "question": "q", "answer": "Here.", "label": names[0]},
        ]
    assert question_lines(replace(part, questions=[])) == ""


def test_a_folder_is_new_or_empty(tmp_path: Path) -> None:
    check_is_new(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    check_is_new(tmp_path / "empty")
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    for name in ("file", "full"):
        with refused(f"{name} … --output"):
            check_is_new(tmp_path / name)
    with refused("full … --output"):
        split_file(pairs(tmp_path, TEXTS), tmp_path / "full")
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["x"]
