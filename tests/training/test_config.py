from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused

from ap_ranker.data.faq import Match
from ap_ranker.models.registry import MODELS, model_spec
from ap_ranker.training.config import TrainingConfig, read_training_config
from ap_ranker.training.objectives import objective_spec


def test_command_line_over_file_over_defaults(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model: qa-cnn\noptions: {filters: 7}\nepochs: 3\nmatch: answer\nmargin: 1\n")
    config = read_training_config(tmp_path / "c.yaml", {"epochs": 5, "seed": None})
    assert (config.model, config.options, config.epochs, config.seed) == (
        "qa-cnn",
        {"filters": 7},
        5,
        TrainingConfig.seed,
    )
    assert (config.match, config.training_recipe(judged=False).margin) == (Match.answer, 1)


def test_papers_margin_and_negatives() -> None:
    assert TrainingConfig("ap-bilstm").training_recipe(judged=False).margin == 0.2
    found = {name: objective_spec(name).negatives for name in ("softmax", "hinge", "pointwise", "listwise")}
    assert found == {"softmax": 0, "hinge": 50, "pointwise": 15, "listwise": 15}


def test_what_no_paper_names_is_off_in_its_recipe() -> None:
    """Word dropout, clipped gradients, answer sentences and negatives shared by a batch, unless the settings say so."""
    for name, spec in MODELS.items():
        ours, theirs = TrainingConfig(name), TrainingConfig(name, recipe="paper")
        recipe = theirs.training_recipe(judged=False)
        assert theirs.model_options.get("dropout", 0.0) == recipe.dropout == spec.recipe.dropout, name
        assert ours.training_recipe(judged=False).max_grad_norm == 5.0
        assert not theirs.learns_from_sentences(10)
        assert not ours.training_recipe(judged=False).own_negatives
    named = {name for name, spec in MODELS.items() if spec.recipe.dropout and not spec.pretrained}
    assert named == {"global-local", "tf-lstm", "bimpm", "compare-aggregate"}
    given = TrainingConfig("ap-cnn", {"dropout": 0.2}, recipe="paper")
    assert (given.model_options["dropout"], given.training_recipe(judged=False).dropout) == (0.2, 0.2)
    assert TrainingConfig("ap-cnn").model_options["dropout"] == 0.3


@pytest.mark.parametrize(
    ("config", "questions_per_answer", "expected"),
    [
        (TrainingConfig("ap-transformer"), 1.9, (False, 64, 5e-5)),
        (TrainingConfig("ap-transformer"), 2.0, (True, 128, 1e-4)),
        (TrainingConfig("ap-transformer", group_answers=False), 9.0, (False, 64, 5e-5)),
        (TrainingConfig("ap-transformer", batch_size=32, encoder_learning_rate=1e-3), 9.0, (True, 32, 1e-3)),
        (TrainingConfig("ap-transformer", objective="listwise", group_answers=True), 9.0, (False, 16, 5e-5)),
        (TrainingConfig("ap-cnn"), 9.0, (False, 64, 5e-5)),
        (TrainingConfig("ap-cnn", group_answers=True), 1.0, (True, 128, 1e-4)),
        (TrainingConfig("ap-cnn", recipe="paper"), 9.0, (False, 20, 5e-5)),
    ],
)
def test_when_questions_of_an_answer_share_a_batch(
    config: TrainingConfig, questions_per_answer: float, expected: tuple[bool, int, float]
) -> None:
    recipe = config.training_recipe(judged=False, questions_per_answer=questions_per_answer)
    assert (recipe.group_answers, recipe.batch_size, recipe.encoder_learning_rate) == expected


def test_the_papers_recipe_and_ours() -> None:
    ours = TrainingConfig("ap-cnn").training_recipe(judged=False)
    assert (ours.objective, ours.optimizer, ours.schedule, ours.batch_size) == ("softmax", "adam", "linear", 64)
    paper = TrainingConfig("ap-cnn", recipe="paper").training_recipe(judged=False)
    assert paper == model_spec("ap-cnn").recipe
    assert (paper.objective, paper.optimizer, paper.learning_rate, paper.schedule) == ("hinge", "sgd", 1.1, "inverse")
    others = [model_spec(name).recipe.schedule for name in ("qa-cnn", "qa-bilstm", "ap-bilstm")]
    assert others == ["constant", "inverse", "inverse"]  # Attentive Pooling Networks, section 5.3
    mixed = TrainingConfig("ap-cnn", recipe="paper", optimizer="adadelta", learning_rate=0.5).training_recipe(
        judged=False
    )
    assert mixed == replace(paper, optimizer="adadelta", learning_rate=0.5)
    assert TrainingConfig("ap-cnn", objective="listwise").training_recipe(judged=False).batch_size == 16
    assert TrainingConfig("ap-cnn").training_recipe(judged=True).objective == "listwise"
    assert TrainingConfig("ap-cnn", recipe="paper").training_recipe(judged=True).objective == "hinge"
    assert TrainingConfig("bm25", objective="hinge").training_recipe(judged=True).objective == "counts"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("language: englisch", "c.yaml … language … 'englisch' … 'english'"),
        ("language: 3", "language … 3"),
        ("epoch: 3", "c.yaml … 'epoch' … 'epochs'"),
        ("epochs: many", "c.yaml … epochs … 'many'"),
        ("epochs: true", "epochs … True"),
        ("freeze_embeddings: 1", "freeze_embeddings … 1"),
        ("match: title", "match … both … answer … question … title"),
        ("objective: triplet", "objective … softmax, hinge, pointwise, listwise … triplet"),
        ("objective: counts", "objective … softmax, hinge, pointwise, listwise … counts"),
        ("optimizer: lion", "optimizer … adam … sgd … adadelta … lion"),
        ("mixed_precision: bfloat16", "mixed_precision … auto … off … bf16 … fp16 … bfloat16"),
        ("mixed_precision: false", "mixed_precision … False"),
        ("mixed_precision: off", "mixed_precision … 'off' … False … off … quotation marks"),
        ("language: no", "language … False … quotation marks"),
        ("schedule: cosine", "schedule … linear … constant … inverse … cosine"),
        ("effort: bets", "effort … auto … quick … normal … best … bets"),
        ("effort: null", "effort … auto … quick … normal … best … None"),
        ("recipe: theirs", "recipe … ours … paper … theirs"),
        ("learning_rate: 0", "learning_rate … 0 … 0"),
        ("learning_rate: 1e-4", "'1e-4' … 1.0e-4"),
        ("dev_share: 1.5", "dev_share … 1 … 1.5"),
        ("options: [1]", "options"),
        ("options: {filter: 3}", "ap-transformer … filter"),
        ("options: {trained_layers: 6}", "frozen … true … trained_layers … 6"),
        ("model: ap-cnn\nfilters: 100", "ap-cnn … options: {filters: 100}"),
        ("frozen: true", "ap-transformer … options: {frozen: True}"),
        ("model: [ap-cnn]\nfilters: 100", "ap-cnn"),
        ("model: ap", "ap"),
        ("- a", "name: value … list"),
        ("a: [", "YAML"),
    ],
)
def test_bad_settings(tmp_path: Path, text: str, facts: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with refused(facts) as caught:
        read_training_config(tmp_path / "c.yaml", {})
    assert str(caught.value).startswith(str(tmp_path / "c.yaml"))


def test_no_file_is_blamed_for_what_the_command_line_says(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model: ap-cnn\n")
    with refused("epochs … -1"):
        read_training_config(tmp_path / "c.yaml", {"epochs": -1})
    with refused("c.yaml … epochs … 0 … ap-cnn"):
        read_training_config(tmp_path / "c.yaml", {"epochs": 0})


def test_missing_file() -> None:
    with refused("nowhere.yaml"):
        read_training_config(Path("nowhere.yaml"), {})


def test_epochs_are_few_with_a_pretrained_encoder() -> None:
    def epochs(config: TrainingConfig) -> int:
        return config.training_recipe(judged=False).epochs

    assert [epochs(TrainingConfig(model)) for model in ("ap-cnn", "ap-transformer")] == [20, 4]
    assert [epochs(TrainingConfig(model, recipe="paper")) for model in ("ap-cnn", "ap-transformer")] == [25, 4]
    assert [epochs(TrainingConfig("ap-transformer", epochs=given)) for given in (0, 7)] == [0, 7]
    efforts = [TrainingConfig("ap-transformer", effort=effort) for effort in ("quick", "normal", "best")]  # type: ignore[arg-type]
    assert [epochs(config) for config in efforts] == [8, 4, 8]
    assert [config.model_options["frozen"] for config in efforts] == [True, False, False]
    quick = TrainingConfig(
        "ap-transformer", {"frozen": True, "trained_layers": 3}, effort="quick"
    )  # of a live checkpoint
    assert (quick.model_options["frozen"], quick.model_options["trained_layers"]) == (True, 0)
    frozen = TrainingConfig("ap-transformer", {"frozen": True}, effort="best")
    assert (epochs(frozen), frozen.model_options["frozen"]) == (8, True)


def test_effort_is_for_a_pretrained_encoder() -> None:
    with refused("effort: normal … ap-cnn … effort: quick"):
        TrainingConfig("ap-cnn", effort="quick")
