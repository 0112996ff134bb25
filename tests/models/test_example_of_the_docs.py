"""The model of `docs/adding_a_model.md`, copied from the page: it passes the checks of every model, and it trains."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from conftest import ROOT, imported, make_model
from models import test_every_model
from naive import SMALL
from naive.case import Case
from small_runs import of_topics

from ap_ranker.models.base import AnswerModel
from ap_ranker.models.registry import FILES, MODELS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.config import read_training_config
from ap_ranker.training.train import train

PAGE = (ROOT / "docs" / "adding_a_model.md").read_text(encoding="utf-8")
MODEL, LOOP = "ap_ranker/models/gated_cosine.py", "tests/naive/gated_cosine.py"
NAME = "gated-cosine"

CHECKS: dict[str, Callable[..., None]] = {
    name: check
    for name, check in vars(test_every_model).items()
    if name.startswith("test_") and set(inspect.signature(check).parameters) in ({"model"}, {"case", "model"})
}
"""Those of a model in memory: its loop, padding, batches, gradients."""


def file_of(path: str) -> str:
    """What the page tells to save under this path."""
    [code] = re.findall(rf"Save this as `{re.escape(path)}`:\n\n```python\n(.*?)```", PAGE, re.DOTALL)
    return str(code)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def changed(code: str, diff: str) -> str:
    """A file with the lines of a diff changed, each group of which stands in it once."""
    groups = re.findall(r"((?:^[- ].*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE)
    assert "".join(map("".join, groups)) == diff
    for before, after in groups:
        kept = "".join(line[1:] for line in before.splitlines(keepends=True) if line.startswith(" "))
        old = re.sub(r"^.", "", before, flags=re.MULTILINE)
        assert code.count(old) == 1, old
        code = code.replace(old, kept + re.sub(r"^.", "", after, flags=re.MULTILINE))
    return code


def sum_of(path: str) -> str:
    """The file of the model whose score is a sum."""
    return changed(file_of(path), blocks("diff")[(MODEL, LOOP).index(path)])


VARIANTS = {"cosine": file_of, "sum": sum_of}
"""Kind of the score -> what gives the file of a path."""


@pytest.fixture(params=VARIANTS)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    """The page's files, as if they had been saved and named in the registry."""
    code_of = VARIANTS[request.param]
    modules = {}
    for path in (MODEL, LOOP):
        name = path.removesuffix(".py").removeprefix("tests/").replace("/", ".")
        modules[path] = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, modules[path])
        exec(compile(code_of(path), path, "exec"), vars(modules[path]))
    [case] = modules[LOOP].CASES
    assert (modules[MODEL].SPEC.name, case.name) == (NAME, NAME)
    monkeypatch.setitem(MODELS, NAME, modules[MODEL].SPEC)
    monkeypatch.setitem(SMALL, NAME, case.options)
    yield case


@pytest.fixture
def model(case: Case) -> AnswerModel:
    return make_model(case.name, test_every_model.WORDS, case.options).double()


def test_there_are_checks() -> None:
    needed = {"test_score_is_the_papers", "test_padding_changes_nothing", "test_encoded_once_matched_later"}
    assert needed <= CHECKS.keys()


@pytest.mark.parametrize("check", CHECKS)
def test_it_passes_the_checks_of_every_model(check: str, case: Case, model: AnswerModel) -> None:
    values: dict[str, Any] = {"case": case, "model": model}
    CHECKS[check](**{name: values[name] for name in inspect.signature(CHECKS[check]).parameters})


def test_it_trains_with_the_option_of_its_file(case: Case, tmp_path: Path) -> None:
    [settings] = [text for text in blocks("yaml") if "options:" in text]
    (tmp_path / "gated_cosine.yaml").write_text(settings)
    small: dict[str, Any] = {"model": NAME, "epochs": 2, "embedding_size": 8}
    data = of_topics("where is my {}?")
    train(data, data, tmp_path / "c", read_training_config(tmp_path / "gated_cosine.yaml", small), device="cpu")
    loaded = Ranker.from_pretrained(tmp_path / "c", "cpu")
    assert loaded.config is not None
    assert (loaded.config.model, loaded.config.options["gate_size"]) == (NAME, 16)


def test_a_wrong_option_is_refused_as_the_page_says(case: Case) -> None:
    refusal = str(MODELS[NAME].options["gate_size"].expected_instead_of(0))
    assert f"option 'gate_size' must be {refusal}, found 0" in PAGE


def test_its_place_and_its_recipe(case: Case) -> None:
    [listed] = [text for text in blocks("python") if text.startswith("FILES")]
    assert re.findall(r'"(\w+)"', listed) == [FILES[-1], "gated_cosine"]
    [recipe] = [text for text in blocks("yaml") if "says:" in text]
    with imported(ROOT / "docs" / "model_tables.py") as tables:
        assert tables.recipe_of(NAME).startswith("softmax")
        others = yaml.safe_load(tables.PAPERS.read_text(encoding="utf-8"))
    [(name, fields)] = yaml.safe_load(recipe).items()
    assert name == NAME
    assert fields.keys() <= {key for other in others.values() for key in other}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("path", [MODEL, LOOP])
@pytest.mark.parametrize("command", [("check",), ("format", "--check")], ids=" ".join)
def test_the_linter_has_nothing_to_say(path: str, command: tuple[str, ...], variant: str) -> None:
    arguments = [sys.executable, "-m", "ruff", *command, "--no-cache", "--stdin-filename", path, "-"]
    code = VARIANTS[variant](path)
    ended = subprocess.run(arguments, input=code, cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
