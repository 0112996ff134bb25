from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TEXTS, write_checkpoint
from haystack import Document
from haystack.utils import ComponentDevice
from hypothesis import given, settings
from hypothesis import strategies as st

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.calibration import rank
from ap_ranker.evaluation.evaluate import EvaluationSet, evaluate
from ap_ranker.evaluation.fusion import fit_weight, fuse, reciprocal_ranks
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.checkpoint import read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.ranker import Ranker
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

Lists = list[np.ndarray]


def planted(seed: int, model: float, bm25: float, questions: int = 200) -> tuple[Lists, Lists, Lists]:
    """Scores of ten candidates with the right one somewhere, raised by so much among unit noise."""
    rng = np.random.default_rng(seed)
    right = [np.arange(10) == rng.integers(10) for _ in range(questions)]
    return (
        [rng.normal(size=10) + model * each for each in right],
        [7 * (rng.normal(size=10) + bm25 * each) for each in right],
        right,
    )


@pytest.mark.parametrize("seed", range(5))
def test_two_equally_good_scores_count_alike_and_do_better_on_other_questions(seed: int) -> None:
    model, bm25, right = planted(seed, 1.5, 1.5, 1000)
    weight = fit_weight(model, bm25, right)
    assert weight == pytest.approx(1 / 7, rel=0.7)  # the noise of BM25's is seven times as large
    model, bm25, right = planted(seed + 100, 1.5, 1.5, 1000)
    fused = reciprocal_ranks(fuse(model, bm25, weight), right).mean()
    assert fused > max(reciprocal_ranks(scores, right).mean() for scores in (model, bm25)) + 0.05


def test_noise_has_hardly_ever_a_weight() -> None:
    """Chosen on the same questions, some weight would nearly always look better than none."""
    weights = [fit_weight(*planted(seed, 2.0, 0.0)) for seed in range(40)]
    assert sum(weight > 0 for weight in weights) <= 12
    assert max(weights) * 7 < 0.5


def test_a_model_that_knows_nothing_leaves_the_order_to_bm25() -> None:
    model, bm25, right = planted(1, 0.0, 2.0, 500)
    fused = reciprocal_ranks(fuse(model, bm25, fit_weight(model, bm25, right)), right).mean()
    assert fused == pytest.approx(reciprocal_ranks(bm25, right).mean(), abs=0.03)


def test_nothing_is_fitted_to_few_questions_or_to_scores_without_a_difference() -> None:
    model, bm25, right = planted(1, 1.0, 1.0, 9)
    assert fit_weight(model, bm25, right) == 0
    model, bm25, right = planted(1, 1.0, 1.0, 100)
    assert fit_weight(model, [np.zeros(10)] * 100, right) == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=8))
def test_reciprocal_rank_against_a_walk_down_the_list(pairs: list[tuple[int, bool]]) -> None:
    pairs = [*pairs, (0, True)]
    order = sorted(range(len(pairs)), key=lambda row: -pairs[row][0])
    expected = next(1 / rank for rank, row in enumerate(order, start=1) if pairs[row][1])
    scores, right = (np.array(each) for each in zip(*pairs, strict=True))
    assert reciprocal_ranks([scores], [right]).tolist() == [expected]


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
    fused = rank(Ranker.from_pretrained(tmp_path / "c", "cpu"), dataset)["fused"].scores
    assert (report.bm25, report.bm25_name) == (evaluation_set.bm25, "BM25, english stemmer")
    for row, question in enumerate(asked):
        found = store.bm25_retrieval(question)
        scores = dict.fromkeys(map(str, range(len(FORMS))), 0.0) | {one.id: one.meta["bm25_score"] for one in found}
        assert len(found) > sum(score > 0 for score in BM25(FORMS).scores(question)) or question == "words"
        assert list(scores.values()) == evaluation_set.bm25_scores[row].tolist()
        assert list(scores.values()) == BM25(FORMS, language="english").scores(question).tolist()
        ranked = {one.id: one.score for one in component.run(query=question, documents=found)["documents"]}
        assert ranked == pytest.approx({one.id: fused[row][int(one.id)] for one in found}, abs=1e-5)


def test_an_earlier_checkpoint_is_fused_with_the_bm25_that_it_was_trained_beside(tmp_path: Path) -> None:
    for name, language in (("plain", None), ("stemmed", "english")):
        folder = write_checkpoint("ap-cnn", tmp_path / name)
        write_checkpoint_config(
            folder, replace(read_checkpoint_config(folder), bm25_weight=0.3, bm25_language=language)
        )
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
