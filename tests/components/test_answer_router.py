"""A pipeline goes three ways: with an answer, with a maybe, and with a question that has none."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, TEXTS, reconfigure, write_checkpoint, write_faq
from haystack import Document, Pipeline

import ap_ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Basis, Calibration
from haystack_integrations.components.routers.ap_ranker import AnswerRouter
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

FIT = Calibration(4.0, 0.0, -4.0, {"0.9": 0.9}, basis=Basis.WORDINGS)
KNOWN, UNSURE, OFF_TOPIC = TEXTS[0], "parcel of the battery", "goods within five days"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of random weights; a question about the goods is declared one about other matters, by its score."""
    fits, folder = {MODEL: FIT, FUSED: FIT}, tmp_path_factory.mktemp("router") / "ranker"
    write_checkpoint("ap-transformer", folder, bm25_weight=0.1, bm25_language="english", calibration=fits)
    search = ap_ranker.FAQSearch(model=folder, documents=write_faq(folder.parent / "FAQ.csv"))
    scores = [search.search(text, scale_score=False)[0][0].score for text in (UNSURE, OFF_TOPIC)]
    below, above = sorted(scores)
    bias = -4 * above - 0.1  # so that the other question is a maybe
    fit = replace(FIT, floor=(below + above) / 2, bias=bias)
    return reconfigure(folder, calibration={MODEL: fit, FUSED: fit})


def documented(checkpoint: Path) -> str:
    """The pipeline of the documentation, with a checkpoint and a FAQ that are there."""
    page = (ROOT / "docs" / "haystack.md").read_text(encoding="utf-8")
    [text] = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "AnswerRouter" in block]
    declared = yaml.safe_load(text)
    for part in declared["components"].values():
        part["init_parameters"]["model"] = str(checkpoint)
    declared["components"]["search"]["init_parameters"]["documents"] = str(checkpoint.parent / "FAQ.csv")
    return yaml.safe_dump(declared)


def ask(pipeline: Pipeline, query: str) -> Any:
    return pipeline.run({"search": {"query": query}, "router": {"query": query}})["router"]


def test_the_three_ways_of_the_documentation(checkpoint: Path) -> None:
    pipeline = Pipeline.loads(documented(checkpoint))
    again = Pipeline.loads(pipeline.dumps())
    assert again.dumps() == pipeline.dumps()
    search = ap_ranker.FAQSearch(model=checkpoint, documents=checkpoint.parent / "FAQ.csv")
    for one in (pipeline, again):
        ways = {query: ask(one, query) for query in (KNOWN, UNSURE, OFF_TOPIC, "zebra")}
        names = [search.run(query=query)["decision"]["outcome"] for query in ways]
        assert [list(way) for way in ways.values()] == [[name] for name in names]  # as the search itself decides
        assert list(ways[KNOWN]) == ["answer"]
        assert ways[KNOWN]["answer"][0].meta["question"] == KNOWN
        assert ways["zebra"] == {"none": "zebra"}
        assert {*ways[UNSURE], *ways[OFF_TOPIC]} == {"maybe", "none"}
        found = next(way["maybe"] for way in ways.values() if "maybe" in way)
        assert found == search.run(query=UNSURE if "maybe" in ways[UNSURE] else OFF_TOPIC)["documents"]


def test_no_documents_are_no_answer(checkpoint: Path) -> None:
    assert AnswerRouter(model=checkpoint).run(query="q", documents=[]) == {"none": "q"}


def test_a_precision_that_was_not_calibrated(checkpoint: Path, tmp_path: Path) -> None:
    """It lies between those that were: the surer an answer must be, the fewer there are."""
    folder = tmp_path / "ranker"
    shutil.copytree(checkpoint, folder)
    reconfigure(folder, calibration={MODEL: replace(FIT, bias=0.0), FUSED: FIT})
    documents = [Document(content=text) for text in dict.fromkeys(TEXTS)]
    counts = []
    for precision in (0.01, 0.85, 0.95, 0.9999):
        router = AnswerRouter(model=folder, precision=precision)
        counts.append(sum(list(router.run(query=text, documents=documents)) == ["answer"] for text in TEXTS))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


@pytest.mark.parametrize("query", [*TEXTS, UNSURE, OFF_TOPIC])
def test_the_two_best_documents_are_enough(checkpoint: Path, tmp_path: Path, query: str) -> None:
    """Also where neither has a known wording, as others of the search have; and few candidates are as good as all."""
    folder = tmp_path / "ranker"
    shutil.copytree(checkpoint, folder)
    reconfigure(folder, wording_weight=0.5)
    texts = enumerate(zip(TEXTS[::2], TEXTS[1::2], strict=True))
    entries = [
        Document(content=answer, meta={"question": asked} if number == 0 else {}) for number, (asked, answer) in texts
    ]
    store = BM25SDocumentStore(language="english")
    store.write_documents(entries)
    search = ap_ranker.FAQSearch(model=folder, document_store=store)
    found, decision = search.search(query)
    ranker = ap_ranker.AnswerRanker(model=folder, fuse_scores=True, wordings=[])
    again = ranker.decide(query, found[:2])
    assert (again.outcome, again.basis) == (decision.outcome, decision.basis)
    assert again.probability == pytest.approx(decision.probability, abs=1e-6)
    few = ap_ranker.FAQSearch(model=folder, document_store=store, candidates=2)
    assert few.search(query)[1].probability == pytest.approx(decision.probability, abs=1e-6)
