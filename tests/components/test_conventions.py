"""The conventions of Haystack's own integrations, which ours keep; `docs/haystack_conventions.md` lists them."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, TEXTS, write_checkpoint, write_faq
from haystack import Document, component
from refusals import refused

import ap_ranker
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import (
    AnswerSearch,
    BM25Scores,
    BM25SRetriever,
    FAQSearch,
    HybridRetriever,
    LuceneScores,
)
from haystack_integrations.components.routers.ap_ranker import AnswerRouter
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

FOLDER = ROOT / "haystack_integrations"
FILES = sorted(FOLDER.rglob("*.py"))
KINDS: list[Any] = [
    getattr(ap_ranker, name)
    for name in ap_ranker.__all__
    if inspect.isclass(getattr(ap_ranker, name)) and getattr(ap_ranker, name).__module__.startswith(FOLDER.name)
]
COMPONENTS = [kind for kind in KINDS if kind is not BM25SDocumentStore]
EXAMPLES = [kind for kind in KINDS if kind is AnswerRanker or not issubclass(kind, AnswerRanker)]


def names(kinds: list[Any]) -> list[str]:
    return [kind.__name__ for kind in kinds]


def test_what_is_checked() -> None:
    assert len(COMPONENTS) >= 14
    assert all(kind in component.registry.values() for kind in COMPONENTS)


@pytest.mark.parametrize("kind", COMPONENTS, ids=names(COMPONENTS))
def test_a_component_has_the_methods_of_haystacks(kind: Any) -> None:
    assert "default_to_dict(" in inspect.getsource(kind.to_dict)
    assert sorted(kind.parameters) == sorted(inspect.signature(kind.__init__).parameters.keys() - {"self"})
    assert callable(kind.from_dict)
    if hasattr(kind, "warm_up"):
        for name in ("warm_up_async", "close", "close_async", "run_async"):
            assert callable(getattr(kind, name, None)), name
    assert callable(kind._get_telemetry_data)


def test_a_subclass_of_a_user_has_any_constructor() -> None:
    """Its annotations may name what is imported for type checking only."""

    class Mine(LuceneScores):
        def __init__(self, other: Unknown) -> None:  # type: ignore[name-defined]  # noqa: F821
            super().__init__(k1=other)

    assert Mine(1.2).k1 == 1.2
    with refused("k1 … '1.2'"):
        Mine("1.2")


def test_telemetry_names_no_folder() -> None:
    model, store = "/home/somebody/faq", BM25SDocumentStore()
    retriever, ranker = BM25SRetriever(store), AnswerRanker(model=model)
    told: dict[Any, dict[str, str]] = {
        ranker: {"model": "faq"},
        AnswerRouter(model=model): {"model": "faq"},
        FAQSearch(model=model, documents="/home/somebody/FAQ.csv"): {"model": "faq"},
        HybridRetriever(store, model=model): {"model": "faq", "document_store": "BM25SDocumentStore"},
        BM25Scores(retriever): {"retriever": "BM25SRetriever"},
        AnswerSearch(retriever, ranker): {"retriever": "BM25SRetriever", "ranker": "AnswerRanker"},
        BM25Scores(): {},
        LuceneScores(): {},
    }
    assert {part: part._get_telemetry_data() for part in told} == told


@pytest.mark.parametrize("kind", KINDS, ids=names(KINDS))
def test_docstrings(kind: Any) -> None:
    """The summary is on the second line; each parameter of `run` is described, as a tool shows it to a model."""
    documented = [kind, kind.__init__, *(method for method in [getattr(kind, "run", None)] if method)]
    for each in documented:
        text = each.__doc__
        assert text, each
        assert text.startswith("\n") or "\n" not in text, each
    if "run" in vars(kind):
        for name in list(inspect.signature(kind.run).parameters)[1:]:
            assert f":param {name}:" in kind.run.__doc__, name
        assert ":raises " in kind.run.__doc__ or "errors are those of" in kind.run.__doc__
    for name in list(inspect.signature(kind.__init__).parameters)[1:]:
        assert described(kind, name), name


def described(kind: Any, name: str) -> bool:
    """Whether a parameter is described by its constructor, or by that of a class which this names."""
    if f":param {name}:" in kind.__init__.__doc__:
        return True
    named = set(re.findall(r"`(\w+)`", kind.__init__.__doc__)) - {kind.__name__}
    ours = [
        other for other in KINDS if other.__name__ in named and name in inspect.signature(other.__init__).parameters
    ]
    return any(described(other, name) for other in ours) or any("SentenceTransformers" in other for other in named)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples need: a FAQ and a trained checkpoint, here an untrained one."""
    folder = tmp_path_factory.mktemp("examples")
    write_checkpoint("ap-transformer", folder / "checkpoints" / "faq")
    write_faq(folder / "FAQ.csv")
    return folder


@pytest.mark.parametrize("kind", EXAMPLES, ids=names(EXAMPLES))
def test_the_usage_example_runs(
    kind: Any, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    text = inspect.cleandoc(kind.__doc__)
    [code] = re.findall(r"### Usage example\n\n```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, kind.__name__, "exec"), {})
    printed = capsys.readouterr().out.strip()
    assert printed not in ("", "[]", "{}") or kind is BM25SDocumentStore


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(FOLDER)) for path in FILES])
def test_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    for node in ast.walk(ast.parse(text)):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: an assertion is for tests"
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = ast.unparse(node.value)
            assert owner in ("self", "cls") or owner[:1].isupper(), f"line {node.lineno}: {owner}.{node.attr}"


