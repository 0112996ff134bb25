from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TEXTS, write_checkpoint
from haystack import Document
from haystack.utils import ComponentDevice
from scipy.optimize import minimize_scalar

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.calibration_fit import rankings_by_kind
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.metrics import measure_each
from ap_ranker.evaluation.weight_fit import PRIORS, fit_weight, log_likelihood
from ap_ranker.ranking import rule
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.checkpoint import write_checkpoint_config
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Signals, Weights
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

Lists = list[np.ndarray]


def planted(seed: int, model: float, bm25: float, questions: int = 200) -> tuple[list[Signals], Lists]:
    """Scores of ten candidates with the right one somewhere, raised by so much among unit noise."""
    rng = np.random.default_rng(seed)
    right = [np.arange(10) == rng.integers(10) for _ in range(questions)]
    models = [rng.normal(size=10) + model * each for each in right]
    others = [7 * (rng.normal(size=10) + bm25 * each) for each in right]
    return [Signals(one, bm25=other) for one, other in zip(models, others, strict=True)], right


def fitted(signals: list[Signals], right: Lists) -> float:
    return fit_weight(signals, right, Weights(), "bm25").bm25


def mrr(signals: list[Signals], right: Lists, weight: float) -> float:
    levels = [-rule.rank(each, Weights(bm25=weight)).levels for each in signals]
    return float(measure_each(zip(levels, right, [1] * len(right), strict=True))["MRR"].mean())


def by_bm25(signals: list[Signals]) -> list[Signals]:
    return [Signals(each.bm25) for each in signals if each.bm25 is not None]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 4))])
def test_two_equally_good_scores_count_alike_and_do_better_on_other_questions(seed: int) -> None:
    signals, right = planted(seed, 1.5, 1.5, 1000)
    weight = fitted(signals, right)
    assert weight == pytest.approx(1 / 7, rel=0.7)  # the noise of BM25's is seven times as large
    signals, right = planted(seed + 100, 1.5, 1.5, 1000)
    assert mrr(signals, right, weight) > max(mrr(each, right, 0.0) for each in (signals, by_bm25(signals))) + 0.05


@pytest.mark.parametrize(
    "questions", [0, 10, 75, *(pytest.param(questions, marks=pytest.mark.slow) for questions in (30, 300))]
)
def test_noise_counts_for_next_to_nothing(questions: int) -> None:
    """Chosen by a test, noise had a weight in 10 of 180 trials, and was worse on new questions in all ten."""
    losses = []
    for seed in range(12):
        signals, right = planted(seed, 2.0, 0.0, questions)
        weight = fitted(signals, right)
        assert weight * 7 < 0.25
        new, new_right = planted(seed + 1000, 2.0, 0.0, 300)
        losses.append(mrr(new, new_right, 0.0) - mrr(new, new_right, weight))
    assert np.mean(losses) < 0.004
    assert max(losses) < 0.015


@pytest.mark.slow
def test_more_questions_move_the_weight_further_from_its_prior() -> None:
    """With few, it stays near; that a help is small does not switch it off."""
    median = PRIORS["bm25"].median
    by_number = []
    for questions in (5, 50, 500):
        multiples = [unit_of(*planted(seed, 1.5, 1.5, questions)) for seed in range(6)]
        by_number.append(float(np.median(multiples)))
    assert median < by_number[0] < by_number[1] < by_number[2]
    assert by_number[2] == pytest.approx(1, rel=0.5)
    assert fitted(*planted(1, 2.0, 0.4, 300)) > 0


def unit_of(signals: list[Signals], right: Lists) -> float:
    """The weight as a multiple of the spread of the model's scores over that of BM25's."""
    spread = np.mean([each.model.std() for each in signals])
    return float(
        fitted(signals, right) * np.mean([each.bm25.std() for each in signals if each.bm25 is not None]) / spread
    )


@pytest.mark.parametrize("sharpness", [0.01, 1.0, 40.0])
def test_the_likelihood_is_that_at_the_best_scale(sharpness: float) -> None:
    """Of ragged candidates with several right ones, against the plain formula and a search by scipy."""
    rng = np.random.default_rng(3)
    sizes, rights = rng.integers(4, 12, 60), rng.integers(1, 4, 60)
    right = [rng.permutation(size) < number for size, number in zip(sizes, rights, strict=True)]
    scores = [(rng.normal(size=len(each)) + 1.2 * each) * sharpness + 5 for each in right]

    def loss(scale: float) -> float:
        chances = [np.exp(scale * (one - one.max())) for one in scores]
        return -sum(float(np.log(one[each].sum() / one.sum())) for one, each in zip(chances, right, strict=True))

    best = minimize_scalar(loss, bounds=(0, 10 / sharpness), method="bounded", options={"xatol": 1e-9})
    assert log_likelihood(scores, right) == pytest.approx(-best.fun, abs=1e-4)


def test_a_model_that_knows_nothing_leaves_the_order_to_bm25() -> None:
    signals, right = planted(1, 0.0, 2.0, 500)
    fused = mrr(signals, right, fitted(signals, right))
    assert fused == pytest.approx(mrr(by_bm25(signals), right, 0.0), abs=0.03)


