from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from conftest import write_checkpoint, write_encoder
from naive import SMALL
from naive.ap_transformer import TINY
from refusals import absent, refused
from small_runs import TOPICS, StopAfter, of_topics
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.evaluate import evaluate
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models.ap_transformer import WORD_WEIGHTS
from ap_ranker.models.base import Classifier
from ap_ranker.models.registry import MODELS, complete_options
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import read_checkpoint_config
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Basis
from ap_ranker.text.word_vectors import read_vectors
from ap_ranker.training.batches import Batches
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.initialize import initialize_model, with_effort
from ap_ranker.training.train import TrainingResult, train, train_or_load
from ap_ranker.training.trainer import AnswerTrainer

DATA = of_topics("where is my {}?", "the {} is gone", "help with {} please")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = [answer.text for answer in DATA.answers] + [question.text for question in DATA.questions]
    return str(write_encoder(tmp_path_factory.mktemp("encoder") / "tiny", texts))


def settings(name: str, dropout: float = 0.1, **other: Any) -> TrainingConfig:
    options = {**SMALL[name]}
    if "dropout" in MODELS[name].options:
        options["dropout"] = dropout
    return TrainingConfig(name, options, **{"batch_size": 8, "embedding_size": 8, **other})


def is_baseline(name: str) -> bool:
    return MODELS[name].family == "baseline"


def weights(ranker: Ranker) -> dict[str, torch.Tensor]:
    return ranker.model.state_dict()


def same(first: Ranker, second: Ranker) -> bool:
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


class UntilLearnt(TrainerCallback):
    """Ends a run once the dev questions are answered without a mistake."""

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        control.should_training_stop = metrics["eval_MRR"] == 1.0


KINDS = {"ap-cnn", "qa-bilstm", "scnn", "ap-transformer", min(filter(is_baseline, MODELS))}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in KINDS else pytest.mark.slow) for name in sorted(MODELS)]
)
def test_learns_a_tiny_set_by_heart(name: str, encoder: str, tmp_path: Path) -> None:
    # Random vectors that are never learnt must be long to tell words apart.
    size = 512 if is_baseline(name) else 16
    config = settings(name, 0.0, epochs=40, patience=40, learning_rate=0.02, embedding_size=size)
    if name == "scnn":  # each filter must tell one word from all others, as it never sees both texts
        config = replace(config, options={**config.options, "filters": 64}, learning_rate=0.006, objective="listwise")
    if MODELS[name].pretrained:
        config = replace(config, options={**config.options, "encoder": encoder}, max_tokens=24)
        config = replace(config, encoder_learning_rate=0.005)
    result = train(DATA, DATA, tmp_path / "c", config, device="cpu", callbacks=(UntilLearnt(),))
    loaded = Ranker.from_pretrained(tmp_path / "c", "cpu")
    assert same(loaded, result.ranker)
    # The report on the dev questions is cross-fitted: the epoch that others choose may know less by heart.
    assert evaluate(loaded, DATA).model["P@1"] == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_same_seed_same_weights(tmp_path: Path) -> None:
    runs = [
        train(DATA, DATA, tmp_path / str(i), settings("ap-cnn", epochs=2, negatives=3, seed=seed), device="cpu")
        for i, seed in enumerate([1, 1, 2])
    ]
    assert same(runs[0].ranker, runs[1].ranker)
    assert not same(runs[0].ranker, runs[2].ranker)


@pytest.mark.parametrize("name", ["ap-cnn", "qa-bilstm"])
def test_a_resumed_run_ends_with_the_weights_of_an_unbroken_one(name: str, tmp_path: Path) -> None:
    config = settings(name, epochs=4, negatives=3)
    unbroken = train(DATA, DATA, tmp_path / "unbroken", config, device="cpu")
    with pytest.raises(KeyboardInterrupt):
        train(DATA, DATA, tmp_path / "broken", config, device="cpu", callbacks=(StopAfter(2),))
    assert not (tmp_path / "broken").exists()
    resumed = train(DATA, DATA, tmp_path / "broken", config, device="cpu", resume=True)
    assert same(resumed.ranker, unbroken.ranker)
    assert resumed.best_epoch == unbroken.best_epoch


