"""Distillation: the loss against float64 loops, the teacher's scores against those of an evaluation, every student."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TEXTS, write_checkpoint, write_encoder
from naive import SMALL
from refusals import refused
from small_runs import StopAfter
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models.registry import MODELS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Weights
from ap_ranker.text.tokenizer import WordTokenizer
from ap_ranker.training.batches import HIGHEST, Batches
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.distill import distill
from ap_ranker.training.objectives import IGNORE, ScoredBatch, distillation, objective_spec
from ap_ranker.training.teacher import Teacher, TeacherScores
from ap_ranker.training.train import train
from ap_ranker.training.training_data import read_questions

NAN = math.nan


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ap-ranker" / "teacher-scores"


@pytest.fixture
def teacher(pairs: Dataset, tmp_path: Path) -> Path:
    options = {"encoder": str(write_encoder(tmp_path / "encoder")), "size": 4}
    train(pairs, pairs, tmp_path / "teacher", TrainingConfig("ap-transformer", options, epochs=0, max_tokens=20))
    return tmp_path / "teacher"


def naive_loss(
    scores: np.ndarray,
    logits: np.ndarray,
    labels: np.ndarray,
    target: list[int],
    tau: float,
    soft: float,
    weight: float,
) -> float:
    """The docstring's formulas, one question and one answer at a time."""
    total = 0.0
    for s, z, y, right in zip(scores.tolist(), logits.tolist(), labels.tolist(), target, strict=True):
        known = [i for i, value in enumerate(z) if not math.isnan(value)]
        p = [math.exp(z[i] / soft) for i in known]
        q = [math.exp(s[i] / tau / soft) for i in known]
        p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
        divergence = sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))
        competing = [math.exp(s[i] / tau) for i, label in enumerate(y) if label == 0 or i == right]
        total += weight * soft**2 * divergence
        total -= (1 - weight) * math.log(math.exp(s[right] / tau) / sum(competing))
    return total / len(scores)


@pytest.mark.parametrize(("soft", "weight"), [(1.0, 0.5), (3.0, 0.2), (2.0, 1.0)])
def test_the_loss_is_that_of_the_paper(soft: float, weight: float) -> None:
    rng = np.random.default_rng(3)
    scores, logits = rng.normal(size=(3, 5)), rng.normal(size=(3, 5)) * 2
    logits[0, 3] = logits[2, 0] = logits[2, 1] = NAN
    labels = np.array([[1, 0, 0, 0, 0], [0, 0, 1, 1, IGNORE], [IGNORE] * 5])  # the last question has no labels
    target = [0, 2, 4]
    s, teacher = torch.from_numpy(scores), torch.from_numpy(logits)
    batch = ScoredBatch(s, torch.from_numpy(labels), torch.tensor(target), 0.2, 0.7, 2, teacher, soft, weight)
    expected = naive_loss(scores, logits, labels, target, 0.7, soft, weight)
    assert distillation(batch).item() == pytest.approx(expected, rel=1e-10)


def test_the_gradient_is_finite_and_zero_where_the_teacher_is_met() -> None:
    logits = torch.tensor([[1.0, NAN, -2.0]], dtype=torch.double)
    scores = torch.tensor([[1.0, 9.0, -2.0]], dtype=torch.double, requires_grad=True)
    batch = ScoredBatch(scores, torch.full((1, 3), IGNORE), torch.tensor([0]), 0.2, 1.0, teacher=logits)
    loss = distillation(batch)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(0.0, abs=1e-12)
    assert scores.grad is not None
    np.testing.assert_allclose(scores.grad.numpy(), 0.0, atol=1e-12)


def test_the_teachers_scores_are_those_of_an_evaluation(teacher: Path, pairs: Dataset) -> None:
    ranker = Ranker.from_pretrained(teacher)
    assert ranker.config is not None
    ranker.config = replace(ranker.config, wording_weight=0.4)
    taught, scores = Teacher(ranker, ["Can I pay later?"]).teach(pairs, pairs)
    evaluation_set = EvaluationSet(with_wordings(pairs, pairs))
    expected = [ranking.scores for ranking in evaluation_set.rankings(evaluation_set.scores(ranker), Weights(0.4))]
    assert [question.text for question in taught.questions] == [*TEXTS[::2], "Can I pay later?"]
    assert scores.labelled == 3
    for i, values in enumerate(expected):
        found = scores.logits(i, range(3)) * ranker.model.temperature
        np.testing.assert_allclose(found, values, rtol=0.02)  # a search stores its answers in int8
    assert taught.questions[3].positives == (scores.rows[3][0],)


