from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TEXTS, write_checkpoint

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation import evaluate as module
from ap_ranker.evaluation.evaluate import comparison, evaluate
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.significance import randomisation_test
from ap_ranker.ranking.checkpoint import TRAINED_QUESTIONS, trained_lines
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Signals, rank


def test_ranks_and_first_answers_by_hand() -> None:
    """Three answers; BM25 plays no part. Equal scores: the mean rank, and the candidate that was given first."""
    answers = [Answer(name, f"answer {name}") for name in "abc"]
    asked = [Question(str(i), f"question {i}", (0,)) for i in range(4)]
    evaluation_set = EvaluationSet(Dataset("d", answers, asked))
    before = report(evaluation_set, [[0.1, 0.2, 0.3], [3, 2, 1], [2, 2, 1], [1, 2, 0]])  # ranks 3, 1, 1.5, 2
    after = report(evaluation_set, [[0.9, 0.2, 0.3], [1, 3, 3], [3, 2, 1], [1, 0, 2]])  # ranks 1, 3, 1, 2
    result = comparison(evaluation_set, before, after)
    assert (result["better"], result["worse"]) == (2, 1)
    assert result["improved"] == [
        row("question 0", 3, 1, "answer c", "answer a"),
        row("question 2", 1.5, 1, "answer a", "answer a"),
    ]
    assert result["worsened"] == [row("question 1", 1, 3, "answer a", "answer b")]
    assert result["model"]["difference"]["MRR"] == pytest.approx(
        (1 + 1 / 3 + 1 + 1 / 2) / 4 - (1 / 3 + 1 + 3 / 4 + 1 / 2) / 4
    )
    assert result["fusion"] is None


def row(*values: object) -> dict[str, object]:
    return dict(zip(("question", "rank_before", "rank_after", "first_before", "first_after"), values, strict=True))


def report(evaluation_set: EvaluationSet, scores: list[list[float]]) -> EvaluationReport:
    rankings = [rank(Signals(np.array(each, dtype=float))) for each in scores]
    return EvaluationReport(evaluation_set.dataset, 0, "", evaluation_set.measures_each(scores), {}, rankings=rankings)


def test_only_the_biggest_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN", 2)
    answers = [Answer(str(i), str(i)) for i in range(9)]
    evaluation_set = EvaluationSet(Dataset("d", answers, [Question(str(i), f"q{i}", (i,)) for i in range(9)]))
    before = report(evaluation_set, [[9.0, 8, 7, 6, 5, 4, 3, 2, 1]] * 9)
    after = report(evaluation_set, [[1.0, 2, 3, 4, 5, 6, 7, 8, 9]] * 9)
    result = comparison(evaluation_set, before, after)
    assert [(change["question"], change["rank_before"], change["rank_after"]) for change in result["improved"]] == [
        ("q8", 9, 1),
        ("q7", 8, 2),
    ]
    assert [change["question"] for change in result["worsened"]] == ["q0", "q1"]
    assert (result["better"], result["worse"]) == (4, 4)


def test_two_models_and_their_fusion(tmp_path: Path) -> None:
    """Other words, another architecture; one has a weight of BM25, so the other counts as it is."""
    answers = [Answer(str(i), text) for i, text in enumerate(TEXTS)]
    asked = [Question(str(i), f"{text} {TEXTS[(i + 2) % 6]}", ((i + 1) % 6,)) for i, text in enumerate(TEXTS)]
    evaluation_set = EvaluationSet(Dataset("d", answers, asked))
    rankers = [Ranker.from_pretrained(write_checkpoint(name, tmp_path / name), "cpu") for name in ("qa-cnn", "ap-cnn")]
    assert rankers[0].config is not None
    rankers[0].config = replace(rankers[0].config, bm25_weight=0.3)
    before, after = (evaluation_set.report(ranker) for ranker in rankers)
    result = comparison(evaluation_set, before, after)
    assert result["fusion"] is not None and before.fusion is not None
    for measure, value in after.model.items():
        assert result["model"]["difference"][measure] == pytest.approx(value - before.model[measure])
        assert result["fusion"]["difference"][measure] == pytest.approx(value - before.fusion[measure])
        p = randomisation_test(before.model_each[measure], after.model_each[measure])
        assert result["model"]["p_value"][measure] == pytest.approx(p)
    moved = {change["question"]: change for change in [*result["improved"], *result["worsened"]]}
    for question in asked:  # the ranker itself says what stands where
        orders = [torch.argsort(-ranker.score(question.text, TEXTS)).tolist() for ranker in rankers]
        ranks = [order.index(question.positives[0]) + 1 for order in orders]
        if question.text in moved:
            change = moved[question.text]
            assert [change["rank_before"], change["rank_after"]] == ranks
            assert [change["first_before"], change["first_after"]] == [TEXTS[order[0]] for order in orders]
        else:
            assert ranks[0] == ranks[1]
    assert moved


@pytest.mark.parametrize("name", ["ap-cnn", "ap-transformer"])
def test_an_earlier_checkpoint_is_evaluated_as_if_it_were_alone(name: str, pairs: Dataset, tmp_path: Path) -> None:
    """`ap-transformer` is stored in int8, `ap-cnn` in float32."""
    later, earlier = (write_checkpoint(model, tmp_path / model) for model in ("ap-transformer", "ap-cnn"))
    if name == "ap-transformer":
        later, earlier = earlier, later
    before = evaluate(later, pairs, compare=earlier, device="cpu").comparison.before  # type: ignore[union-attr]
    alone = evaluate(earlier, pairs, device="cpu")
    pairs = zip(before.rankings, alone.rankings, strict=True)
    assert all(one.scores.tolist() == other.scores.tolist() for one, other in pairs)
    assert before.bytes_per_answer == alone.bytes_per_answer


def test_new_questions_are_new_to_both(tmp_path: Path) -> None:
    """A question that the checkpoint before has learnt from says nothing of which is better with the next one."""
    data = tmp_path / "test.csv"
    questions = [f"{text} {TEXTS[(i + 2) % 6]}" for i, text in enumerate(TEXTS)]
    rows = [f'"{question}","{text}"' for question, text in zip(questions, TEXTS, strict=True)]
    data.write_text("question,answer\n" + "\n".join(rows) + "\n")
    before = write_checkpoint("ap-cnn", tmp_path / "before")
    after = write_checkpoint("qa-cnn", tmp_path / "after")
    for checkpoint, learnt in ((before, questions[:2]), (after, questions[2:3])):
        (checkpoint / TRAINED_QUESTIONS).write_text(trained_lines(learnt))
    alone = evaluate(after, data, device="cpu")
    compared = evaluate(after, data, compare=before, device="cpu")
    assert alone.near.tolist() == [False, False, True, False, False, False]
    assert compared.near.tolist() == [True, True, True, False, False, False]
    assert compared.comparison is not None
    assert compared.comparison.changes["new"]["n_questions"] == 3