def test_what_is_trained_or_loaded_goes_on_where_it_was_broken(tmp_path: Path) -> None:
    """Hours of a comparison or of a paper's row are not lost when the same command runs again."""
    config, epochs = settings("ap-cnn", epochs=4, negatives=3), Epochs()
    unbroken = train(DATA, DATA, tmp_path / "unbroken", config, device="cpu")
    with pytest.raises(KeyboardInterrupt):
        train_or_load(DATA, DATA, tmp_path / "broken", config, device="cpu", callbacks=(StopAfter(2),))
    with refused("negatives"):
        train_or_load(DATA, DATA, tmp_path / "broken", replace(config, negatives=2), device="cpu")
    finished = train_or_load(DATA, DATA, tmp_path / "broken", config, device="cpu", callbacks=(epochs,))
    assert same(finished, unbroken.ranker)
    assert epochs.number == 2


def test_a_resumed_run_counts_the_seconds_before_it_was_broken(tmp_path: Path) -> None:
    config = settings("ap-cnn", epochs=3)
    with pytest.raises(KeyboardInterrupt):
        train(DATA, DATA, tmp_path / "c", config, device="cpu", callbacks=(StopAfter(2),))
    state = Path(get_last_checkpoint(str(tmp_path / "c.training")), "trainer_state.json")
    history = json.loads(state.read_text())
    for entry in history["log_history"]:  # as if an epoch had taken 500 seconds
        entry |= {name: 500.0 * entry["epoch"] for name in entry if name.endswith("training_seconds")}
    state.write_text(json.dumps(history))
    assert 1000 < train(DATA, DATA, tmp_path / "c", config, device="cpu", resume=True).seconds < 1400


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Ranker]:
    """What the defaults lead to, and the settings that were tried."""
    return [train(DATA, DATA, tmp_path_factory.mktemp("d") / "c", settings("ap-cnn", epochs=2), device="cpu").ranker]


@pytest.mark.parametrize(
    "setting",
    [
        {"objective": "listwise"},
        {"optimizer": "sgd"},
        {"schedule": "inverse"},
        {"weight_decay": 0.1},
        {"recipe": "paper"},
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                {"objective": "hinge"},
                {"objective": "pointwise"},
                {"optimizer": "adadelta"},
                {"schedule": "constant"},
                {"negatives": 3},
            )
        ),
    ],
    ids=lambda setting: "-".join(map(str, setting.values())),
)
def test_the_settings_are_in_force(setting: dict[str, Any], trained: list[Ranker], tmp_path: Path) -> None:
    """Each leads to other weights than any before it."""
    found = train(DATA, DATA, tmp_path / "c", settings("ap-cnn", epochs=2, **setting), device="cpu").ranker
    assert not any(same(found, other) for other in trained)
    trained.append(found)


def all_useful() -> Dataset:
    """Of each question all other answers are of the middle one of three classes: as wrong as the worst."""
    rows = range(len(DATA.answers))
    questions = [
        replace(each, candidates=tuple(rows), labels=tuple(1 + (row in each.positives) for row in rows))
        for each in DATA.questions
    ]
    return replace(DATA, questions=questions, judged=True, classes=("bad", "useful", "good"))


