"""The prompt has the entries that were found, or says that there are none; the generator may be another."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import forked
import pytest
import yaml
from conftest import ROOT, TEXTS
from haystack import Pipeline
from haystack.components.generators.chat import OpenAIChatGenerator
from refusals import absent

HERE = ROOT / "examples" / "answer_generation"
NONE = "The FAQ has no answer to this question."


@pytest.fixture
def answer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("answer_generation", HERE / "answer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def declared(checkpoint: Path, faq: Path) -> dict[str, Any]:
    """The example's pipeline with a checkpoint and a FAQ of the tests."""
    pipeline = yaml.safe_load((HERE / "pipeline.yaml").read_text())
    settings = {"model": str(checkpoint), "documents": str(faq), "score_threshold": 0.0}
    pipeline["components"]["search"]["init_parameters"] |= settings
    return pipeline


def load(declared: dict[str, Any]) -> Pipeline:
    return Pipeline.loads(yaml.safe_dump(declared))


def test_the_prompt_has_what_was_found_best_first(answer: ModuleType, declared: dict[str, Any]) -> None:
    pipeline = load(declared)
    questions = ["Where is my parcel?", "my bike, my e-mail, the frame", "xyzzy"]
    replies = asyncio.run(answer.answer(pipeline, questions))
    for question, reply in zip(questions, replies, strict=True):
        assert reply.startswith(f"Question: {question}\n")
        documents = pipeline.get_component("search").run(query=question)["documents"]
        entries = [f"{n}. {d.meta['question']}\n{d.meta['answer']}" for n, d in enumerate(documents, start=1)]
        places = [reply.index(entry) for entry in entries]
        assert places == sorted(places)
        assert sum(text in reply for text in TEXTS[1::2]) == len(entries)
        assert (NONE in reply) == (not entries)
    assert NONE not in replies[0]
    assert NONE in replies[-1]


def test_nothing_is_good_enough(answer: ModuleType, declared: dict[str, Any]) -> None:
    declared["components"]["search"]["init_parameters"]["score_threshold"] = 1.0
    (reply,) = asyncio.run(answer.answer(load(declared), ["where might my parcel be"]))
    assert NONE in reply
    assert not any(text in reply for text in TEXTS[1::2])


def test_the_script(declared: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text((HERE / "answer.py").read_text())
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(declared))
    program = f"import runpy; runpy.run_path({str(tmp_path / 'answer.py')!r}, run_name='__main__')"
    result = forked.run(program, TEXTS[0], "xyzzy")
    assert TEXTS[1] in result.stdout, result.stderr
    assert result.stdout.index(TEXTS[0]) < result.stdout.index(NONE)
    result = forked.run(program)
    assert (result.returncode, absent("questions", result.stderr)) == (1, [])


def test_the_generator_of_the_readme_fits(declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (block,) = re.findall(r"```yaml\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    declared["components"] |= yaml.safe_load(block)
    assert isinstance(load(declared).get_component("generator"), OpenAIChatGenerator)