def test_nothing_is_fitted_to_no_question_or_to_scores_without_a_difference() -> None:
    assert fitted([], []) == 0
    signals, right = planted(1, 1.0, 1.0, 100)
    assert fitted([replace(each, bm25=3 * each.model + 1) for each in signals], right) == 0  # the same order
    assert fitted([replace(each, bm25=np.zeros(10)) for each in signals], right) == 0


def test_the_weight_of_wordings_is_fitted_alike() -> None:
    """Beside any weight of BM25; the cosine with the answer counts where no wording is better."""
    signals, right = planted(1, 1.5, 1.5, 500)
    known = [replace(each, cosines=np.full(10, -9.0), wordings=each.bm25, bm25=None) for each in signals]
    weights = fit_weight(known, right, Weights(bm25=0.5), "wording")
    assert weights.bm25 == 0.5
    assert weights.wording == pytest.approx(1 / 7, rel=0.7)


FORMS = ["Parcels are tracked.", "Tracking the parcel", "Your refunds come", "We refund batteries", "No words shared"]


def test_the_evaluator_the_store_and_the_fusion_have_the_same_scores(tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint("ap-cnn", tmp_path / "c"), "cpu")
    assert ranker.config is not None
    write_checkpoint_config(tmp_path / "c", replace(ranker.config, bm25_weight=0.3, bm25_language="english"))
    answers = [Answer(str(row), text) for row, text in enumerate(FORMS)]
    asked = ["refunded battery", "does a refund track parcels?", "words"]
    dataset = Dataset("d", answers, [Question(str(row), text, (row,)) for row, text in enumerate(asked)])
    store = BM25SDocumentStore(language="english")
    store.write_documents([Document(id=answer.id, content=answer.text) for answer in answers])
    component = AnswerRanker(
        model=tmp_path / "c", device=ComponentDevice.from_str("cpu"), fuse_scores=True, scale_score=False
    )
    evaluation_set = EvaluationSet(dataset, language="english")
    report = evaluate(tmp_path / "c", dataset, device="cpu")
    fused = rankings_by_kind(Ranker.from_pretrained(tmp_path / "c", "cpu"), dataset)["fused"].signals
    assert (report.bm25, report.bm25_name) == (evaluation_set.bm25, "BM25, english stemmer")
    for row, question in enumerate(asked):
        found = store.bm25_retrieval(question)
        scores = dict.fromkeys(map(str, range(len(FORMS))), 0.0) | {
            one.id: one.meta["ap_ranker"]["bm25_score"] for one in found
        }
        assert len(found) > sum(score > 0 for score in BM25(FORMS).scores(question)) or question == "words"
        assert list(scores.values()) == evaluation_set.bm25_scores[row].tolist()
        assert list(scores.values()) == BM25(FORMS, language="english").scores(question).tolist()
        ranked = {one.id: one.score for one in component.run(query=question, documents=found)["documents"]}
        assert ranked == pytest.approx({one.id: fused[row].model[int(one.id)] for one in found}, abs=1e-5)


def test_an_earlier_checkpoint_is_fused_with_the_bm25_that_it_was_trained_beside(tmp_path: Path) -> None:
    for name, language in (("plain", None), ("stemmed", "english")):
        write_checkpoint("ap-cnn", tmp_path / name, bm25_weight=0.3, bm25_language=language)
    answers = [Answer(str(row), text) for row, text in enumerate([*FORMS, *TEXTS])]
    asked = ["refunded battery", "does a refund track parcels?", "parcel tracked"]
    dataset = Dataset("d", answers, [Question(str(row), text, (row,)) for row, text in enumerate(asked)])
    alone = {name: evaluate(tmp_path / name, dataset, device="cpu") for name in ("plain", "stemmed")}
    assert alone["plain"].fusion != alone["stemmed"].fusion
    for name, earlier in (("plain", "stemmed"), ("stemmed", "plain")):
        report = evaluate(tmp_path / name, dataset, compare=tmp_path / earlier, device="cpu")
        assert report.fusion == pytest.approx(alone[name].fusion)
        assert report.comparison is not None
        assert report.comparison.before.fusion == pytest.approx(alone[earlier].fusion)


def test_a_report_has_the_fused_measures_if_the_checkpoint_has_a_weight(tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint("ap-cnn", tmp_path / "c"), "cpu")
    questions, texts = TEXTS[0::2], TEXTS[1::2]
    answers = [Answer(str(row), text) for row, text in enumerate(texts)]
    evaluation_set = EvaluationSet(Dataset("d", answers, [Question(str(i), t, (i,)) for i, t in enumerate(questions)]))
    assert ranker.config is not None
    assert evaluation_set.report(ranker).fusion is None
    for weight in (0.03, 0.3, 3.0):
        ranker.config = replace(ranker.config, bm25_weight=weight)
        expected = 0.0
        for row, question in enumerate(questions):
            fused = ranker.score(question, texts).numpy() + weight * BM25(texts).scores(question)
            expected += 1 / sum(score >= fused[row] for score in fused) / len(questions)
        report = evaluation_set.report(ranker)
        assert report.fusion is not None
        assert report.fusion["MRR"] == pytest.approx(expected)
