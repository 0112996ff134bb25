"""One FAQ of several data sets: only training questions are learnt from, and every right answer stays one."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, imported
from protocols import read_parts
from refusals import refused

from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.reader import read_dataset

WORDS = ("parcel", "battery", "saddle", "helmet", "lamp", "brake")
HEADER = "qid\tquestion\tanswer\tlabel\n"


@pytest.fixture(scope="module")
def combine() -> Iterator[ModuleType]:
    with imported(ROOT / "examples" / "transfer" / "combine.py") as module:
        yield module


def write_sources(folder: Path) -> list[Path]:
    """A judged data set, in which each question has two right answers and a wrong one, and a file of pairs."""
    judged = folder / "wikiqa"
    judged.mkdir()
    for part in ("train", "dev", "test"):
        rows = "".join(
            f"{n}\t{part} {n}?\tright {part} {n}\t1\n{n}\t{part} {n}?\tshared by all\t1\n{n}\t{part} {n}?\twrong\t0\n"
            for n in range(20)
        )
        (judged / f"{part}.tsv.gz").write_bytes(gzip.compress((HEADER + rows).encode()))
    pairs = folder / "faq.csv"
    pairs.write_text("question,answer\n" + "".join(f"pair {n}?,answer {n}\n" for n in range(100)), "utf-8")
    return [judged, pairs]


def texts(folder: Path, part: str) -> dict[str, set[str]]:
    """Question -> its right answers."""
    data = read_dataset(folder, part)
    return {each.text: {data.answers[row].text for row in each.positives} for each in data.questions}


def test_parts_stay_apart_and_answers_right(combine: ModuleType, tmp_path: Path) -> None:
    combine.command(write_sources(tmp_path), tmp_path / "combined", most=12)
    train, dev, test = (texts(tmp_path / "combined", part) for part in ("train", "dev", "test"))
    assert [len(train), len(dev), len(test)] == [2 * 12, 2 * 1, 2 * 3]
    assert not (train.keys() & dev.keys() or train.keys() & test.keys() or dev.keys() & test.keys())
    for part, found in (("train", train), ("dev", dev), ("test", test)):
        for question, right in found.items():
            name, number = question.removesuffix("?").split()
            wanted = {f"answer {number}"} if name == "pair" else {f"right {part} {number}", "shared by all"}
            assert right == wanted
            assert name in ("pair", part)
    data = read_dataset(tmp_path / "combined", "test")
    assert {answer.text for answer in data.answers} == set().union(*train.values(), *dev.values(), *test.values())


def test_a_faq_in_a_folder(combine: ModuleType, tmp_path: Path) -> None:
    """Dev questions are some of its training questions, test questions its own; no question is on two sides."""
    faq = tmp_path / "shop"
    faq.mkdir()
    entries = [f"{number},what of {word}?,All about {word}." for number, word in enumerate(WORDS)]
    (faq / "answers.csv").write_text("\n".join(["aid,question,answer", *entries]) + "\n")
    for part, verbs in (("train", ("send", "mend", "paint", "sell")), ("test", ("find",))):
        lines = [f"may I {verb} a {word},{number}" for number, word in enumerate(WORDS) for verb in verbs]
        (faq / f"{part}.csv").write_text("\n".join(["question,answer_ids", *lines]) + "\n")
    combine.command([faq], tmp_path / "combined", most=100)
    train, dev, test = (texts(tmp_path / "combined", part) for part in ("train", "dev", "test"))
    assert dev and not train.keys() & dev.keys()
    assert not {question for question in (*train, *dev) if "find" in question}
    assert {question.split()[2] for question in test} == {"find"}
    for question, right in (train | dev | test).items():
        (answer,) = right
        assert question.split()[-1] in answer


def test_a_folder_of_an_unknown_name(combine: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with refused("other … insuranceqa … wikiqa"):
        combine.command([tmp_path / "other"], tmp_path / "combined")
    assert not (tmp_path / "combined").exists()


def test_a_folder_that_holds_something_stays(combine: ModuleType, tmp_path: Path) -> None:
    target = tmp_path / "combined"
    target.mkdir()
    (target / "mine.txt").write_text("mine", "utf-8")
    with refused("combined"):
        combine.command(write_sources(tmp_path), target)
    assert [file.name for file in target.iterdir()] == ["mine.txt"]


def test_the_test_questions_are_those_of_the_tables(combine: ModuleType, benchmarks: Path) -> None:
    """What a checkpoint of the combined data may be measured on: nothing of it is a training question."""
    parts = combine.read_source(benchmarks / "trecqa")
    table = read_parts("trecqa", benchmarks / "trecqa", DEFAULT_MATCH)
    assert [each.text for each in parts[2].questions] == [each.text for each in table.test.questions]
    trained = {each.text for each in parts[0].questions}
    assert not trained & {each.text for each in table.test.questions}
