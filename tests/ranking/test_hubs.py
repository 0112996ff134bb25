"""Entries that are near to every question, such as "Contact", answer only what they should."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, TEXTS, write_checkpoint

from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.priors import USUAL
from ap_ranker.ranking.random_questions import RANDOM_QUESTIONS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import MODEL
from ap_ranker.training.untrained import write_untrained

DATA = ROOT / "examples" / "no_answer" / "data"


def rows_of(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("weight", [0.0, 0.7])
@pytest.mark.parametrize("wordings", [None, (), ("my parcel", "the battery of my bike")])
def test_the_background_is_the_mean_score_of_random_questions(
    weight: float, wordings: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """Asked one by one, as visitors ask; it is computed once."""
    folder = write_checkpoint("ap-transformer", tmp_path / "c", wording_weight=weight)
    ranker = Ranker.from_pretrained(folder, "cpu")
    known = None if wordings is None else [wordings, ("another entry",)]
    expected = []
    for question in RANDOM_QUESTIONS:
        ranked = ranker.rank(question, TEXTS[:2], wordings=known)
        expected.append(next(one.score for one in ranked if one.index == 0))
    assert ranker.background(TEXTS[0], wordings) == pytest.approx(np.mean(expected), abs=1e-5)
    again = Ranker.from_pretrained(folder, "cpu")  # shares what was computed
    again.scores_of_random_questions = None  # type: ignore[assignment, method-assign]
    assert again.background(TEXTS[0], wordings) == ranker.background(TEXTS[0], wordings)


def test_only_the_best_entry_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = list(dict.fromkeys(TEXTS))
    encoder = write_checkpoint("ap-transformer", tmp_path / "c")
    ranker = Ranker.from_pretrained(encoder, "cpu")
    asked: list[str] = []
    monkeypatch.setattr(Ranker, "background", lambda self, text, wordings=None: asked.append(text) or 0.0)
    ranker.decide("my parcel", texts)
    assert asked == []  # without a calibration, nothing needs it
    signals = ranker.score_entries("my parcel", texts)
    assert signals.background_of is not None
    signals.background_of(1)
    assert asked == [texts[1]]


def encoders() -> list[object]:
    folder = Path(os.environ.get("AP_ENCODERS", "nowhere")) / "multilingual-e5-small"
    skip = pytest.mark.skipif(not folder.is_dir(), reason="AP_ENCODERS has no multilingual-e5-small")
    return [pytest.param(str(folder), marks=skip, id="e5")]


@pytest.mark.parametrize("encoder", encoders())
def test_more_help_is_no_answer_to_other_matters(encoder: str, tmp_path: Path) -> None:
    """A German FAQ with such entries at its end: other matters were answered by them, and contact questions still are
    worth showing there."""
    entries = [(row["question"], row["answer"]) for row in rows_of("pool_de.csv")]
    entries += [(row["question"], row["answer"]) for row in rows_of("hub_entries.csv") if row["language"] == "german"]
    texts, wordings = ["\n".join(entry) for entry in entries], [[question] for question, _ in entries]
    config = write_untrained(tmp_path / "c", texts, "german", options={"encoder": encoder}, wordings=wordings)
    ranker = Ranker.from_pretrained(tmp_path / "c", "cpu")
    ranker.use_cache(10**8)
    usual = config.calibration[MODEL].background
    backgrounds = [ranker.background(text, own) for text, own in zip(texts, wordings, strict=True)]
    assert usual == pytest.approx(np.quantile(backgrounds, USUAL), abs=1e-4)
    assert max(backgrounds[-3:]) > max(backgrounds[:-3])
    outcomes: dict[str, list[Outcome]] = {"yes": [], "no": []}
    firsts = []
    for row in (row for row in rows_of("hub_questions.csv") if row["language"] == "german"):
        outcomes[row["answerable"]].append(ranker.decide(row["question"], texts, wordings=wordings).outcome)
        if row["answerable"] == "yes":
            firsts.append(ranker.rank(row["question"], texts, 1, wordings=wordings)[0].index >= len(texts) - 3)
    assert outcomes["no"].count(Outcome.ANSWER) <= 1
    assert Outcome.NONE not in outcomes["yes"]
    assert sum(firsts) >= 3
