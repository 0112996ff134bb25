from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError
from ap_ranker.models.registry import model_spec
from ap_ranker.training.config import TrainingConfig, read_training_config


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
    assert TrainingConfig().sampled_negatives("hinge") == 50
    assert TrainingConfig().sampled_negatives("softmax") == 0
    assert TrainingConfig(negatives=0).sampled_negatives("hinge") == 0
    hard = TrainingConfig(negatives_from="bm25")
    found = {name: hard.sampled_negatives(name) for name in ("softmax", "hinge", "pointwise", "listwise")}
    assert found == {"softmax": 2, "hinge": 2, "pointwise": 15, "listwise": 15}
    assert TrainingConfig(negatives_from="model", negatives=7).sampled_negatives("softmax") == 7


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
    mixed = TrainingConfig("ap-cnn", recipe="paper", optimizer="adadelta", learning_rate=0.5).training_recipe(
        judged=False
    )
    assert mixed == replace(paper, optimizer="adadelta", learning_rate=0.5)
    assert TrainingConfig("ap-cnn", objective="listwise").training_recipe(judged=False).batch_size == 16
    assert TrainingConfig("ap-cnn").training_recipe(judged=True).objective == "listwise"
    assert TrainingConfig("ap-cnn", recipe="paper").training_recipe(judged=True).objective == "hinge"
    assert TrainingConfig("bm25", objective="hinge").training_recipe(judged=True).objective == "counts"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("language: englisch", "c.yaml: Expected language to be one of arabic, "),
        ("language: 3", "Expected language to be a valid string, found 3"),
        ("epoch: 3", "c.yaml: Unknown name 'epoch': expected one of model, options"),
        ("epochs: many", "c.yaml: Expected epochs to be a valid integer, found 'many'"),
        ("epochs: true", "Expected epochs to be a valid integer, found True"),
        ("freeze_embeddings: 1", "Expected freeze_embeddings to be a valid boolean, found 1"),
        ("match: title", "Expected match to be 'both', 'answer' or 'question', found 'title'"),
        ("objective: triplet", "Expected objective to be one of softmax, hinge, pointwise, listwise, found 'triplet'"),
        ("objective: counts", "Expected objective to be one of softmax, hinge, pointwise, listwise, found 'counts'"),
        ("optimizer: lion", "Expected optimizer to be 'adam', 'sgd' or 'adadelta', found 'lion'"),
        ("schedule: cosine", "Expected schedule to be 'linear', 'constant' or 'inverse', found 'cosine'"),
        ("negatives_from: bm52", "Expected negatives_from to be 'random', 'bm25' or 'model', found 'bm52'"),
        ("negatives_from: null", "Expected negatives_from to be 'random', 'bm25' or 'model', found None"),
        ("{negatives_from: model, negatives: 0}", "Expected negatives above 0 with negatives_from: model, found 0"),
        ("recipe: theirs", "Expected recipe to be 'ours' or 'paper', found 'theirs'"),
        ("learning_rate: 0", "Expected learning_rate to be greater than 0, found 0"),
        ("learning_rate: 1e-4", "found '1e-4'. YAML reads 1e-4 as text: write it with a point, as in 1.0e-4"),
        ("dev_share: 1.5", "Expected dev_share to be less than 1, found 1.5"),
        ("options: [1]", "Expected options to be"),
        ("options: {filter: 3}", "ap-transformer has no option 'filter'"),
        ("model: ap", "Unknown model 'ap'"),
        ("- a", "expected 'name: value' lines, found list"),
        ("a: [", "expected settings in YAML"),
    ],
)
def test_bad_settings(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        read_training_config(tmp_path / "c.yaml", {})
    assert str(caught.value).startswith(str(tmp_path / "c.yaml"))


def test_no_file_is_blamed_for_what_the_command_line_says(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model: ap-cnn\n")
    with pytest.raises(InputError, match=r"^Expected epochs to be .*, found -1"):
        read_training_config(tmp_path / "c.yaml", {"epochs": -1})
    with pytest.raises(InputError, match=r"c\.yaml: Expected epochs above 0 .* for ap-cnn"):
        read_training_config(tmp_path / "c.yaml", {"epochs": 0})


def test_missing_file() -> None:
    with pytest.raises(InputError, match=r"No file at 'nowhere\.yaml'"):
        read_training_config(Path("nowhere.yaml"), {})


def test_epochs_are_few_with_a_pretrained_encoder() -> None:
    def epochs(config: TrainingConfig) -> int:
        return config.training_recipe(judged=False).epochs

    assert [epochs(TrainingConfig(model)) for model in ("ap-cnn", "ap-transformer")] == [20, 4]
    assert [epochs(TrainingConfig(model, recipe="paper")) for model in ("ap-cnn", "ap-transformer")] == [20, 4]
    assert [epochs(TrainingConfig("ap-transformer", epochs=given)) for given in (0, 7)] == [0, 7]
    efforts = [TrainingConfig("ap-transformer", effort=effort) for effort in ("quick", "normal", "best")]  # type: ignore[arg-type]
    assert [epochs(config) for config in efforts] == [8, 4, 8]
    assert [config.model_options["frozen"] for config in efforts] == [True, False, False]
    frozen = TrainingConfig("ap-transformer", {"frozen": True}, effort="best")
    assert (epochs(frozen), frozen.model_options["frozen"]) == (8, True)


def test_effort_is_for_a_pretrained_encoder() -> None:
    with pytest.raises(InputError, match=r"effort: normal for ap-cnn, found .* effort: quick"):
        TrainingConfig("ap-cnn", effort="quick")
