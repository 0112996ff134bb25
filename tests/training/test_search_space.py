from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from refusals import refused

from ap_ranker.training.config import TrainingConfig, read_training_config
from ap_ranker.training.search_space import Space, configure, read_space

BASE = TrainingConfig("ap-cnn", {"filters": 8}, epochs=2)


def read(folder: Path, text: str, base: TrainingConfig = BASE) -> Space:
    (folder / "space.yaml").write_text(text)
    return read_space(folder / "space.yaml", base)


def test_choices_and_ranges(tmp_path: Path) -> None:
    space = read(
        tmp_path,
        "learning_rate: {low: 1.0e-4, high: 1, log: true}\n"
        "batch_size: [8, 16]\n"
        "temperature: [null, 0.05]\n"
        "epochs: {low: 1, high: 10, step: 4}\n"
        "options.dropout: {low: 0.1, high: 0.45, step: 0.1}\n"
        "options.filters: {low: 4, high: 8}\n",
    )
    # An integer stays one, and a setting that may be a fraction is one, however its ends are written.
    assert space == {
        "learning_rate": FloatDistribution(0.0001, 1.0, log=True),
        "batch_size": CategoricalDistribution((8, 16)),
        "temperature": CategoricalDistribution((None, 0.05)),
        "epochs": IntDistribution(1, 9, step=4),  # the last whole step
        "options.dropout": FloatDistribution(0.1, 0.4, step=0.1),
        "options.filters": IntDistribution(4, 8),
    }


def test_values_over_the_base() -> None:
    config = configure(BASE, {"learning_rate": 0.1, "options.dropout": 0.5, "options.filters": 4})
    assert (config.learning_rate, config.epochs) == (0.1, 2)
    assert config.options == {"filters": 4, "dropout": 0.5}
    other = configure(BASE, {"model": "qa-bilstm", "options.hidden": 3})
    assert (other.model, other.options) == ("qa-bilstm", {"hidden": 3})  # which has no filters
    assert BASE.options == {"filters": 8}


def test_the_example(tmp_path: Path) -> None:
    faq = ROOT / "examples" / "faq"
    space = read_space(faq / "space.yaml", read_training_config(faq / "settings.yaml", {}))
    assert "learning_rate" in space


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", "space.yaml"),
        ("- a", "space.yaml … name: value … list"),
        ("a: [", "space.yaml … YAML"),
        ("epoch: [3]", "space.yaml, epoch … 'epoch' … 'epochs'"),
        ("epoch: {low: 1, high: 2}", "space.yaml, epoch … 'epoch' … 'epochs'"),
        ("3: [3]", "'3'"),
        ("options: [a]", "space.yaml, options … options.NAME"),
        ("seed: [1, 2]", "space.yaml, seed"),
        ("match: [both, answer]", "space.yaml, match"),
        ("dev_share: [0.1, 0.2]", "space.yaml, dev_share"),
        ("dev_questions: [5, 9]", "space.yaml, dev_questions"),
        ("epochs: []", "space.yaml, epochs … choices"),
        ("epochs: 3", "space.yaml, epochs … low … high … 3"),
        ("epochs: [[3]]", "space.yaml, epochs … [3]"),
        ("epochs: [3, many]", "space.yaml, epochs … 'many'"),
        ("epochs: [3, 0]", "space.yaml, epochs … 0"),
        ("epochs: {low: 1}", "space.yaml, epochs … high"),
        ("epochs: {}", "space.yaml, epochs … low"),
        ("epochs: {low: 1, high: 3, by: 2}", "'by' … low, high, log, step"),
        ("epochs: {low: 1, high: 2.5}", "space.yaml, epochs … 2.5"),
        ("epochs: {low: true, high: 2}", "space.yaml, epochs … low … True"),
        ("epochs: {low: 5, high: 3}", "low=5 … high=3"),
        ("epochs: {low: 0, high: 3}", "space.yaml, epochs … 0"),
        ("batch_size: {low: 0, high: 3}", "batch_size … 0 … 0"),
        ("negatives: {low: 0, high: 3, log: true}", "low=0 … high=3"),
        ("epochs: {low: 1, high: 3, log: 1}", "space.yaml, epochs … log … 1"),
        ("epochs: {low: 1, high: 9, log: true, step: 2}", "step"),
        ("epochs: {low: 1, high: 9, step: 0}", "step=0"),
        ("epochs: {low: 1, high: 9, step: 1.5}", "space.yaml, epochs … step … 1.5"),
        ("learning_rate: {low: 0.1, high: .inf}", "high … inf"),
        ("learning_rate: {low: .nan, high: 1}", "low … nan"),
        ("learning_rate: {low: 1e-4, high: 1}", "low … '1e-4' … 1.0e-4"),
        ("learning_rate: [1e-4, 0.1]", "1.0e-4"),
        ("options.dropout: [1e-1]", "'1e-1'"),
        ("learning_rate: [-0.1, 0.1]", "learning_rate … 0 … -0.1"),
        ("freeze_embeddings: {low: 0, high: 1}", "freeze_embeddings … 0"),
        ("objective: [hinge, triplet]", "objective … softmax, hinge, pointwise, listwise … triplet"),
        ("options.filter: [3]", "options.filter … ap-cnn"),
        ("options.filters: [3, a]", "space.yaml, options.filters … ap-cnn … 'a'"),
        ("model: [ap-cnn, ap-cn]", "space.yaml, model … 'ap-cn'"),
        ("options.filters: [3]\nmodel: [ap-cn]", "space.yaml, model … 'ap-cn'"),
        ("model: {low: a, high: b}", "space.yaml, model … low … 'a'"),
        ("model: [qa-bilstm, ap-bilstm]\noptions.filters: [3]", "options.filters … qa-bilstm"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, facts: str) -> None:
    with refused(facts) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "space.yaml"))


def test_a_value_is_for_the_models_of_the_space(tmp_path: Path) -> None:
    """Not for that of the settings, which no trial has."""
    (tmp_path / "space.yaml").write_text("effort: [quick, best]\nmodel: [ap-transformer]\n")
    found = read_space(tmp_path / "space.yaml", TrainingConfig("ap-cnn"))
    assert found["effort"] == CategoricalDistribution(("quick", "best"))
    (tmp_path / "space.yaml").write_text("effort: [quick, best]\nmodel: [ap-transformer, ap-cnn]\n")
    with refused("space.yaml, effort … ap-cnn … effort: quick"):
        read_space(tmp_path / "space.yaml", TrainingConfig("ap-transformer"))


def test_an_option_that_one_of_the_models_has(tmp_path: Path) -> None:
    space = read(tmp_path, "options.hidden: {low: 2, high: 4}\nmodel: [ap-cnn, qa-bilstm]")
    assert space == {
        "model": CategoricalDistribution(("ap-cnn", "qa-bilstm")),
        "options.hidden": IntDistribution(2, 4),
    }


def test_no_file() -> None:
    with refused("nowhere.yaml"):
        read_space(Path("nowhere.yaml"), BASE)
