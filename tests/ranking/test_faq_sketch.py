"""An edited FAQ is the same one, and another company's is not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT, imported, write_checkpoint
from refusals import refused

from ap_ranker.data.faq import Match, read_faq
from ap_ranker.ranking.checkpoint import read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.faq_sketch import KEPT, FAQSketch

EXAMPLE = [entry.text(Match.both) for entry in read_faq(ROOT / "examples" / "faq" / "answers.csv")]
NUMBERED = [
    f"Article {number} of the handbook says what happens in case {number} of {number * 7}." for number in range(3000)
]
WORDS = " ".join(EXAMPLE).split()
CUT = [" ".join(WORDS[start : start + 100]) for start in range(0, len(WORDS), 100)]


@pytest.fixture(scope="module")
def faqs() -> Iterator[tuple[ModuleType, dict[str, list[str]]]]:
    """The script that measures the overlaps, and its FAQs, with those of authorities if they are there."""
    with imported(ROOT / "examples" / "same_faq.py") as module:
        shared = ROOT.parent / "shared" / "data"
        yield module, module.read_faqs(shared if (shared / "faq_public").is_dir() else None)


def overlap(one: Sequence[str], other: Sequence[str]) -> float:
    return FAQSketch.of(one).overlap(FAQSketch.of(other))


def is_same(one: Sequence[str], other: Sequence[str]) -> bool:
    return FAQSketch.of(one).is_same(FAQSketch.of(other))


@pytest.mark.parametrize(
    "edit",
    [
        lambda texts: texts[::-1],
        lambda texts: [text.upper() for text in texts],
        lambda texts: [text.replace("\n", "  ").replace(".", " !") for text in texts],
        lambda texts: [text.replace("e-bike", "pedelec").replace("Fjordline", "Nordlys") for text in texts],
        lambda texts: texts[::2],
        lambda texts: texts[:40],
        lambda texts: [*texts, *NUMBERED],
        lambda texts: [text.partition("\n")[2] for text in texts],
        lambda texts: CUT,
    ],
    ids=["order", "case", "marks", "renamed", "half", "some", "grown", "answers-alone", "passages"],
)
def test_edits_of_the_example(edit: Callable[[list[str]], list[str]]) -> None:
    assert is_same(EXAMPLE, edit(EXAMPLE))
    assert is_same(edit(EXAMPLE), EXAMPLE)


def test_passages_cut_elsewhere() -> None:
    assert is_same(CUT, [" ".join(WORDS[start : start + 100]) for start in range(50, len(WORDS), 100)])


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_year_of_changes(faqs: tuple[ModuleType, dict[str, list[str]]], every: int) -> None:
    module, texts = faqs
    some = {name: texts[name] for name in [*texts][::every]}
    assert min(module.overlaps_after_a_year(some).values()) > 0.35


def test_other_faqs(faqs: tuple[ModuleType, dict[str, list[str]]]) -> None:
    module, texts = faqs
    found = module.overlaps_of_others(texts)
    assert len(found) >= 66
    assert max(found.values()) < 0.15


@pytest.mark.parametrize("kept", [0, 300, 1500, 3000])
def test_the_overlap_is_the_share_of_common_texts(kept: int) -> None:
    draw = random.Random(kept)
    one = [" ".join(draw.choices(WORDS, k=30)) for _ in range(3000)]
    other = one[:kept] + [" ".join(draw.choices(WORDS, k=30)) for _ in range(6000 - kept)]
    assert overlap(one, other) == pytest.approx(kept / 3000, abs=0.06)
    assert overlap(one[:500], one[300:600]) == pytest.approx(200 / 300, abs=0.01), "small FAQs are kept whole"


def test_short_texts_and_none() -> None:
    assert overlap(["Yes.", "No."], ["no", "YES!", "Perhaps."]) == 1
    assert overlap(["Yes.", "No."], ["Never.", "Always."]) == 0
    assert overlap([], ["Yes."]) == overlap([], []) == 0
    assert FAQSketch.of(["", "\ud800", "?"]).texts == 3


def test_it_is_small_and_depends_on_nothing_but_the_texts() -> None:
    sketch = FAQSketch.with_language(NUMBERED)
    assert sketch == FAQSketch.with_language(NUMBERED[::-1])
    assert (sketch.texts, sketch.language) == (3000, "en")
    assert len(sketch.hashes) <= 8 * KEPT


def test_a_checkpoint_keeps_it(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    config = read_checkpoint_config(folder)
    assert config.faq is None
    stored = json.loads((folder / "config.json").read_text())
    del stored["faq"]  # an older one has none
    (folder / "config.json").write_text(json.dumps(stored))
    assert read_checkpoint_config(folder).faq is None
    sketch = FAQSketch.with_language(EXAMPLE)
    write_checkpoint_config(folder, replace(config, faq=sketch))
    assert read_checkpoint_config(folder).faq == sketch


GOOD = {"texts": 1, "language": "en", "hashes": "0123abcd"}


@pytest.mark.parametrize(
    "damaged",
    [
        *(7, [], "x", {}),
        *(GOOD | {"texts": -1}, GOOD | {"texts": "1"}, GOOD | {"language": "klingon"}, GOOD | {"hashes": "0123abc"}),
        *(GOOD | {"hashes": "0123ABCD"}, GOOD | {"hashes": "0123abcd\n"}, GOOD | {"hashes": 7}, GOOD | {"more": 1}),
    ],
)
def test_a_damaged_one_is_refused(damaged: Any, tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "c")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"faq": GOOD}))
    assert read_checkpoint_config(folder).faq == FAQSketch(**GOOD)
    (folder / "config.json").write_text(json.dumps(config | {"faq": damaged}))
    with refused("config.json … faq"):
        read_checkpoint_config(folder)


@pytest.mark.parametrize(("kept", "added"), [(60, 0), (30, 30), (60, 60), (10, 20), (0, 5)])
def test_the_share_that_has_changed(kept: int, added: int) -> None:
    """Whether entries were replaced or added; those that are gone are no part of today's FAQ."""
    before = [f"entry {number} about matter {number * 7919} of the shop and its customers" for number in range(60)]
    new = [f"a new text {number} on subject {number * 104729} for visitors" for number in range(added)]
    later = before[:kept] + new
    found = FAQSketch.of(before).changed_share(FAQSketch.of(later))
    assert found == pytest.approx(added / len(later), abs=0.05)


def test_a_faq_that_was_trained_on_without_its_stored_questions() -> None:
    """Of short answers, the smallest hash is mostly that of the stored question above them."""
    answers = [f"It costs {number * 7} euros." for number in range(100)]
    texts = [f"What is the price of article {number}, with tax?\n{answer}" for number, answer in enumerate(answers)]
    sketch = FAQSketch.of(answers)
    assert not sketch.is_same(FAQSketch.of(texts))
    forms = list(zip(texts, answers, strict=True))
    for trained in (sketch, FAQSketch.of(texts)):
        assert trained.is_same(trained.nearest_form(forms))
        assert trained.changed_share(trained.nearest_form(forms)) < 0.05
    texts_of_another_faq = [text.replace("price", "weight").replace("costs", "weighs") for text in NUMBERED[:100]]
    assert not sketch.is_same(sketch.nearest_form([(text, text) for text in texts_of_another_faq]))
