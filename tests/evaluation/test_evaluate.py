from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from conftest import TEXTS, write_checkpoint
from refusals import refused

from ap_ranker.data.dataset import Answer, Dataset, Question, sample_questions
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation import evaluation_set as module
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import score_candidates
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import split_words


def test_bm25_is_lucenes() -> None:
    """The formula, written out: idf = log(1 + (N - df + .5) / (df + .5)); tf / (tf + k1 (1 - b + b len / avglen))."""
    docs = [[w for w in split_words(text) if w.isalnum()] for text in TEXTS]
    docs[1].append("email")  # e-mail is indexed in both spellings
    average = sum(map(len, docs)) / len(docs)
    for question in ("where is the parcel parcel?", "Refund, please!", "unknownword"):
        expected = []
        for doc in docs:
            total = 0.0
            for word in split_words(question):
                df, tf = sum(word in other for other in docs), doc.count(word)
                if word.isalnum() and tf:
                    idf = log(1 + (len(docs) - df + 0.5) / (df + 0.5))
                    total += idf * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * len(doc) / average))
            expected.append(total)
        assert BM25(TEXTS).scores(question).tolist() == pytest.approx(expected, abs=1e-5)


def test_bm25_of_texts_without_words() -> None:
    assert BM25(["?!", ""]).scores("anything").tolist() == [0, 0]


@pytest.mark.parametrize("name", ["qa-cnn", "ap-bilstm"])
def test_scores_are_the_rankers(name: str, tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint(name, tmp_path / "c"), "cpu")
    answers = [Answer(str(i), text) for i, text in enumerate(TEXTS * 30)]
    questions = [Question("1", TEXTS[0], (1,), (1, 3, 2)), Question("2", TEXTS[2], (3,), tuple(range(170)))]
    results = score_candidates(
        ranker, Dataset("d", answers, questions), questions, [q.candidates or () for q in questions]
    )
    for question, scores in zip(questions, results.by_question, strict=True):
        direct = ranker.score(question.text, [answers[row].text for row in question.candidates or ()])
        assert torch.allclose(torch.tensor(scores).float(), direct, atol=1e-6)


def test_report_by_hand(checkpoint: Path, pairs: Dataset) -> None:
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    dataset = Dataset("d", pairs.answers, [*pairs.questions, Question("none", "Is it?", ())])
    report = evaluate(ranker, dataset)
    ranks = []
    for question in pairs.questions:
        ranked = ranker.rank(question.text, [answer.text for answer in pairs.answers])
        ranks.append([r.index for r in ranked].index(question.positives[0]) + 1)
    assert report.model["MRR"] == pytest.approx(sum(1 / rank for rank in ranks) / 3)
    assert report.model["P@1"] == pytest.approx(ranks.count(1) / 3)
    assert (report.n_questions, report.unanswerable, report.candidates) == (3, 1, "all 3 answers")
    evaluation_set = EvaluationSet(dataset)
    assert evaluation_set.measures(evaluation_set.timed_scores(ranker).by_question) == report.model
    assert EvaluationSet(dataset).bm25 == report.bm25


