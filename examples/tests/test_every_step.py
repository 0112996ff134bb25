"""The table of every step: what it counts, against numbers worked out by hand; and what a public repository becomes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import ROOT

HERE = ROOT / "examples" / "every_step"
NAMES = ("public_sources", "public_faqs", "measured_steps", "step_tables", "prepare_tables")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the example, which are imported by their short names."""
    pytest.importorskip("sentence_transformers", reason="the extra peers is not installed")
    monkeypatch.syspath_prepend(str(HERE))
    yield {name: __import__(name) for name in NAMES}
    for name in NAMES:
        sys.modules.pop(name, None)


def measured(modules: dict[str, ModuleType], state: str, ranks: str, shown: str, other: str, size: int = 10) -> object:
    """A cell: the rank of each question, and a letter for its outcome: a, m, n."""
    steps = modules["measured_steps"]
    names = {"a": "answer", "m": "maybe", "n": "none"}
    cell = steps.Cell("shop", size, state, hubs=False, encoder="e")
    outcomes, others = [names[one] for one in shown], [names[one] for one in other]
    return steps.Measured(cell, [int(one) for one in ranks], outcomes, outcomes, others, others)


def test_the_measures_of_a_search(modules: dict[str, ModuleType]) -> None:
    """Nine tenths of the weight are on four questions, one tenth is on two about other matters."""
    tables = modules["step_tables"]
    found = tables.judged(measured(modules, "wordings", "1120", "aama", "an"))
    assert found.first_right == 0.5
    assert found.mrr == pytest.approx((1 + 1 + 1 / 2) / 4)
    assert found.answered == 0.75
    right, wrong = 2 * 0.9 / 4, 0.9 / 4 + 0.1 / 2
    assert found.precision == pytest.approx(right / (right + wrong))
    assert found.utility == pytest.approx(right - 3 * wrong)
    assert (found.other_answered, found.other_none) == (0.5, 0.5)


def test_a_step_is_what_is_served(modules: dict[str, ModuleType]) -> None:
    """A trained checkpoint that its verdict does not recommend changes nothing, however bad it is; else it counts."""
    tables, steps = modules["step_tables"], modules["measured_steps"]
    before = measured(modules, "wordings", "1111", "aaaa", "nn")
    worse = measured(modules, "trained", "1111", "mmmm", "aa")
    for recommended, change in ((False, 0.0), (True, -0.9 - 0.3), (None, -0.9 - 0.3)):
        trained = steps.Measured(**{**vars(worse), "recommended": recommended})
        (step,) = tables.steps_of(tables.grouped([before, trained]))
        assert step.change == pytest.approx(change)
        assert step.is_taken is (recommended is not False)


def test_a_loss_is_seen_by_the_corrected_test(modules: dict[str, ModuleType]) -> None:
    """Thirty of forty answers become maybes; and the smallest loss that is seen is smaller than that."""
    tables = modules["step_tables"]
    before = measured(modules, "wordings", "1" * 40, "a" * 40, "nn")
    after = measured(modules, "trained", "1" * 40, "a" * 10 + "m" * 30, "nn")
    steps = list(tables.steps_of(tables.grouped([before, after])))
    (step,) = steps
    assert step.change == pytest.approx(-0.9 * 30 / 40)
    assert step.p_value < 0.001
    assert 0 < step.smallest_loss(10) < -step.change
    assert "1 of 1 steps lose utility" in tables.step_table(steps)
    assert "0 of 1 steps lose utility" in tables.step_table(
        [modules["step_tables"].Step(**{**vars(step), "after": step.before})]
    )


def test_pooled_each_faq_counts_the_same(modules: dict[str, ModuleType]) -> None:
    """A change of one FAQ's 2 questions, and none of the other's 6: half of the change, whatever their numbers."""
    tables = modules["step_tables"]
    zeros, ones = np.zeros, np.ones
    steps = [
        tables.Step("small", 10, "trained", zeros(2), ones(2), 0.0, 0.0, is_taken=True),
        tables.Step("large", 10, "trained", zeros(6), zeros(6), 0.0, 0.0, is_taken=True),
    ]
    assert tables.pooled(steps).change == pytest.approx(0.5)


def test_lines_are_read_as_they_were_written(modules: dict[str, ModuleType]) -> None:
    cell = measured(modules, "wordings", "10", "an", "m")
    assert modules["measured_steps"].Measured.of_line(cell.as_line()) == cell


def test_a_bot_becomes_a_faq(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    """Its commit is read, not its working tree; marked words are read plain; small talk is left out."""
    sources = modules["public_sources"]
    nlu = "## intent:greeting_hello\n- Hallo\n\n## intent:mask_wash\n- Maske [waschen](action)?\n- wie oft waschen\n"
    reply = "custom: {answers: [{type: html, text: 'Nach dem <b>Tragen</b>.'}]}"
    domain = f"responses:\n  utter_mask_wash: [{{{reply}}}]\n  utter_greeting_hello: [{{{reply}}}]\n"
    (tmp_path / "bot" / "data").mkdir(parents=True)
    (tmp_path / "bot" / "data" / "nlu.md").write_text(nlu, encoding="utf-8")
    (tmp_path / "bot" / "domain.yml").write_text(domain, encoding="utf-8")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    (tmp_path / "bot" / "domain.yml").write_text("responses: {}", encoding="utf-8")
    pairs = sources.cosibot(sources.Repository(tmp_path, "HEAD"))
    assert pairs == [("Maske waschen?", "Nach dem Tragen."), ("wie oft waschen", "Nach dem Tragen.")]
    answers, questions = modules["prepare_tables"].entries_of(pairs)
    assert [answer.wordings for answer in answers] == [("Maske waschen?",)]
    assert [question.text for question in questions] == ["wie oft waschen"]


def test_smaller_sizes_are_among_larger_ones(modules: dict[str, ModuleType]) -> None:
    faqs = modules["public_faqs"]
    asked = [faqs.Asked(f"question {number}", ("0",)) for number in range(5)]
    faq = faqs.PublicFaq("shop", "english", [("0", "Stored?", "Yes.")], asked, asked[:1], ["other"])
    assert "question" not in faq.table(0).split("\n", 1)[1]
    for size in range(6):
        assert [f"question {number}" in faq.table(size) for number in range(5)] == [
            number < size for number in range(5)
        ]
    assert len(faq.with_hubs().entries) == 4