def test_scores_are_computed_once(
    teacher: Path, pairs: Dataset, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = Teacher(Ranker.from_pretrained(teacher)).teach(pairs, pairs)
    [kept] = own_cache.iterdir()
    with monkeypatch.context() as patched:
        patched.setattr("ap_ranker.training.teacher.score_candidates", None)
        _, again = Teacher(Ranker.from_pretrained(teacher)).teach(pairs, pairs)
    np.testing.assert_array_equal(first.values, again.values)
    kept.write_bytes(b"damaged")
    _, repaired = Teacher(Ranker.from_pretrained(teacher)).teach(pairs, pairs)
    np.testing.assert_array_equal(first.values, repaired.values)
    other = replace(pairs, answers=[replace(answer, text=answer.text + "!") for answer in pairs.answers])
    Teacher(Ranker.from_pretrained(teacher)).teach(other, other)
    assert len(list(own_cache.iterdir())) == 2


def test_batches_hold_the_teachers_best_answers_and_no_label_of_an_unlabelled_question(
    teacher: Path, pairs: Dataset
) -> None:
    taught, lessons = Teacher(Ranker.from_pretrained(teacher), ["Can I pay later?"]).teach(pairs, pairs)
    tokenizer = WordTokenizer.build(TEXTS, max_tokens=20)
    batches = Batches(taught, tokenizer, negatives=0, own_candidates=False, seed=1, lessons=lessons, taught=2)
    batch = batches([(0, 0), (3, taught.questions[3].positives[0])])
    assert batch["teacher"].shape == batch["labels"].shape
    assert batch["labels"][0].tolist().count(1) == 1
    assert batch["labels"][1].eq(IGNORE).all()
    assert not batch["teacher"].isnan().any()
    answers = [
        next(row for row in range(3) if batches.answers[row] == ids[ids > 0].tolist()) for ids in batch["answer_ids"]
    ]
    np.testing.assert_array_equal(batch["teacher"][1], lessons.logits(3, answers))


@pytest.mark.parametrize("taught", [0, 1, 3])
def test_a_batch_has_as_many_of_the_teachers_answers_as_asked_for(taught: int) -> None:
    data = Dataset("d", [Answer(str(i), f"answer {i}") for i in range(40)], [Question("q", "what", (39,))])
    best_first = np.arange(40)[np.newaxis]
    lessons = TeacherScores(best_first, -best_first.astype(np.float32), labelled=1, n_answers=40)
    tokenizer = WordTokenizer.build([answer.text for answer in data.answers], max_tokens=20)
    for seed in range(20):
        batches = Batches(data, tokenizer, negatives=0, own_candidates=False, seed=seed, lessons=lessons, taught=taught)
        logits = batches([(0, 39)])["teacher"][0].tolist()
        assert logits[0] == -39
        assert len(logits) == 1 + taught
        assert all(-HIGHEST < value <= 0 for value in logits[1:])


def test_number_of_the_teachers_answers() -> None:
    assert objective_spec("distillation").taught_answers == 2
    assert objective_spec("listwise-distillation").taught_answers == 8


def test_no_more_answers_can_be_asked_for_than_are_drawn_from() -> None:
    assert TrainingConfig(taught_answers=HIGHEST).taught_answers == HIGHEST
    with refused("taught_answers"):
        TrainingConfig(taught_answers=HIGHEST + 1)


def test_a_question_without_a_right_answer_teaches_the_teachers_order(teacher: Path, pairs: Dataset) -> None:
    unanswered = Question("none", "Can I pay later?", (), candidates=(0, 2), labels=(0, 0))
    judged = replace(pairs, judged=True, questions=[replace(q, candidates=(0, 1, 2)) for q in pairs.questions])
    taught, lessons = Teacher(Ranker.from_pretrained(teacher)).teach(judged, judged, [unanswered])
    assert taught.questions[3].positives == (lessons.rows[3][0],)
    assert sorted(lessons.rows[3]) == [0, 2]
    tokenizer = WordTokenizer.build(TEXTS, max_tokens=20)
    batches = Batches(taught, tokenizer, negatives=15, own_candidates=True, seed=1, lessons=lessons, taught=8)
    batch = batches([(0, 1), (3, taught.questions[3].positives[0])])
    assert batch["labels"][1].eq(IGNORE).all()
    assert (~batch["teacher"][1].isnan()).sum() == 2


def test_training_asks_the_teacher_about_questions_without_a_right_answer(
    teacher: Path, pairs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    scored = Teacher._scores

    def noted(self: Teacher, data: Dataset, *rest: object) -> np.ndarray:
        asked.extend(question.text for question in data.questions)
        return scored(self, data, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Teacher, "_scores", noted)
    labels = [tuple(int(row in q.positives) for row in range(3)) for q in pairs.questions]
    questions = [replace(q, candidates=(0, 1, 2), labels=each) for q, each in zip(pairs.questions, labels, strict=True)]
    unanswered = Question("none", "Can I pay later?", (), candidates=(0, 2), labels=(0, 0))
    judged = replace(pairs, judged=True, questions=[*questions, unanswered])
    config = TrainingConfig("bow-idf", epochs=1, embedding_size=4, answer_sentences=False)
    distill(teacher, judged, judged, tmp_path / "student", config)
    assert asked == [*(question.text for question in questions), "Can I pay later?"]


LEARNING = sorted(set(MODELS) - {"bm25"})


@pytest.mark.parametrize(
    "student", [pytest.param(each, marks=[pytest.mark.slow] * (number % 9 > 0)) for number, each in enumerate(LEARNING)]
)
def test_every_model_can_be_a_student(student: str, teacher: Path, pairs: Dataset, tmp_path: Path) -> None:
    options = dict(SMALL[student])
    if MODELS[student].pretrained:
        options["encoder"] = str(tmp_path / "encoder")
    config = TrainingConfig(student, options, epochs=1, max_tokens=20, embedding_size=4)
    result = distill(teacher, pairs, pairs, tmp_path / "student", config, questions=["Can I pay later?"])
    assert result.ranker.config is not None
    assert result.ranker.config.training["teacher"] == str(teacher)
    asked = ["Can I pay later?", "Is this new?"]
    assert Ranker.from_pretrained(tmp_path / "student").seen_in_training(asked) == [True, False]
    assert str(teacher) in (tmp_path / "student" / "README.md").read_text()


def test_a_student_learns_what_no_label_says(teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question has a label; the answers to the others, which share no word with them, only the teacher knows."""
    answers = [Answer(str(i), text) for i, text in enumerate(TEXTS)]
    labelled = Dataset("data", answers, [Question("0", TEXTS[0], (1,))])
    others, right = ["alpha", "beta", "gamma", "delta", "epsilon"], [5, 4, 0, 1, 2]

    def made_up(_: object, data: Dataset, questions: list[Question], pools: list[tuple[int, ...]]) -> np.ndarray:
        first = [right[others.index(q.text)] if q.text in others else 1 for q in questions]
        return np.float32([row == best for best, pool in zip(first, pools, strict=True) for row in pool])

    monkeypatch.setattr("ap_ranker.training.teacher._score", made_up)
    asked = [Question(str(i), text, (row,)) for i, (text, row) in enumerate(zip(others, right, strict=True))]
    config = TrainingConfig("bow-idf", epochs=40, patience=40, learning_rate=0.03, answer_sentences=False)
    dev = replace(labelled, questions=asked)
    alone = distill(teacher, labelled, dev, tmp_path / "alone", config)
    taught = distill(teacher, labelled, dev, tmp_path / "taught", config, questions=others)
    without, with_them = (EvaluationSet(dev).report(each.ranker).model["MRR"] for each in (alone, taught))
    assert with_them == 1.0 > without + 0.3


@pytest.mark.parametrize(
    ("config", "facts"),
    [
        (TrainingConfig("bm25"), "ap-cnn … bm25"),
        (TrainingConfig("ap-cnn", objective="hinge"), "objective … hinge"),
        (TrainingConfig("ap-transformer", epochs=0), "epochs … 0"),
    ],
)
def test_refused(config: TrainingConfig, facts: str, checkpoint: Path, pairs: Dataset, tmp_path: Path) -> None:
    with refused(facts):
        distill(checkpoint, pairs, pairs, tmp_path / "student", config)
    assert not (tmp_path / "student").exists()


def test_a_run_is_not_resumed_with_another_teacher_of_the_same_name(pairs: Dataset, tmp_path: Path) -> None:
    """Its weights have learnt other scores."""
    folder = write_checkpoint("ap-cnn", tmp_path / "teacher")
    config = TrainingConfig("qa-cnn", SMALL["qa-cnn"], epochs=2, embedding_size=4)
    with pytest.raises(KeyboardInterrupt):
        distill(folder, pairs, pairs, tmp_path / "student", config, callbacks=(StopAfter(1),))
    shutil.rmtree(folder)
    write_checkpoint("ap-cnn", folder, {**SMALL["ap-cnn"], "filters": 3})
    with refused("student.training … another teacher"):
        distill(folder, pairs, pairs, tmp_path / "student", config, resume=True)


def test_questions_without_labels_need_shared_answers(teacher: Path, pairs: Dataset) -> None:
    with refused("--questions"):
        Teacher(Ranker.from_pretrained(teacher), ["More?"]).teach(replace(pairs, judged=True), pairs)


def test_a_teacher_of_words_teaches_too(pairs: Dataset, tmp_path: Path) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "teacher")
    config = TrainingConfig("qa-cnn", SMALL["qa-cnn"], epochs=1, embedding_size=4)
    assert distill(folder, pairs, pairs, tmp_path / "student", config).best_epoch == 1


def test_read_questions(pairs: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("id,question\n1,Can I pay later?\n2,Where is my parcel?\n3,Can I pay later?\n")
    assert read_questions(path, pairs) == ["Can I pay later?"]
    (tmp_path / "other.csv").write_text("text\nCan I pay later?\n")
    with refused("question"):
        read_questions(tmp_path / "other.csv", pairs)


def test_from_the_command_line(faq: Path, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("question\nCan I pay later?\n")
    run = ["distill", str(checkpoint), str(faq), "--dev", str(faq), "--questions", str(tmp_path / "log.csv")]
    result = CliRunner().invoke(app, [*run, "--epochs", "1", "--output", str(tmp_path / "student")])
    assert result.exit_code == 0, result.output
    assert "Wrote" in result.output
    card = (tmp_path / "student" / "README.md").read_text()
    assert [name for name in ("bow-idf", str(checkpoint)) if name not in card] == []
    again = CliRunner().invoke(app, [*run, "--model", "bm25", "--output", str(tmp_path / "other")])
    assert isinstance(again.exception, InputError)
