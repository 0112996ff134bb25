"""The epoch and the weights that dev questions choose, against naive loops over the scores of each epoch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import write_checkpoint

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.wordings import with_wordings
from ap_ranker.evaluation.cross_fitting import parts_of
from ap_ranker.evaluation.dev_choice import DevChoice, Epoch
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.evaluation.weight_fit import PRIORS, STEPS
from ap_ranker.training.epoch_scores import EpochScores, arrays_of, scores_of

WORDS = ["parcel", "refund", "helmet", "brake", "lease"]
ANSWERS = [Answer(str(n), f"About the {word} and more.") for n, word in enumerate(WORDS)]
TEXTS = [f"{chr(97 + n) * 5} of a {WORDS[n * n % 5]}" for n in range(24)]


def asked(count: int = len(TEXTS)) -> EvaluationSet:
    questions = [Question(str(n), text, (n % len(ANSWERS),)) for n, text in enumerate(TEXTS[:count])]
    return EvaluationSet(Dataset("d", ANSWERS, questions))


def drawn(evaluation_set: EvaluationSet, seed: int, help_to: float = 1.0) -> CandidateScores:
    """Scores at random, those of right answers raised by as much, and differently for each epoch."""
    rng = np.random.default_rng(seed)
    return CandidateScores(
        [rng.normal(size=len(ANSWERS)) + help_to * each for each in evaluation_set.right], 0.0, 0.0, 0.0
    )


def naive_reciprocal_rank(scores: np.ndarray, right: int) -> float:
    return 1 / (1 + sum(score > scores[right] for place, score in enumerate(scores) if place != right))


def naive_log_posterior(scores: list[np.ndarray], bm25: list[np.ndarray], rights: list[int], multiple: float) -> float:
    """Of a multiple of the spread: the likelihood at the best scale, by trying many, and the prior."""
    unit = np.mean([each.std() for each in scores]) / np.mean([each.std() for each in bm25])
    fused = [own + multiple * unit * other for own, other in zip(scores, bm25, strict=True)]
    totals = []
    for scale in np.geomspace(0.05, 20, 120):
        total = 0.0
        for values, right in zip(fused, rights, strict=True):
            chances = np.exp(scale * (values - values.max()))
            total += float(np.log(chances[right] / chances.sum() + 1e-300))
        totals.append(total)
    prior = PRIORS["bm25"]
    return max(totals) - 0.5 * (np.log(multiple / prior.median) / prior.deviation) ** 2


def test_each_question_has_the_epoch_and_the_weights_that_the_others_choose() -> None:
    evaluation_set = asked()
    epochs = [Epoch(number, evaluation_set, drawn(evaluation_set, number)) for number in range(30)]
    crossed = DevChoice.of(epochs).cross_fitted
    rights = [n % len(ANSWERS) for n in range(len(TEXTS))]
    bm25 = evaluation_set.bm25_scores
    assert len(set(crossed.epochs)) > 1, "the case shows nothing"
    tried = PRIORS["bm25"].median * np.exp(STEPS * PRIORS["bm25"].deviation)
    for part in parts_of(TEXTS):
        rest = [row for row in range(len(TEXTS)) if row not in part]
        means = [
            float(np.mean([naive_reciprocal_rank(epoch.scores.by_question[row], rights[row]) for row in rest]))
            for epoch in epochs
        ]
        chosen = means.index(max(means))
        scores = [epochs[chosen].scores.by_question[row] for row in rest]
        posterior = [
            naive_log_posterior(scores, [bm25[row] for row in rest], [rights[row] for row in rest], float(multiple))
            for multiple in tried
        ]
        place = int(np.argmax(posterior))
        unit = np.mean([each.std() for each in scores]) / np.mean([bm25[row].std() for row in rest])
        expected = tried[place] * unit
        for row in part:
            assert crossed.epochs[row] == chosen
            assert crossed.weights[row].bm25 == pytest.approx(expected, rel=1e-6)
            assert np.array_equal(crossed.scores.by_question[row], epochs[chosen].scores.by_question[row])


@pytest.mark.slow
def test_the_chosen_epoch_looks_better_on_the_questions_that_chose_it() -> None:
    """Of twenty epochs that are equally good, the best one by chance; cross-fitted, it is as good as any."""
    gaps = []
    for seed in range(20):
        evaluation_set = asked()
        epochs = [Epoch(n, evaluation_set, drawn(evaluation_set, 100 * seed + n)) for n in range(20)]
        choice = DevChoice.of(epochs)
        truth = np.mean([epoch.mrr() for epoch in epochs])
        gaps.append((choice.best.mrr() - truth, choice.report().model["MRR"] - truth))
    chosen, crossed = np.mean(gaps, axis=0)
    assert chosen > 0.08
    assert abs(crossed) < chosen / 3


def test_one_group_alone_is_ranked_by_what_it_chooses() -> None:
    evaluation_set = asked(1)
    choice = DevChoice.of([Epoch(n, evaluation_set, drawn(evaluation_set, n)) for n in range(3)])
    assert choice.cross_fitted.epochs == [choice.best.number]
    assert list(choice.cross_fitted.weights) == [choice.weights]


def test_what_is_kept_of_an_epoch_is_read_again_as_it_was(tmp_path: Path) -> None:
    evaluation_set = asked()
    kept = EpochScores(evaluation_set, tmp_path)
    for step in (10, 20, 30):
        kept.add(step, Epoch(step // 10, evaluation_set, drawn(evaluation_set, step)))
    again = EpochScores(evaluation_set, tmp_path)
    again.load(20, steps_of_epoch=10)  # the state of the last step was lost
    assert [epoch.number for epoch in again.epochs] == [1, 2]
    for one, other in zip(kept.epochs, again.epochs, strict=False):
        for own, read in zip(one.scores.by_question, other.scores.by_question, strict=True):
            assert np.array_equal(own, read)
        assert one.mrr() == other.mrr()


def test_the_worst_epochs_are_dropped_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation_set = asked()
    size = sum(each.nbytes for each in arrays_of(drawn(evaluation_set, 0)).values())
    monkeypatch.setattr("ap_ranker.training.epoch_scores.MOST_BYTES", 3 * size)
    kept = EpochScores(evaluation_set, tmp_path)
    helps = [0.0, 3.0, 1.0, 2.0, 4.0, 0.5]
    for number, helped in enumerate(helps):
        kept.add(number, Epoch(number, evaluation_set, drawn(evaluation_set, number, helped)))
    assert [epoch.number for epoch in kept.epochs] == [1, 3, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"dev-scores-{n}.safetensors" for n in (1, 3, 4)]


def test_the_arrays_of_scores_have_all_lists(tmp_path: Path) -> None:
    lists = [[np.arange(3.0), np.arange(2.0)] for _ in range(3)]
    scores = CandidateScores(lists[0], 1.0, 2.0, 3.0, cosines=lists[1], wordings=lists[2])
    again = scores_of(arrays_of(scores), [3, 2])
    assert (again.encode_seconds, again.question_seconds, again.bytes_per_answer) == (1.0, 2.0, 3.0)
    for name in ("by_question", "cosines", "wordings"):
        for own, read in zip(getattr(scores, name), getattr(again, name), strict=True):
            assert np.array_equal(own, read)


def test_dev_questions_know_each_other_but_not_themselves(tmp_path: Path) -> None:
    """A near copy of a question is a known wording in the search, and so is it on dev."""
    from ap_ranker.ranking.ranker import Ranker

    questions = [Question("0", "where is my parcel now", (0,)), Question("1", "where is my own parcel now", (0,))]
    dev = Dataset("d", ANSWERS, questions)
    ranker = Ranker.from_pretrained(write_checkpoint("bow-idf", tmp_path / "c"), "cpu")
    asked_again = EvaluationSet(with_wordings(dev, dev))
    scores = asked_again.with_wordings(ranker, asked_again.timed_scores(ranker))
    if scores.wordings is None:
        pytest.skip("the model has no vectors of whole texts")
    own = ranker.embed_questions([each.text for each in questions]).numpy()
    expected = float(own[0] @ own[1])
    assert scores.wordings[0][0] == pytest.approx(expected, abs=0.02)
    assert scores.wordings[1][0] == pytest.approx(expected, abs=0.02)