def test_many_answers_without_pools_are_fetched_by_bm25(
    checkpoint: Path, pairs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANK_ALL", 2)
    monkeypatch.setattr(module, "CANDIDATES", 1)
    report = evaluate(Ranker.from_pretrained(checkpoint, "cpu"), pairs)
    assert report.candidates.startswith("BM25's 1 best of 3 answers, with a right one for ")
    assert report.model["P@1"] == report.bm25["P@1"] == report.bm25["MRR"]


def test_nothing_to_evaluate(checkpoint: Path, pairs: Dataset) -> None:
    with refused("d … right … 1"):
        evaluate(Ranker.from_pretrained(checkpoint, "cpu"), Dataset("d", pairs.answers, [Question("1", "q", ())]))


def test_sample_of_questions(pairs: Dataset) -> None:
    sample = sample_questions(pairs, 2, seed=1)
    assert len(sample.questions) == 2
    assert sample == sample_questions(pairs, 2, seed=1)
    assert sample_questions(pairs, 9, seed=1).questions == list(pairs.questions)


@pytest.mark.benchmark_data
def test_bm25_on_the_published_pools(benchmarks: Path) -> None:
    """A Lucene BM25 measured elsewhere on these files has MAP .602, MRR .610."""
    measures = EvaluationSet(read_dataset(benchmarks / "wikiqa", "test")).bm25
    assert measures["MAP"] == pytest.approx(0.602, abs=0.01)
    assert measures["MRR"] == pytest.approx(0.610, abs=0.01)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_scores_that_are_not_finite_are_no_ranking(wrong: float, checkpoint: Path, pairs: Dataset) -> None:
    """A stable sort leaves them in the pool's order, in which the right answer may well come first."""
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    evaluation_set = EvaluationSet(pairs)
    evaluation_set.report(ranker)
    match_pairs = ranker.model.match_pairs

    def one_wrong(*args: Any) -> torch.Tensor:
        scores = match_pairs(*args)
        scores[-1] = wrong
        return scores

    with patch.object(ranker.model, "match_pairs", one_wrong):
        for judge in (
            lambda: evaluation_set.measures(evaluation_set.timed_scores(ranker).by_question),
            lambda: evaluation_set.report(ranker),
        ):
            with refused("learning_rate"):
                judge()


def test_hybrid_candidates_are_the_best_by_bm25_and_by_the_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANK_ALL", 2)
    monkeypatch.setattr(module, "CANDIDATES", 2)
    ranker = Ranker.from_pretrained(write_checkpoint("qa-cnn", tmp_path / "c"), "cpu")
    answers = [Answer(str(i), text) for i, text in enumerate([*TEXTS, "bike", "parcel", "money back", "five days"])]
    data = Dataset("d", answers, [Question(str(i), text, (i,)) for i, text in enumerate(TEXTS)])
    evaluation_set = EvaluationSet(data, retriever=ranker)
    index = BM25([answer.text for answer in answers])
    for question, pool in zip(data.questions, evaluation_set.pools, strict=True):
        vector = ranker.embed_questions([question.text])[0].double()
        cosines = [float(ranker.embed_answers([answer.text])[0].double() @ vector) for answer in answers]
        fetched = [
            sorted(range(len(answers)), key=lambda row, scores=scores: -scores[row])[:2]  # type: ignore[misc]
            for scores in (index.scores(question.text).tolist(), cosines)
        ]
        assert set(pool) == {row for rows in fetched for row in rows}
        assert len(set(pool)) == len(pool)
    assert evaluation_set.candidates.startswith("BM25's 2 best and the 2 best by the model's vectors of 10 answers")


def test_a_model_without_vectors_fetches_nothing(
    checkpoint: Path, pairs: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANK_ALL", 2)
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    assert not ranker.has_vectors
    with refused("ap-transformer … ap-cnn"):
        EvaluationSet(pairs, retriever=ranker)


@pytest.mark.parametrize("place", [0, 2, 5])
def test_where_a_right_answer_stands_among_equals_does_not_matter(place: int, checkpoint: Path) -> None:
    """No word is shared, so that BM25's scores are all 0: the mean over all orders, whatever rows and ids say."""
    answers = [Answer(str(row), text) for row, text in enumerate(TEXTS)]
    data = Dataset("d", answers, [Question("1", "zzz", (place,))])
    report = evaluate(Ranker.from_pretrained(checkpoint, "cpu"), data)
    assert report.bm25["P@1"] == pytest.approx(1 / 6)
    assert report.bm25["MRR"] == pytest.approx(sum(1 / rank for rank in range(1, 7)) / 6)
    assert report.gain.model.mrr == pytest.approx(report.model["MRR"] - report.bm25["MRR"])
    assert EvaluationSet(data).measures([[0.0] * len(TEXTS)]) == pytest.approx(report.bm25)
