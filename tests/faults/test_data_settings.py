"""Settings that no training can use: refused wherever they come from, before anything is trained."""

from __future__ import annotations

import math
import re
import time
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import assert_refusal, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.errors import InputError
from ap_ranker.models.registry import MODELS, complete_options
from ap_ranker.training.compare import Contender
from ap_ranker.training.config import TrainingConfig, read_training_config
from ap_ranker.training.search_space import FIXED, read_space

FOUND = {f.name: re.match(r"Annotated\[(int|float), Field\(", str(f.type)) for f in fields(TrainingConfig)}
NUMBERS = {name: found[1] for name, found in FOUND.items() if found}

NONSENSE: dict[str, list[Any]] = {
    "int": [-1, -(10**9), 10**30, 1.5, "3", True],
    "float": [-1, -0.5, math.nan, math.inf, -math.inf, 10**30, 1e30, "0.1", True],
}
ALSO: dict[str, list[Any]] = {
    "batch_size": [0],
    "learning_rate": [0, 1e-400],
    "encoder_learning_rate": [0],
    "temperature": [0, 1e-30],
    "epochs": [0],
    "patience": [0],
    "embedding_size": [0, 700_000],
    "max_tokens": [0],
    "dev_share": [0, 1, 2],
    "dev_questions": [0],
    "seed": [2**32],
}
CASES = [(name, value) for name, kind in NUMBERS.items() for value in [*NONSENSE[kind], *ALSO.get(name, [])]]


def test_every_number_has_bounds_that_its_default_keeps() -> None:
    assert not [f.name for f in fields(TrainingConfig) if str(f.type).startswith(("int", "float"))]
    defaults = {f.name: f.default for f in fields(TrainingConfig) if f.default is not MISSING}
    assert TrainingConfig(**defaults) == TrainingConfig()  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_setting_out_of_bounds(tmp_path: Path, name: str, value: object) -> None:
    with refused(f"{name}") as from_a_program:
        TrainingConfig("ap-cnn", **{name: value})  # type: ignore[arg-type]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"model": "ap-cnn", name: value}))
    with pytest.raises(InputError) as from_a_file:
        read_training_config(tmp_path / "c.yaml", {})
    assert str(from_a_file.value).removeprefix(f"{tmp_path / 'c.yaml'}: ") == str(from_a_program.value)
    if name not in FIXED:
        (tmp_path / "s.yaml").write_text(yaml.safe_dump({name: [value]}))
        with refused(f"s.yaml, {name}"):
            read_space(tmp_path / "s.yaml", TrainingConfig("ap-cnn"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--epochs", "-1"),
        ("train", "--epochs", "999999999"),
        ("train", "--seed", "-1"),
        ("train", "--seed", str(10**30)),
        ("tune", "--space", "space.yaml", "--seed", "-1"),
        ("compare", "--models", "ap-cnn", "--test", "faq.csv", "--epochs", "-1"),
    ],
)
def test_the_command_line_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faq.csv").write_text("question,answer\nwhere,there\nwhen,now\n")
    (tmp_path / "space.yaml").write_text("batch_size: [8, 16]\n")
    result = CliRunner().invoke(app, [arguments[0], "faq.csv", "--output", "out", *arguments[1:]])
    assert_refusal(f"{arguments[-2].removeprefix('--')}", result.exception)
    assert not (tmp_path / "out").exists()


NO_OPTION: dict[type, list[Any]] = {int: [-1, 10**9], float: [-1.0, math.nan, math.inf, -math.inf, 1e30]}
OPTIONS = [
    (model, name, value)
    for model, spec in MODELS.items()
    for name, option in spec.options.items()
    for value in NO_OPTION.get(type(option.default), [])
]


@pytest.mark.parametrize(("model", "name", "value"), OPTIONS)
def test_an_option_of_a_model_out_of_bounds(tmp_path: Path, model: str, name: str, value: object) -> None:
    facts = f"{model}: option '{name}' must be"
    with refused(facts):
        complete_options(model, {name: value})
    with refused(facts):
        TrainingConfig(model, options={name: value})
    with refused(facts):
        Contender.parse(f"{model}:{name}={yaml.safe_dump(value).split()[0]}")
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({f"options.{name}": [value]}))
    with refused(facts):
        read_space(tmp_path / "s.yaml", TrainingConfig(model))


def test_dropout_and_sizes() -> None:
    for value in (1, 1.0, 2):
        with refused("dropout … 0.99"):
            complete_options("ap-cnn", {"dropout": value})
    with refused("filters … 1 … 0"):
        complete_options("ap-cnn", {"filters": 0})
    assert complete_options("ap-cnn", {"dropout": 0, "filters": 1}) is not None
    for model in MODELS:
        assert complete_options(model, complete_options(model, {})) is not None, "the defaults are within their bounds"


def laughs(depth: int) -> str:
    """Ten lines of aliases of aliases, which stand for ten to the power of ten values."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, depth)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (laughs(10), "20,000"),
        (
            "base: &b {a: 1}\n" + "".join(f"l{n}: &l{n} {{<<: [{', '.join(['*b'] * 200)}]}}\n" for n in range(60)),
            "20,000",
        ),
        ("options: &a [*a]\n", "20,000"),
        ("options: &a {b: *a}\n", "20,000"),
        ("a: " + "[" * 5_000, "YAML … deeply"),
        ("# " + "x" * 200_000, "YAML … 131,072"),
        ("epochs: 3\nseed: 1\nepochs: 5\n", "epochs … line 3"),
        ("options: {filters: 3, filters: 4}\n", "filters … line 1"),
        ("seed: " + "9" * 5_000 + "\n", "YAML"),
        ("seed: 2024-99-99\n", "YAML"),
        ("seed: !!int ''\n", "YAML"),
        ("seed: !!bool maybe\n", "YAML"),
        ("seed: !!timestamp maybe\n", "YAML"),
        ("seed: !!python/object/apply:os.getcwd []\n", "YAML"),
        ("? [a]\n: 1\n", "settings"),
        ("seed: 1\0\n", "line 1 … UTF-8 … NUL"),
        ("5: 1\n", "'5'"),
        ("model: [ap-cnn]\n", "model"),
    ],
)
def test_files_of_settings_that_are_none(tmp_path: Path, text: str, facts: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    began = time.process_time()
    with refused(facts) as caught:
        read_training_config(tmp_path / "c.yaml", {})
    assert time.process_time() - began < 5
    assert str(tmp_path / "c.yaml") in str(caught.value)
    assert len(str(caught.value)) < 100_000


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"seed: 1\nmodel: \xff\n")
    with refused("c.yaml … model … 'ÿ'"):  # as Windows reads that byte
        read_training_config(tmp_path / "c.yaml", {})


@pytest.mark.parametrize(("place", "kind"), [("/dev/zero", "device"), (".", "folder")])
def test_what_is_no_file_of_settings(place: str, kind: str) -> None:
    with refused(kind):
        read_training_config(Path(place), {})


@pytest.mark.parametrize("value", ["[", "{a", "9" * 5_000, "&a [*a]"])
def test_a_contender_whose_option_is_no_yaml(value: str) -> None:
    with pytest.raises(InputError):
        Contender.parse(f"ap-cnn:filters={value}")


def test_aliases_are_understood(tmp_path: Path) -> None:
    """As `examples/small_data/methods.yaml` has them."""
    (tmp_path / "c.yaml").write_text("model: qa-cnn\noptions: &o {filters: 7}\n<<: {epochs: 3}\n")
    config = read_training_config(tmp_path / "c.yaml", {})
    assert (config.options, config.epochs) == ({"filters": 7}, 3)
