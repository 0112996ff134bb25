from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ap_ranker.errors import InputError
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
    ("text", "message"),
    [
        ("", "space.yaml: expected at least one line 'setting: [choice, choice]', found none"),
        ("- a", "space.yaml: expected 'name: value' lines, found list"),
        ("a: [", "space.yaml: expected settings in YAML"),
        ("epoch: [3]", "space.yaml, epoch: Unknown name 'epoch': expected one of model, options, recipe"),
        ("epoch: {low: 1, high: 2}", "space.yaml, epoch: Unknown name 'epoch': expected one of model"),
        ("3: [3]", "Unknown name '3'"),
        ("options: [a]", "space.yaml, options: expected the options one by one, as options.NAME"),
        ("seed: [1, 2]", "space.yaml, seed: expected no seed"),
        ("match: [both, answer]", "space.yaml, match: expected no match"),
        (
            "dev_share: [0.1, 0.2]",
            "dev_share: expected no dev_share, as all trials use the same dev questions",
        ),
        ("dev_questions: [5, 9]", "space.yaml, dev_questions: expected no dev_questions"),
        ("epochs: []", "space.yaml, epochs: The `choices` must contain one or more elements"),
        ("epochs: 3", "expected a list of choices, or low and high, found 3. A value that all trials share belongs"),
        ("epochs: [[3]]", "space.yaml, epochs: Expected epochs to be a valid integer, found [3]"),
        ("epochs: [3, many]", "space.yaml, epochs: Expected epochs to be a valid integer, found 'many'"),
        ("epochs: [3, 0]", "space.yaml, epochs: Expected epochs above 0"),
        ("epochs: {low: 1}", "space.yaml, epochs: Expected high, found none"),
        ("epochs: {}", "space.yaml, epochs: Expected low, found none"),
        ("epochs: {low: 1, high: 3, by: 2}", "Unknown name 'by': expected one of low, high, log, step"),
        ("epochs: {low: 1, high: 2.5}", "space.yaml, epochs: Expected epochs to be a valid integer, found 2.5"),
        ("epochs: {low: true, high: 2}", "space.yaml, epochs: Expected low to be a valid number, found True"),
        ("epochs: {low: 5, high: 3}", "low=5, high=3"),
        ("epochs: {low: 0, high: 3}", "space.yaml, epochs: Expected epochs above 0"),
        ("batch_size: {low: 0, high: 3}", "Expected batch_size to be greater than 0, found 0"),
        ("negatives: {low: 0, high: 3, log: true}", "low=0, high=3"),
        ("epochs: {low: 1, high: 3, log: 1}", "space.yaml, epochs: Expected log to be a valid boolean, found 1"),
        ("epochs: {low: 1, high: 9, log: true, step: 2}", "step"),
        ("epochs: {low: 1, high: 9, step: 0}", "step=0"),
        ("epochs: {low: 1, high: 9, step: 1.5}", "space.yaml, epochs: expected an integer as step, found 1.5"),
        ("learning_rate: {low: 0.1, high: .inf}", "Expected high to be a finite number, found inf"),
        ("learning_rate: {low: .nan, high: 1}", "Expected low to be a finite number, found nan"),
        (
            "learning_rate: {low: 1e-4, high: 1}",
            "low to be a valid number, found '1e-4'. YAML reads 1e-4 as text: write it with a point, as in 1.0e-4",
        ),
        ("learning_rate: [1e-4, 0.1]", "YAML reads 1e-4 as text"),
        ("options.dropout: [1e-1]", "YAML reads 1e-1 as text"),
        ("learning_rate: [-0.1, 0.1]", "Expected learning_rate to be greater than 0, found -0.1"),
        ("phrases: {low: 0, high: 1}", "Expected phrases to be a valid boolean, found 0"),
        ("objective: [hinge, triplet]", "Expected objective to be one of softmax, hinge, pointwise, listwise, found"),
        ("options.filter: [3]", "options.filter: ap-cnn has no option 'filter': expected one of "),
        ("options.filters: [3, a]", "space.yaml, options.filters: ap-cnn: option 'filters' must be int, found 'a'"),
        ("model: [ap-cnn, ap-cn]", "space.yaml, model: Unknown model 'ap-cn'"),
        ("options.filters: [3]\nmodel: [ap-cn]", "space.yaml, model: Unknown model 'ap-cn'"),
        ("model: {low: a, high: b}", "space.yaml, model: Expected low to be a valid number, found 'a'"),
        (
            "model: [qa-bilstm, ap-bilstm]\noptions.filters: [3]",
            "options.filters: qa-bilstm has no option 'filters': expected one of ",
        ),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        read(tmp_path, text)
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "space.yaml"))


def test_an_option_that_one_of_the_models_has(tmp_path: Path) -> None:
    space = read(tmp_path, "options.hidden: {low: 2, high: 4}\nmodel: [ap-cnn, qa-bilstm]")
    assert space == {
        "model": CategoricalDistribution(("ap-cnn", "qa-bilstm")),
        "options.hidden": IntDistribution(2, 4),
    }


def test_no_file() -> None:
    with pytest.raises(InputError, match=r"No file at 'nowhere.yaml'"):
        read_space(Path("nowhere.yaml"), BASE)
