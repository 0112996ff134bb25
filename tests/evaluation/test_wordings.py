"""Known wordings in an evaluation: without leaks, with a weight that the dev questions choose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TEXTS, exact_ranker, write_checkpoint
from naive import vectors as naive
from naive.rule import soft_maximum

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.dev_choice import Epoch
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import score_candidates, score_wordings
from ap_ranker.evaluation.weight_fit import PRIORS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Weights, rank
from ap_ranker.ranking.wordings import DEFAULT_WEIGHT

WORDINGS = [("where", "WHERE is  my parcel?"), (), ("battery", "which one")]
ANSWERS = [Answer(str(i), text, WORDINGS[i]) for i, text in enumerate(TEXTS[1::2])]
QUESTIONS = [Question(str(i), text, (i,)) for i, text in enumerate(TEXTS[::2])]
DATA = Dataset("d", ANSWERS, QUESTIONS)


@pytest.fixture
def ranker(tmp_path: Path) -> Ranker:
    return exact_ranker(write_checkpoint("ap-transformer", tmp_path / "c"))


def test_scores_are_those_of_a_loop_in_which_no_question_meets_its_own_text(ranker: Ranker) -> None:
    pools = [(0, 1, 2), (2, 1), (0, 2)]
    scores = score_candidates(ranker, DATA, QUESTIONS, pools)
    assert scores.cosines is not None
    assert scores.question_vectors is not None
    found = score_wordings(ranker, DATA, QUESTIONS, pools, scores)
    best = [each.best_wording for each in found.signals]
    for question, rows, own, values in zip(QUESTIONS, pools, scores.cosines, best, strict=True):
        assert values is not None
        vector = ranker.embed_questions([question.text])[0].double()
        for row, cosine, value in zip(rows, own, values, strict=True):
            assert cosine == pytest.approx(
                float(ranker.embed_answers([ANSWERS[row].text])[0].double() @ vector), abs=1e-5
            )
            others = [text for text in WORDINGS[row] if " ".join(text.lower().split()) != question.text.lower()]
            stored = [naive.rounded(ranker.embed_questions([text])[0].tolist()) for text in others]
            cosines = [naive.cosine(each, vector.tolist()) for each in stored]
            assert value == pytest.approx(soft_maximum([cosine, *cosines]), abs=1e-5)
    added = 4 * (ranker.embed_questions(["x"]).shape[1] + 4) / 3
    assert found.bytes_per_answer == pytest.approx(scores.bytes_per_answer + added)


def test_a_report_of_a_checkpoint_with_a_weight_has_both_rows(ranker: Ranker) -> None:
    assert ranker.config is not None
    evaluation_set = EvaluationSet(DATA)
    alone = evaluation_set.report_of(evaluation_set.scores(ranker))
    assert alone.without_wordings is None
    ranker.config = replace(ranker.config, wording_weight=0.5)
    report = evaluation_set.report_of(evaluation_set.scores(ranker), Weights(0.5))
    assert report.without_wordings == alone.model
    entries = [ranker.score_entries(q.text, [a.text for a in ANSWERS], _without(q)) for q in QUESTIONS]
    expected = [pytest.approx(rank(each, Weights(0.5)).scores.tolist(), abs=1e-5) for each in entries]
    assert [ranking.scores.tolist() for ranking in report.rankings] == expected
    assert report.bytes_per_answer > alone.bytes_per_answer


def test_as_served_a_known_wording_comes_first(ranker: Ranker) -> None:
    """The first question is a wording of the first answer; the others keep the order of their scores."""
    evaluation_set = EvaluationSet(DATA)
    plain, served = (EvaluationSet(DATA, as_new=each).report(ranker) for each in (True, False))
    assert [rows.tolist() for rows in evaluation_set.exact] == [[True, False, False], [False] * 3, [False] * 3]
    assert served.model_each["P@1"][0] == 1
    assert served.rankings[0].order[0] == 0
    assert served.rankings[0].scores[0] >= max(served.rankings[0].scores[1:])
    for name, values in served.model_each.items():
        assert values[1:].tolist() == plain.model_each[name][1:].tolist()
    order = [np.argsort(each.rankings[0].scores[1:]).tolist() for each in (plain, served)]
    assert order[0] == order[1]
    assert evaluate(ranker, DATA).model == served.model


def _without(question: Question) -> list[list[str]]:
    return [[text for text in each if " ".join(text.split()).lower() != question.text.lower()] for each in WORDINGS]


@pytest.mark.parametrize("helps", [True, False])
def test_the_weight_rises_or_falls_from_its_prior_as_wordings_help(
    helps: bool, ranker: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model ranks the answers of 40 questions at random; a wording of a right or a wrong answer is like each."""
    rng = np.random.default_rng(0)
    answers = [Answer(str(i), f"answer {i}", (f"wording {i}",)) for i in range(40)]
    data = Dataset("d", answers, [Question(str(i), f"question {i}", (i,)) for i in range(40)])
    evaluation_set = EvaluationSet(data)
    scores = evaluation_set.timed_scores(ranker)
    scores = replace(scores, by_question=[rng.random(40) for _ in range(40)])
    scores = replace(scores, cosines=[np.zeros(40)] * 40)
    known = [2 * np.eye(40)[i if helps else (i * 7 + 3) % 40] - 1 for i in range(40)]
    monkeypatch.setattr(evaluation_set, "with_wordings", lambda *_: replace(scores, wordings=known))
    epoch = Epoch.of(1, evaluation_set, ranker, scores)
    median = PRIORS["wording"].median
    weight = epoch.weights().wording
    assert weight > 2 * median if helps else 0 < weight < median
    added = DEFAULT_WEIGHT if helps else 0.0
    expected = [own + added * np.maximum(best, 0) for own, best in zip(scores.by_question, known, strict=True)]
    assert epoch.measures == pytest.approx(evaluation_set.measures(expected))


def test_without_known_wordings_the_weight_is_the_default(ranker: Ranker, checkpoint: Path) -> None:
    data = replace(DATA, answers=[replace(answer, wordings=()) for answer in ANSWERS])
    for used, dataset, expected in (
        (ranker, data, DEFAULT_WEIGHT),
        (ranker, replace(data, judged=True), 0.0),
        (Ranker.from_pretrained(checkpoint, "cpu"), DATA, 0.0),  # a model that has no vectors of whole texts
    ):
        evaluation_set = EvaluationSet(dataset)
        epoch = Epoch.of(1, evaluation_set, used, evaluation_set.timed_scores(used))
        assert epoch.weights().wording == expected