@pytest.mark.parametrize(
    ("model", "data"),
    [("ap-cnn", DATA), ("qa-bilstm", DATA), ("qa-bilstm", all_useful())],
    ids=["ap-cnn", "qa-bilstm", "classes"],
)
def test_answers_without_a_gradient_are_left_out_of_the_papers_hinge(
    model: str, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is learnt is what the whole batch of everybody's drawn answers teaches."""
    kept, keep_hardest = [], AnswerTrainer._keep_hardest

    def counted(self: AnswerTrainer, inputs: dict[str, Any], labels: Any, target: Any) -> Any:
        found = keep_hardest(self, inputs, labels, target)
        kept.append((len(inputs["answer_ids"]), labels.shape[1]))
        return found

    run = partial(train, data, DATA, config=settings(model, 0.0, epochs=2, recipe="paper", batch_size=3), device="cpu")
    monkeypatch.setattr(AnswerTrainer, "_keep_hardest", counted)
    short = run(output=tmp_path / "short").ranker.model
    monkeypatch.setattr(AnswerTrainer, "_keep_hardest", lambda _, inputs, labels, target: (labels, target))
    whole = dict(run(output=tmp_path / "whole").ranker.model.named_parameters())
    assert not caplog.records  # something was learnt
    assert all(few <= 2 * 3 < many for few, many in kept)
    for name, weight in short.named_parameters():
        assert torch.allclose(weight, whole[name], rtol=1e-4, atol=1e-5), name


class LearningRates(TrainerCallback):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        self.seen.append(optimizer.param_groups[0]["lr"])


def test_inverse_schedule_divides_by_the_epoch(tmp_path: Path) -> None:
    """dos Santos et al. 2016, section 5.2: the learning rate of epoch t is lr / t."""
    rates = LearningRates()
    config = settings("ap-cnn", epochs=3, schedule="inverse", optimizer="sgd", learning_rate=0.6)
    train(DATA, DATA, tmp_path / "c", config, device="cpu", callbacks=(rates,))
    steps = len(rates.seen) // 3
    assert rates.seen == pytest.approx([0.6] * steps + [0.3] * steps + [0.2] * steps)


GRADED = Dataset(
    "graded",
    [Answer(f"{topic}-{kind}", f"{kind} {topic}") for topic in TOPICS for kind in ("good", "useful", "bad")],
    [
        Question(topic, f"the {topic}", (3 * i,), (3 * i, 3 * i + 1, 3 * i + 2), (2, 1, 0))
        for i, topic in enumerate(TOPICS)
    ],
    judged=True,
    classes=("Bad", "PotentiallyUseful", "Good"),
)


def test_three_classes(tmp_path: Path) -> None:
    """A classifier learns all three classes, not only the best against the rest."""
    config = settings("scnn", 0.0, objective="pointwise", epochs=60, patience=60, learning_rate=0.006)
    config = replace(config, options={**config.options, "filters": 64}, embedding_size=16)
    ranker = train(GRADED, GRADED, tmp_path / "c", config, device="cpu").ranker
    assert isinstance(ranker.model, Classifier)
    tokens = ranker.tokenize([answer.text for answer in GRADED.answers[:3]])
    with torch.inference_mode():
        questions = ranker.encode_questions([GRADED.questions[0].text] * 3)
        logits = ranker.model.head(ranker.model.features(questions, ranker.encode_answers(tokens)))
    assert logits.shape == (3, 3)
    assert logits.argmax(dim=1).tolist() == [2, 1, 0]
    assert Ranker.from_pretrained(tmp_path / "c", "cpu").config == ranker.config
    other = replace(config, objective="listwise", epochs=1)
    listwise = train(GRADED, GRADED, tmp_path / "listwise", other, device="cpu").ranker
    assert listwise.config is not None
    assert listwise.config.options["classes"] == 2


@pytest.mark.parametrize("name", sorted(filter(is_baseline, MODELS)))
def test_baselines_count_the_training_answers(name: str, tmp_path: Path) -> None:
    result = train(DATA, DATA, tmp_path / "c", settings(name, 0.0), device="cpu")
    assert result.best_epoch == 0
    statistics = Ranker.from_pretrained(tmp_path / "c", "cpu").model.statistics
    assert statistics is not None
    assert statistics.documents == len(TOPICS)
    assert statistics.collection_frequency.sum() == 6 * len(TOPICS)


CHINESE = ["人寿保险", "汽车保险", "医疗补助", "退休金"]


def test_chinese(tmp_path: Path) -> None:
    """Each character is a token; the checkpoint splits as training did."""
    data = Dataset(
        "zh",
        [Answer(str(i), f"{topic}的全部内容都在这里。") for i, topic in enumerate(CHINESE)],
        [Question(str(i), f"什么是{topic}？", (i,)) for i, topic in enumerate(CHINESE)],
    )
    config = settings("qa-cnn", 0.0, epochs=40, patience=40, learning_rate=0.02)
    result = train(data, data, tmp_path / "c", config, device="cpu", callbacks=(UntilLearnt(),))
    assert result.dev.model["P@1"] == 1.0
    loaded = Ranker.from_pretrained(tmp_path / "c", "cpu")
    assert loaded.config == result.ranker.config
    words = [loaded.tokenizer.words[i] for i in loaded.tokenize(["什么是人寿保险？"])[0]]
    assert words == list("什么是人寿保险?")
    assert evaluate(loaded, data).model == result.dev.model


def with_encoder(encoder: str, size: int = 0, *, frozen: bool = False, **other: Any) -> TrainingConfig:
    options = {"encoder": encoder, "size": size, "frozen": frozen, "dropout": 0.1}
    # Four questions of an answer in a batch of eight would leave one negative.
    other = {"batch_size": 8, "group_answers": False, "max_tokens": 24, "epochs": 3, **other}
    return TrainingConfig("ap-transformer", options, **other)


def with_other_answers(data: Dataset) -> Dataset:
    """Each question wants the answer after its own, which nobody can know untrained."""
    wrong = [replace(q, positives=((q.positives[0] + 1) % len(TOPICS),)) for q in data.questions]
    return replace(data, questions=wrong)


def test_an_answer_is_encoded_once_for_several_of_its_questions(encoder: str, tmp_path: Path) -> None:
    data = with_other_answers(DATA)
    sizes: list[tuple[int, int]] = []

    class Spied(Batches):
        def __call__(self, pairs: Sequence[tuple[int, int]]) -> dict[str, torch.Tensor]:
            batch = super().__call__(pairs)
            sizes.append((len(batch["question_ids"]), len(batch["answer_ids"])))
            return batch

    config = with_encoder(encoder, epochs=12, batch_size=12, group_answers=None)
    config = replace(config, learning_rate=0.02, encoder_learning_rate=0.005)
    with patch("ap_ranker.training.train.Batches", Spied):
        result = train(data, data, tmp_path / "c", config, device="cpu")
    assert result.best_epoch > 0
    assert data.questions_per_answer == len(data.questions) / len(TOPICS) == 3
    assert sum(answers for _, answers in sizes) < 0.5 * sum(questions for questions, _ in sizes)


@pytest.mark.parametrize("frozen", [False, True], ids=["fine-tuned", "frozen"])
def test_what_training_changes_of_a_pretrained_encoder(frozen: bool, encoder: str, tmp_path: Path) -> None:
    data = with_other_answers(DATA)
    config = with_encoder(encoder, frozen=frozen, epochs=20, learning_rate=0.02, encoder_learning_rate=0.005)
    result = train(data, data, tmp_path / "c", config, device="cpu")
    assert result.best_epoch > 0
    torch.manual_seed(config.seed)
    untrained = initialize_model(
        data, config, complete_options(config.model, config.options), None, torch.device("cpu")
    )[0]
    before, after = untrained.state_dict(), weights(result.ranker)
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert {"projection.weight", "importance", "rarity", "word_weight"} <= changed
    backbone = {name for name in before if name.startswith("encoder.backbone")}
    if frozen:
        assert not changed & backbone
    else:
        assert len(changed & backbone) > 30


@pytest.mark.parametrize(("judged", "expected"), [(False, 3 * len(TOPICS) + len(TOPICS)), (True, 5)])
def test_how_many_texts_a_frozen_encoder_reads_before_it_learns(judged: bool, expected: int, encoder: str) -> None:
    """All that it will read; of judged candidates, of which it may meet few, a sample."""
    totals: set[int] = set()
    config, cpu = with_encoder(encoder, frozen=True), torch.device("cpu")
    with patch("ap_ranker.training.initialize.SAMPLE", 5):
        data = replace(DATA, judged=judged)
        initialize_model(data, config, config.model_options, None, cpu, lambda what, done, total: totals.add(total))
    assert totals == {expected}


def test_how_much_of_a_large_encoder_learns_on_a_cpu(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sizes = {"small": (384, 6), "large": (768, 12)}
    for name, (size, layers) in sizes.items():
        architecture = TINY | {"hidden_size": size, "num_attention_heads": 12, "num_hidden_layers": layers}
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(architecture))

    def found(name: str, device: str = "cpu", **given: Any) -> tuple[Any, ...]:
        options = {"encoder": str(tmp_path / name), **given.pop("options", {})}
        config = with_effort(TrainingConfig(options=options, **given), torch.device(device))
        return config.model_options["frozen"], config.model_options["trained_layers"], config.epochs

    whole = False, 0, None
    assert [found("small"), found("small", effort="best"), found("large", "cuda")] == [whole] * 3
    assert [found("large", effort="normal"), found("large", epochs=0)] == [whole, (False, 0, 0)]
    assert found("large", effort="best") == (False, 0, 2)
    assert found("large", effort="quick") == (True, 0, None)
    assert found("large", options={"frozen": True}) == (True, 0, None)
    assert not caplog.records
    assert [found("large"), found("large", epochs=3)] == [(True, 6, 2), (True, 6, 3)]
    assert all("--best" in record.getMessage() for record in caplog.records)
    assert len(caplog.records) == 2


def test_an_encoder_and_its_attention_have_learning_rates_of_their_own(encoder: str, tmp_path: Path) -> None:
    """Adam's first step is as long as the learning rate in every number that has a gradient."""
    data = with_other_answers(DATA)
    config = with_encoder(encoder, 6, epochs=1, batch_size=64, schedule="constant", learning_rate=0.03)
    config = replace(config, encoder_learning_rate=0.002, answer_sentences=False, temperature=0.05)
    config = replace(config, options={**config.options, "dropout": 0.0})
    steps: list[dict[str, torch.Tensor]] = []

    class Weights(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            steps.append({name: value.detach().clone() for name, value in model.named_parameters()})

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            steps.append({name: value.detach().clone() for name, value in model.named_parameters()})

    train(data, data, tmp_path / "c", config, device="cpu", callbacks=(Weights(),))
    moved = {name: (steps[1][name] - steps[0][name]).abs().max().item() for name in steps[0]}
    for name, step in moved.items():
        if name.endswith("adapter.weight"):
            assert step == 0, "it learns only where the encoder does not"
            continue
        expected = 0.002 if "backbone" in name else 0.6 if name.endswith(("rarity", "word_weight")) else 0.03
        if name.endswith("key.bias"):  # adds the same to all scores of a softmax: its gradient is rounding alone
            assert step <= 1.05 * expected, name
            continue
        assert step == pytest.approx(expected, rel=0.05), name


@pytest.mark.parametrize("frozen", [False, True], ids=["fine-tuned", "frozen"])
def test_an_untrained_encoder_is_kept_if_training_makes_it_worse(
    frozen: bool, encoder: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It learns from wrong answers, and is judged by the right ones."""
    config = with_encoder(encoder, frozen=frozen, learning_rate=1.0, encoder_learning_rate=0.1, patience=3)
    with caplog.at_level(logging.INFO):
        result = train(with_other_answers(DATA), DATA, tmp_path / "c", config, device="cpu")
    assert not absent("No epoch … untrained … kept", caplog.text)
    torch.manual_seed(config.seed)
    options = complete_options(config.model, config.options)
    untrained = initialize_model(with_other_answers(DATA), config, options, None, torch.device("cpu"))[0].state_dict()
    assert result.best_epoch == 0
    fitted = {name for name in untrained if name == "word_weight" or name.startswith("statistics")}
    kept = weights(result.ranker)
    assert all(torch.equal(kept[name], untrained[name]) for name in untrained.keys() - fitted)
    assert kept["word_weight"] in torch.tensor(WORD_WEIGHTS)
    assert same(Ranker.from_pretrained(tmp_path / "c", "cpu"), result.ranker)


@pytest.mark.parametrize(
    "frozen", [pytest.param(False, id="fine-tuned"), pytest.param(True, id="frozen", marks=pytest.mark.slow)]
)
def test_a_resumed_run_with_an_encoder(frozen: bool, encoder: str, tmp_path: Path) -> None:
    data = with_other_answers(DATA)
    config = with_encoder(encoder, frozen=frozen, epochs=20, learning_rate=0.02, encoder_learning_rate=0.005)
    unbroken = train(data, data, tmp_path / "unbroken", config, device="cpu")
    with pytest.raises(KeyboardInterrupt):
        train(data, data, tmp_path / "broken", config, device="cpu", callbacks=(StopAfter(2),))
    resumed = train(data, data, tmp_path / "broken", config, device="cpu", resume=True)
    assert frozen or resumed.best_epoch == unbroken.best_epoch > 0
    for name, value in weights(resumed.ranker).items():
        assert torch.allclose(value, weights(unbroken.ranker)[name], atol=0.0), name


@pytest.mark.parametrize(
    "other", [{"hidden_size": 24}, {"initializer_range": 0.1}], ids=["another shape", "other weights"]
)
def test_a_run_cannot_be_resumed_with_another_encoder(other: dict[str, float], tmp_path: Path) -> None:
    """Of the same name, whose folder was written anew meanwhile."""
    data, config = with_other_answers(DATA), with_encoder(str(write_encoder(tmp_path / "encoder")), epochs=3)
    with pytest.raises(KeyboardInterrupt):
        train(data, data, tmp_path / "broken", config, device="cpu", callbacks=(StopAfter(2),))
    shutil.rmtree(tmp_path / "encoder")
    write_encoder(tmp_path / "encoder", **other)
    with refused(f"{tmp_path / 'broken.training'} … another encoder"):
        train(data, data, tmp_path / "broken", config, device="cpu", resume=True)
    assert (tmp_path / "broken.training").is_dir()


def test_a_resumed_run_that_keeps_the_untrained_encoder(encoder: str, tmp_path: Path) -> None:
    """What is fitted before the first epoch is the same in the process that goes on."""
    data = with_other_answers(DATA)
    config = with_encoder(encoder, 4, learning_rate=0.3, encoder_learning_rate=0.1, patience=3)
    unbroken = train(data, DATA, tmp_path / "unbroken", config, device="cpu")
    with pytest.raises(KeyboardInterrupt):
        train(data, DATA, tmp_path / "broken", config, device="cpu", callbacks=(StopAfter(1),))
    resumed = train(data, DATA, tmp_path / "broken", config, device="cpu", resume=True)
    assert resumed.best_epoch == unbroken.best_epoch == 0
    expected = weights(unbroken.ranker)
    assert expected["word_weight"] != 1, "not what it begins with, or this test says nothing"
    assert all(torch.equal(value, expected[name]) for name, value in weights(resumed.ranker).items())
    assert resumed.dev.model == unbroken.dev.model


def alike(data: Dataset) -> Dataset:
    """With answers that differ in a number alone."""
    text = "Within thirty days you may send it back, in its box, without damage, with form {}."
    return replace(data, answers=[Answer(each.id, text.format(row)) for row, each in enumerate(data.answers)])


@pytest.mark.parametrize(
    ("data", "settings", "nothing"),
    [
        (DATA, {"batch_size": 1}, True),
        (DATA, {"objective": "listwise", "negatives": 0}, True),
        (alike(DATA), {}, True),
        (DATA, {"batch_size": 1, "negatives": 3}, False),
        (DATA, {}, False),
    ],
    ids=["batches of one", "no negatives", "answers alike", "drawn negatives", "usual"],
)
def test_a_run_that_can_learn_nothing_says_so(
    data: Dataset, settings: dict[str, Any], nothing: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = TrainingConfig("ap-cnn", SMALL["ap-cnn"], epochs=1, answer_sentences=False, **settings)
    train(data, DATA, tmp_path / "c", config, device="cpu")
    assert (not absent("Nothing was learnt … batch_size 1", caplog.text)) == nothing


def test_a_pair_that_is_a_batch_of_its_own_gets_new_negatives_each_epoch(tmp_path: Path) -> None:
    """As with a paper's recipe of one pair a step."""
    drawn: dict[tuple[tuple[int, int], ...], list[list[int]]] = {}
    make = Batches.__call__

    def watched(batches: Batches, pairs: Sequence[tuple[int, int]]) -> dict[str, torch.Tensor]:
        batch = make(batches, pairs)
        drawn.setdefault(tuple(pairs), []).append(sorted(batch["answer_ids"].flatten().tolist()))
        return batch

    answers = [*DATA.answers, *(Answer(f"more-{row}", f"word{row}") for row in range(50))]
    with patch.object(Batches, "__call__", watched):
        config = settings("qa-cnn", batch_size=1, epochs=2, negatives=3, recipe="paper", patience=9)
        train(replace(DATA, answers=answers), DATA, tmp_path / "c", config, device="cpu")
    assert {len(epochs) for epochs in drawn.values()} == {2}
    assert sum(first != second for first, second in drawn.values()) > len(drawn) / 2


def test_a_checkpoint_needs_its_encoder_no_longer(tmp_path: Path) -> None:
    texts = [answer.text for answer in DATA.answers]
    folder = write_encoder(tmp_path / "encoder", texts)
    result = train(DATA, DATA, tmp_path / "c", with_encoder(str(folder), 6), device="cpu")
    shutil.rmtree(folder)
    (tmp_path / "c").rename(tmp_path / "elsewhere")
    with (
        patch("huggingface_hub.snapshot_download", side_effect=AssertionError),
        patch("transformers.AutoModel.from_pretrained", side_effect=AssertionError),
    ):
        loaded = Ranker.from_pretrained(tmp_path / "elsewhere", "cpu", cache=EncodingCache(0))
    assert loaded.config == result.ranker.config
    assert same(loaded, result.ranker)
    assert torch.equal(loaded.score("where is my parcel?", texts), result.ranker.score("where is my parcel?", texts))


@pytest.mark.parametrize(
    ("missing", "facts"),
    [
        ("config.json", "encoder … config.json"),
        ("tokenizer.json", "tokenizer.json"),
        ("model.safetensors", "encoder … safetensors"),
    ],
)
def test_an_encoder_that_lacks_a_file(missing: str, facts: str, tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    (folder / missing).unlink()
    with refused(facts):
        train(DATA, DATA, tmp_path / "c", with_encoder(str(folder)), device="cpu")
    assert not (tmp_path / "c").exists()


def test_settings_that_do_not_suit_an_encoder(encoder: str, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("parcel 1 2 3\nzebra 4 5 6\n")
    vectors = read_vectors(tmp_path / "v.txt")
    with refused("ap-transformer"):
        train(DATA, DATA, tmp_path / "c", with_encoder(encoder), vectors=vectors, device="cpu")
    with refused("24 … max_tokens … 25"):
        train(DATA, DATA, tmp_path / "c", with_encoder(encoder, max_tokens=25), device="cpu")
    with refused("./none"):
        train(DATA, DATA, tmp_path / "c", with_encoder("./none"), device="cpu")


@pytest.mark.usefixtures("diverging")
@pytest.mark.parametrize("name", ["ap-cnn", "ap-transformer"])
def test_a_run_that_diverges_says_so(name: str, encoder: str, tmp_path: Path) -> None:
    """Without a word, scores that are no numbers rank the answers in the order in which they came."""
    config = settings(name) if name == "ap-cnn" else with_encoder(encoder)
    config = replace(config, optimizer="sgd", learning_rate=10)
    with refused("learning_rate"):
        train(DATA, DATA, tmp_path / "c", config, device="cpu")
    assert not (tmp_path / "c").exists()


def test_nothing_to_resume(tmp_path: Path) -> None:
    with refused("c.training"):
        train(DATA, DATA, tmp_path / "c", settings("ap-cnn"), device="cpu", resume=True)


def test_the_best_epoch_is_kept(tmp_path: Path) -> None:
    """The dev set is the training set with wrong answers: learning makes it worse, so an early epoch is the best."""
    config = settings("ap-cnn", epochs=30, patience=3, learning_rate=0.02)
    result = train(DATA, with_other_answers(DATA), tmp_path / "c", config, device="cpu")
    assert result.best_epoch < 10


class Epochs(TrainerCallback):
    """Counts them."""

    number = 0

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        self.number += 1


@contextmanager
def without_calibration() -> Iterator[None]:
    """Without the verdict, either: both score the dev questions once more, as a search has them."""
    with patch("ap_ranker.training.train.calibrate"), patch("ap_ranker.training.train.verdict_of_training") as verdict:
        verdict.return_value = None
        yield


def test_what_cannot_be_calibrated_is_kept_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A FAQ of one answer has no wrong one, on which a threshold could be tried."""
    questions = [Question(str(i), f"{ask} {topic}", (0,)) for ask in "abc" for i, topic in enumerate(TOPICS)]
    data = Dataset("one answer", [Answer("0", "Ask us.")], questions)
    train(data, data, tmp_path / "c", settings("ap-cnn", epochs=1), device="cpu")
    kept = read_checkpoint_config(tmp_path / "c")  # decides by what was learnt from other FAQs
    assert {each.basis for each in kept.calibration.values()} == {Basis.PRIOR}
    assert kept.prior == kept.calibration
    assert [record for record in caplog.records if "not calibrated" in record.getMessage()]


def test_no_checkpoint_is_there_before_its_calibration(tmp_path: Path) -> None:
    """An interrupted one leaves the older checkpoint, and the run can go on."""
    config = settings("ap-cnn", epochs=2)
    train(DATA, DATA, tmp_path / "c", replace(config, seed=2), device="cpu")
    older = (tmp_path / "c" / "config.json").read_bytes()
    with patch("ap_ranker.training.train.calibrate", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        train(DATA, DATA, tmp_path / "c", config, device="cpu")
    assert (tmp_path / "c" / "config.json").read_bytes() == older
    finished = train(DATA, DATA, tmp_path / "c", config, device="cpu", resume=True).ranker.config
    assert finished is not None and finished.calibration


def test_each_epochs_scores_are_made_once(tmp_path: Path) -> None:
    """Also those of a run that was interrupted after its best epoch, which is not the last one."""
    dev, config = with_other_answers(DATA), settings("ap-cnn", epochs=30, patience=3, learning_rate=0.02)

    def ranked(folder: str, resume: bool = False, broken_after: int | None = None) -> TrainingResult | None:
        """The run, which has ranked the dev questions after each of its epochs."""
        epochs, stop = Epochs(), () if broken_after is None else (StopAfter(broken_after),)
        scores = patch.object(EvaluationSet, "timed_scores", autospec=True, side_effect=EvaluationSet.timed_scores)
        with without_calibration(), scores as scored:
            try:
                return train(
                    *(DATA, dev, tmp_path / folder, config), device="cpu", resume=resume, callbacks=(epochs, *stop)
                )
            except KeyboardInterrupt:
                return None
            finally:
                assert scored.call_count == epochs.number > 1

    unbroken = ranked("unbroken")
    assert unbroken is not None
    assert ranked("broken", broken_after=unbroken.best_epoch + 1) is None
    resumed = ranked("broken", resume=True)
    assert resumed is not None
    assert resumed.best_epoch == unbroken.best_epoch
    assert (resumed.dev.model, resumed.dev.fusion) == (unbroken.dev.model, unbroken.dev.fusion)
    assert resumed.ranker.config is not None and unbroken.ranker.config is not None
    assert resumed.ranker.config.bm25_weight == unbroken.ranker.config.bm25_weight


@pytest.mark.parametrize("learns", [True, False])
def test_an_encoders_scores_are_made_once_before_training_and_once_an_epoch(
    learns: bool, encoder: str, tmp_path: Path
) -> None:
    data, epochs = with_other_answers(DATA), Epochs()
    dev = data if learns else DATA
    rate = 0.02 if learns else 0.1
    config = with_encoder(encoder, epochs=8, learning_rate=rate, encoder_learning_rate=0.005 if learns else rate)
    scores = patch.object(EvaluationSet, "timed_scores", autospec=True, side_effect=EvaluationSet.timed_scores)
    with without_calibration(), scores as scored:
        result = train(data, dev, tmp_path / "c", config, device="cpu", callbacks=(epochs,))
    assert scored.call_count == 1 + epochs.number > 1
    assert (result.best_epoch > 0) == learns
    assert evaluate(tmp_path / "c", dev, device="cpu").n_known == len(dev.questions)


def test_word_vectors_are_taken_and_frozen_if_wished(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("parcel 1 2 3\nzebra 4 5 6\n")
    vectors = read_vectors(tmp_path / "v.txt")
    config = settings("ap-cnn", epochs=1, freeze_embeddings=True)
    ranker = train(DATA, DATA, tmp_path / "c", config, vectors=vectors, device="cpu").ranker
    for word, vector in (("parcel", [1, 2, 3]), ("zebra", [4, 5, 6])):
        row = ranker.tokenizer.words.index(word)
        assert weights(ranker)["embedding.vectors.weight"][row].tolist() == vector


def test_the_checkpoint_keeps_the_weight_that_gave_the_fused_dev_numbers(tmp_path: Path) -> None:
    """A model that has learnt nearly nothing is best helped by BM25, which knows the words of these questions."""
    result = train(DATA, DATA, tmp_path / "c", settings("qa-cnn", epochs=1, learning_rate=1e-9), device="cpu")
    ranker = Ranker.from_pretrained(tmp_path / "c", "cpu")
    assert ranker.config is not None and result.dev.fusion is not None
    assert ranker.config.bm25_weight > 0
    assert ranker.config.faq == FAQSketch.with_language([answer.text for answer in DATA.answers])
    served = evaluate(ranker, DATA).fusion
    assert served is not None
    assert served["MRR"] == pytest.approx(result.dev.fusion["MRR"], abs=0.1), "training's numbers are cross-fitted"
    assert result.dev.fusion["MRR"] > result.dev.model["MRR"]


def test_a_checkpoint_remembers_the_stemmer_of_its_bm25(tmp_path: Path) -> None:
    """Half of the questions name a topic in the plural, which only a stemmer finds."""
    questions = [replace(q, text=f"{q.id.split('-')[0]}s") if q.id[-1] == "1" else q for q in DATA.questions]
    data = replace(DATA, questions=questions)
    config = settings("qa-cnn", epochs=1, learning_rate=1e-9)
    plain = train(data, data, tmp_path / "plain", config, device="cpu")
    stemmed = train(data, data, tmp_path / "stemmed", replace(config, language="english"), device="cpu")
    assert stemmed.dev.model == plain.dev.model
    assert stemmed.dev.bm25 == EvaluationSet(data, language="english").bm25
    assert stemmed.dev.bm25["MRR"] > plain.dev.bm25["MRR"] + 0.1
    loaded = read_checkpoint_config(tmp_path / "stemmed")
    assert (loaded.bm25_language, read_checkpoint_config(tmp_path / "plain").bm25_language) == ("english", None)
    again = evaluate(tmp_path / "stemmed", data, device="cpu")
    assert again.fusion is not None
    assert again.bm25 == stemmed.dev.bm25
    assert "| BM25, english stemmer |" in (tmp_path / "stemmed" / "README.md").read_text()


def test_a_checkpoint_from_before_there_were_stemmers(tmp_path: Path) -> None:
    folder = write_checkpoint("qa-cnn", tmp_path / "c")
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("bm25_language") is None
    (folder / "config.json").write_text(json.dumps(config))
    assert Ranker.from_pretrained(folder, "cpu").bm25_language is None


def test_nothing_to_learn_from(tmp_path: Path) -> None:
    with refused("d … right … 1"):
        train(Dataset("d", DATA.answers, [Question("1", "q", ())]), DATA, tmp_path / "c", settings("ap-cnn"))


def test_nothing_to_choose_the_epoch_by(tmp_path: Path) -> None:
    """Said before anything is read, which may take minutes."""
    dev = Dataset("d", DATA.answers, [Question("1", "q", (), (0, 1), (0, 0))], judged=True)
    with patch("ap_ranker.training.train.initialize_model", side_effect=AssertionError), refused("d … right … 1"):
        train(DATA, dev, tmp_path / "c", settings("ap-cnn"))
    assert not (tmp_path / "c").exists()