THEIR_RULES = (
    "A ANN ARG B C D102 D103 D205 D209 D213 D417 D419 DTZ E EM F FBT I ICN ISC N PLC PLE PLR PLW Q RUF S T TID UP W YTT"
)
THEIR_EXCEPTIONS = "B027 FBT001 FBT002 FBT003 S105 S106 S107 ANN401 C901 PLR0911 PLR0912 PLR0913 PLR0915 PLR0917"
OUR_EXCEPTIONS = "EM D102 ARG S608 PLR2004 PLC0415"
"""What `docs/haystack_conventions.md` argues."""


def test_the_page_gives_a_reason_for_each_exception() -> None:
    page = (ROOT / "docs" / "haystack_conventions.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([A-Z]+\d*)` \|", page, re.MULTILINE)) == set(OUR_EXCEPTIONS.split())


def test_the_linter_of_their_packages_finds_nothing_else() -> None:
    rules = ["--select", ",".join(THEIR_RULES.split())]
    rules += ["--ignore", ",".join(f"{THEIR_EXCEPTIONS} {OUR_EXCEPTIONS}".split())]
    settings = ["--isolated", "--line-length", "120", "--target-version", "py311", "--output-format", "concise"]
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", *settings, *rules, str(FOLDER)]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_logs_are_haystacks() -> None:
    """Their messages have named values, which a structured log keeps."""
    for path in FILES:
        assert not re.search(r"^(import logging|from logging )", path.read_text(encoding="utf-8"), re.MULTILINE), path


FLOORS = ["common", "document_stores", "embedders", "rankers", "retrievers", "routers", "tools"]
"""Lowest first. A ranker needs no store, an embedder neither."""


def floors_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("haystack_integrations."):
            yield next(part for part in str(node.module).split(".")[1:] if part != "components")


def test_imports_run_one_way() -> None:
    for path in FILES:
        floor = next(part for part in path.relative_to(FOLDER).parts if part != "components")
        for other in set(floors_of(path)):
            assert FLOORS.index(other) <= FLOORS.index(floor), f"{path}: {other}"
            assert not (floor in ("rankers", "embedders") and other not in ("common", floor)), f"{path}: {other}"


# --- a drop-in, with its differences: the table of `docs/archive/haystack.md` ----------------------------------------

LEFT_OUT = {"trust_remote_code", "model_kwargs", "tokenizer_kwargs", "config_kwargs", "backend"}
MORE = {"fuse_scores", "precision", "wordings", "cache"}


@pytest.fixture(scope="module")
def theirs() -> Any:
    package = pytest.importorskip("haystack_integrations.components.rankers.sentence_transformers")
    return package.SentenceTransformersSimilarityRanker


def parameters_of(function: Any) -> dict[str, Any]:
    return {name: each.default for name, each in list(inspect.signature(function).parameters.items())[1:]}


def test_parameters_differ_as_the_table_says(theirs: Any) -> None:
    ours, official = parameters_of(AnswerRanker.__init__), parameters_of(theirs.__init__)
    assert ours.keys() - official.keys() == MORE
    assert official.keys() - ours.keys() == LEFT_OUT
    common = ours.keys() & official.keys()
    differing = {name for name in common if repr(ours[name]) != repr(official[name])}
    assert differing == {"model", "batch_size"}
    assert ours["model"] is inspect.Parameter.empty, "there is no checkpoint for everybody"
    assert (ours["batch_size"], official["batch_size"]) == (64, 16)
    assert parameters_of(AnswerRanker.run).keys() - parameters_of(theirs.run).keys() == {"precision", "explain"}
    assert parameters_of(theirs.run).items() <= parameters_of(AnswerRanker.run).items()
    assert AnswerRanker.run.__kwdefaults__.items() >= theirs.run.__kwdefaults__.items()


def test_a_score_depends_on_the_other_candidates_once_it_is_a_probability(place: Path) -> None:
    """Without a calibration it does not, as theirs."""
    ranker = AnswerRanker(model=place / "checkpoints" / "faq")
    documents = [Document(content=text) for text in TEXTS]
    together = {one.id: one.score for one in ranker.run(query=TEXTS[0], documents=documents)["documents"]}
    for document in documents:
        [alone] = ranker.run(query=TEXTS[0], documents=[document])["documents"]
        assert alone.score == pytest.approx(together[document.id], abs=1e-6)


def test_modules_of_the_components_are_those_of_earlier_yaml() -> None:
    modules = {
        "rankers.ap_ranker.ranker": "AnswerRanker APRanker GlobalLocalRanker ABCNNRanker",
        "embedders.ap_ranker.text_embedder": "APTextEmbedder",
        "embedders.ap_ranker.document_embedder": "APDocumentEmbedder",
        "retrievers.ap_ranker.bm25s": "BM25SRetriever BM25SEmbeddingRetriever",
        "retrievers.ap_ranker.hybrid": "HybridRetriever",
        "retrievers.ap_ranker.faq_search": "AnswerSearch FAQSearch",
        "retrievers.ap_ranker.lucene_scores": "LuceneScores",
        "retrievers.ap_ranker.bm25_scores": "BM25Scores",
    }
    for module, classes in modules.items():
        loaded = importlib.import_module(f"haystack_integrations.components.{module}")
        for name in classes.split():
            assert getattr(loaded, name).__module__ == loaded.__name__
