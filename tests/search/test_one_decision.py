"""One decision for a question, wherever it is asked: components, router, page, JSON and command line agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from both_pipelines import assembled
from command_line import run
from conftest import ROOT, reconfigure, settings_of
from faq_checkpoint import ANSWERS, FAQ, FITS, write_small
from haystack.utils import ComponentDevice
from searches import in_two
from web.visiting import client_of

from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.wordings import read_with_wordings
from ap_ranker.ranking.rule import FUSED, MODEL
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import AnswerSearch, BM25SRetriever
from haystack_integrations.components.routers.ap_ranker import AnswerRouter
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

CPU = ComponentDevice.from_str("cpu")
MOST_QUESTIONS = 500


@pytest.fixture(scope="module")
def questions() -> list[str]:
    """Of the test, new ones and those about other matters; every tenth place has a stored question."""
    asked = [question.text for question in read_with_wordings(FAQ, "test").questions]
    stored = [entry.question for entry in read_faq(ANSWERS)]
    asked[::10] = stored[: len(asked[::10])]
    return asked[:MOST_QUESTIONS]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, questions: list[str]) -> Path:
    """Of random weights; its calibrations divide these questions into the three outcomes, otherwise with BM25."""
    folder = write_small(tmp_path_factory.mktemp("decisions") / "faq")
    reconfigure(folder, bm25_weight=0.02, bm25_language="english", calibration=FITS)
    fits = {}
    for name in (MODEL, FUSED):
        search = searched(folder, fused=name == FUSED, precision=None)
        scores = [search.search(question, scale_score=False)[0][0].score for question in questions]
        floor, middle = np.quantile(np.array(scores), [0.2, 0.6])
        bias = -20.0 * float(middle)
        fits[name] = replace(
            FITS[name], score=20.0, margin=1.0, bias=bias, floor=float(floor), thresholds={"0.8": 0.55, "0.9": 0.7}
        )
    return reconfigure(folder, calibration=fits)


def searched(checkpoint: Path, *, fused: bool, precision: float | None) -> AnswerSearch:
    retriever = BM25SRetriever(BM25SDocumentStore(documents=ANSWERS, language="english"), top_k=100, wordings=[])
    ranker = AnswerRanker(model=checkpoint, device=CPU, fuse_scores=fused, precision=precision, wordings=[])
    return AnswerSearch(retriever, ranker)


def routed(search: AnswerSearch, router: AnswerRouter, questions: Sequence[str], *more: str) -> list[str]:
    """Which way each question goes behind a search, by its documents and `more` connections."""
    pipeline = assembled({"search": search, "router": router}, "search.documents > router.documents", *more)
    pipeline.warm_up()
    ways = (pipeline.run({"search": {"query": text}, "router": {"query": text}})["router"] for text in questions)
    return [next(iter(way)) for way in ways]


def written(folder: Path, checkpoint: Path, *, fused: bool, parts: int) -> Path:
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    settings_of(declared)["ranker"] |= {"model": str(checkpoint), "fuse_scores": fused}
    path = folder / f"{parts}.yaml"
    path.write_text(yaml.safe_dump(declared if parts == 1 else in_two(declared)))
    return path


@pytest.mark.parametrize("most", [80, pytest.param(MOST_QUESTIONS, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("fused", "precision"),
    [
        (True, 0.8),
        (False, None),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(False, 0.8), (False, 0.9), (True, None), (True, 0.9)]
        ),
    ],
)
def test_everybody_decides_alike(
    fused: bool, precision: float | None, most: int, checkpoint: Path, questions: list[str], tmp_path: Path
) -> None:
    questions = questions[:most]
    search = searched(checkpoint, fused=fused, precision=precision)
    expected = [search.run(query=question)["decision"]["outcome"] for question in questions]
    assert {*expected} == {"answer", "maybe", "none"}
    assert min(map(expected.count, {*expected})) >= most / 25
    limits: dict[str, float | None] = {"precision": precision}

    # Behind a search: the router's own precision replaces that in front, which it need not know otherwise.
    open_search = searched(checkpoint, fused=fused, precision=None)
    router = AnswerRouter(model=checkpoint, device=CPU, precision=precision)
    assert routed(open_search, router, questions) == expected
    simple = AnswerRouter(model=checkpoint, device=CPU)
    decides = "search.decision > router.decision"  # as the search leaves out documents, and with the last its decision
    assert routed(search, simple, questions, decides) == expected

    for parts in (1, 2):
        path = written(tmp_path, checkpoint, fused=fused, parts=parts)
        declared = DeclaredPipeline.load(path)
        declared.fill(read_faq(ANSWERS), Match.both)
        page = client_of(declared, limits=limits)
        replies = [page.post("/api/search", json={"question": question}).json() for question in questions]
        assert [reply["outcome"] for reply in replies] == expected
        command: list[Any] = ["ask", *questions, "--json", "--documents", ANSWERS, "--pipeline", path]
        ended = run(*command, *(["--precision", precision] if precision else []), folder=tmp_path)
        assert ended.code == 0, ended.errors
        assert [result["outcome"] for result in json.loads(ended.output)] == expected


def test_to_name_the_default_changes_nothing(checkpoint: Path, questions: list[str], tmp_path: Path) -> None:
    """The page and the command line show the same answers, and the same others below them, with `--precision 0.8`."""
    for parts in (1, 2):
        declared = DeclaredPipeline.load(written(tmp_path, checkpoint, fused=True, parts=parts))
        declared.fill(read_faq(ANSWERS), Match.both)
        for question in questions[::10]:
            plain, decision = declared.answer(question)
            named, again = declared.answer(question, {"precision": 0.8})
            assert ([document.id for document in named], again) == ([document.id for document in plain], decision)


def test_a_decision_of_another_kind_is_refused(checkpoint: Path) -> None:
    router = AnswerRouter(model=checkpoint, device=CPU)
    search = searched(checkpoint, fused=True, precision=None)
    documents = search.run(query="Where is my parcel?")["documents"]
    # Of another question, it is none; without a decision, the router decides.
    assert list(router.run(query="Where is my refund?", documents=documents))
    for wrong in ({"outcome": "perhaps"}, "answer", {"outcome": "answer", "probability": "high", "basis": "prior"}):
        documents[0].meta["ap_ranker"]["decision"] = wrong
        with pytest.raises(ValueError, match="decision"):
            router.run(query="Where is my parcel?", documents=documents)
