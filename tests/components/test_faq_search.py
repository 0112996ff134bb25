"""A whole search in one component finds what its parts find, from YAML, inside another pipeline and beside others."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from conftest import ROOT, TEXTS, reconfigure, settings_of, write_checkpoint
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import ComponentDevice
from refusals import refused
from typer.testing import CliRunner

import ap_ranker
from ap_ranker.cli.main import app
from ap_ranker.data.faq import Entry, Match, read_faq
from ap_ranker.ranking.rule import Calibration
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.components.retrievers.ap_ranker import FAQSearch
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore, bm25s

TYPE = "haystack_integrations.components.retrievers.ap_ranker.faq_search.FAQSearch"
CPU = ComponentDevice.from_str("cpu")
QUESTIONS = [
    "Where is my parcel?",
    "Which battery is mine?",
    "the money for the goods",
    "my bike, my e-mail, the frame",
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its ranking needs BM25's score, with a stemmer: without it, or with another weight, other scores come out."""
    folder = write_checkpoint("ap-cnn", tmp_path_factory.mktemp("checkpoints") / "fused")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"bm25_weight": 0.3, "bm25_language": "english"}))
    return folder


@pytest.fixture
def search(checkpoint: Path, faq: Path) -> FAQSearch:
    return FAQSearch(model=checkpoint, documents=faq, device=CPU)


@pytest.fixture
def reads() -> Iterator[list[Path]]:
    """The FAQ files that are read during a test."""
    read: list[Path] = []

    def spy(path: Path) -> list[Entry]:
        read.append(path)
        return read_faq(path)

    with patch.object(bm25s, "read_entries", spy):
        yield read


def by_parts(checkpoint: Path, faq: Path, tmp_path: Path, match: Match = Match.both) -> DeclaredPipeline:
    """The same search as the pipeline that users copy."""
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    settings_of(declared)["ranker"] |= {"model": str(checkpoint), "device": CPU.to_dict()}
    path = tmp_path / "parts.yaml"
    path.write_text(yaml.safe_dump(declared))
    pipeline = DeclaredPipeline.load(path)
    pipeline.fill(read_faq(faq), match)
    return pipeline


def found(result: dict[str, list[Document]]) -> list[tuple[str, float]]:
    return [(document.meta["answer"], document.score or 0.0) for document in result["documents"]]


def about(answers: list[tuple[str, float]]) -> list[tuple[str, Any]]:
    """The same answers; rounding may change the scores, as not always the same texts share a batch."""
    return [(answer, pytest.approx(score, abs=1e-5)) for answer, score in answers]


def expected_answers(checkpoint: Path, faq: Path) -> list[list[tuple[str, Any]]]:
    """To each of the questions, asked one after the other."""
    search = FAQSearch(model=checkpoint, documents=faq, device=CPU)
    return [about(found(search.run(query=text))) for text in QUESTIONS]


@pytest.mark.parametrize("match", list(Match))
def test_it_finds_what_its_parts_find(checkpoint: Path, faq: Path, tmp_path: Path, match: Match) -> None:
    search = FAQSearch(model=checkpoint, documents=faq, match=match, device=CPU)
    parts = by_parts(checkpoint, faq, tmp_path, match)
    for question in QUESTIONS:
        expected = about(found({"documents": parts.run(question)}))
        assert found(search.run(query=question)) == expected
        assert found(search.run(query=question, top_k=1)) == expected[:1]
    assert sum(len(parts.run(question)) for question in QUESTIONS) > len(QUESTIONS), "the order was at stake"


def test_a_file_is_searched_with_the_checkpoints_stemmer(checkpoint: Path, faq: Path, tmp_path: Path) -> None:
    query = "any batteries"
    [document] = FAQSearch(model=checkpoint, documents=faq, device=CPU).run(query=query)["documents"]
    assert "battery" in f"{document.content}"
    assert document.meta["ap_ranker"]["bm25_language"] == "english"
    plain = reconfigure(shutil.copytree(checkpoint, tmp_path / "plain"), bm25_language=None)
    assert FAQSearch(model=plain, documents=faq, device=CPU).run(query=query)["documents"] == []


def test_the_stemmer_is_chosen_when_a_checkpoint_is_loaded(checkpoint: Path, faq: Path, tmp_path: Path) -> None:
    """A question changes no setting of the store; another checkpoint in the same folder does, once it is loaded."""
    folder = shutil.copytree(checkpoint, tmp_path / "ranker")
    search = FAQSearch(model=folder, documents=faq, device=CPU)
    search.warm_up()
    store = search.retriever.document_store
    assert store.language == "english"
    store.language = None
    assert search.run(query="any batteries")["documents"] == []
    assert store.language is None
    search.close()
    reconfigure(folder, bm25_language="danish")
    search.run(query="any batteries")
    assert store.language == "danish"


def test_a_document_has_the_whole_entry(search: FAQSearch) -> None:
    documents = search.run(query=TEXTS[0])["documents"]
    entries = {(document.meta["question"], document.meta["answer"]) for document in documents}
    assert entries
    assert entries <= set(zip(TEXTS[::2], TEXTS[1::2], strict=True))


def test_threshold(checkpoint: Path, faq: Path) -> None:
    scores = sorted(score for _, score in found(FAQSearch(model=checkpoint, documents=faq).run(query=QUESTIONS[-1])))
    assert scores[-1] - scores[-2] > 1e-3
    strict = FAQSearch(model=checkpoint, documents=faq, score_threshold=(scores[-1] + scores[-2]) / 2)
    assert [score for _, score in found(strict.run(query=QUESTIONS[-1]))] == pytest.approx(scores[-1:], abs=1e-5)
    assert len(found(strict.run(query=QUESTIONS[-1], score_threshold=0.0))) == len(scores)
    assert strict.run(query=QUESTIONS[-1], score_threshold=1.0)["documents"] == []
    assert strict.run(query="xyzzy")["documents"] == [], "no document shares a word"


def test_precision(checkpoint: Path, faq: Path, tmp_path: Path) -> None:
    """A threshold between the two best answers' probabilities leaves one."""
    calibrated = shutil.copytree(checkpoint, tmp_path / "calibrated")
    bare = Calibration(score=3.0, margin=0.0, bias=0.0, thresholds={})
    reconfigure(calibrated, calibration={"model": bare, "fused": bare})
    scores = [score for _, score in found(FAQSearch(model=calibrated, documents=faq).run(query=QUESTIONS[-1]))]
    limited = replace(bare, thresholds={"0.9": (scores[0] + scores[1]) / 2})
    reconfigure(calibrated, calibration={"model": limited, "fused": limited})
    search = FAQSearch(model=calibrated, documents=faq)
    assert len(found(search.run(query=QUESTIONS[-1]))) == len(scores) > 1
    assert [score for _, score in found(search.run(query=QUESTIONS[-1], precision=0.9))] == scores[:1]
    strict = FAQSearch(model=calibrated, documents=faq, precision=0.9)
    assert [score for _, score in found(strict.run(query=QUESTIONS[-1]))] == scores[:1]


def test_only_candidates_are_ranked(checkpoint: Path, faq: Path) -> None:
    narrow = FAQSearch(model=checkpoint, documents=faq, candidates=1)
    wide = FAQSearch(model=checkpoint, documents=faq)
    first = BM25SDocumentStore()
    first.write_documents([to_document(entry, Match.both) for entry in read_faq(faq)])
    for question in QUESTIONS:
        best = first.bm25_retrieval(question, top_k=1)[0].meta["answer"]
        assert [answer for answer, _ in found(narrow.run(query=question))] == [best]
        assert len(found(wide.run(query=question))) == len(first.bm25_retrieval(question))


def test_a_store_of_ones_own(checkpoint: Path, faq: Path, tmp_path: Path) -> None:
    store = BM25SDocumentStore(tmp_path / "store")
    documents = [to_document(entry, Match.both) for entry in read_faq(faq)]
    store.write_documents([replace(document, meta={**document.meta, "n": n}) for n, document in enumerate(documents)])
    search = FAQSearch(model=checkpoint, document_store=BM25SDocumentStore(tmp_path / "store"), device=CPU)
    assert found(search.run(query=QUESTIONS[-1])) == expected_answers(checkpoint, faq)[-1]
    only = {"field": "meta.n", "operator": "==", "value": 2}
    assert [answer for answer, _ in found(search.run(query=QUESTIONS[-1], filters=only))] == [TEXTS[5]]


def test_loading_is_lazy_and_happens_once(checkpoint: Path, faq: Path, reads: list[Path]) -> None:
    search = FAQSearch(model=checkpoint, documents=faq)
    assert reads == []
    search.warm_up()
    ranker = search.ranker
    loaded = ranker.loaded.ranker
    assert loaded is not None
    search.warm_up()
    search.run(query=QUESTIONS[0])
    asyncio.run(search.run_async(query=QUESTIONS[0]))
    assert reads == [faq]
    assert ranker.loaded.ranker is loaded
    expected = about(found(search.run(query=QUESTIONS[0])))
    search.close()
    assert ranker.loaded.ranker is None
    assert found(search.run(query=QUESTIONS[0])) == expected


def test_an_entry_that_is_there_twice(checkpoint: Path, faq: Path) -> None:
    once = found(FAQSearch(model=checkpoint, documents=faq).run(query=TEXTS[0]))
    faq.write_text(faq.read_text() + faq.read_text().splitlines()[1] + "\n")
    twice = found(FAQSearch(model=checkpoint, documents=faq).run(query=TEXTS[0]))
    assert [answer for answer, _ in twice] == [answer for answer, _ in once]


# --- what a user may give --------------------------------------------------------------------------------------------


def test_documents_come_from_one_place(checkpoint: Path) -> None:
    with refused("documents … document_store … neither"):
        FAQSearch(model=checkpoint)
    with refused("documents … document_store … both"):
        FAQSearch(model=checkpoint, documents="FAQ.csv", document_store=BM25SDocumentStore())


def test_another_kind_of_store(checkpoint: Path) -> None:
    with refused("document_store … BM25SDocumentStore … InMemoryDocumentStore"):
        FAQSearch(model=checkpoint, document_store=InMemoryDocumentStore())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "facts"),
    [
        ({"top_k": 0}, "top_k … 1 … 0"),
        ({"candidates": 0}, "candidates … 1 … 0"),
        ({"match": "all"}, "match … both … answer … question … 'all'"),
    ],
)
def test_settings_out_of_range(setting: dict[str, object], facts: str) -> None:
    with refused(facts, by=ValueError):
        FAQSearch(model="ranker", documents="FAQ.csv", **setting)  # type: ignore[arg-type]


def test_no_such_file(checkpoint: Path, tmp_path: Path) -> None:
    with refused("absent.csv"):
        FAQSearch(model=checkpoint, documents=tmp_path / "absent.csv").run(query="x")
    with refused("absent"):
        FAQSearch(model=str(tmp_path / "absent"), document_store=BM25SDocumentStore()).run(query="x")


# --- YAML, other pipelines, the command line -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "store"])
def test_every_setting_survives_yaml(kind: str, tmp_path: Path) -> None:
    store = BM25SDocumentStore(tmp_path / "store", k1=1.0)
    source = {"documents": tmp_path / "FAQ.csv"} if kind == "file" else {"document_store": store}
    settings = {
        "match": "answer",
        "candidates": 7,
        "top_k": 3,
        "score_threshold": 0.25,
        "precision": None,
        "wordings": ["train.csv"],
        "device": CPU,
    }
    pipeline = Pipeline()
    pipeline.add_component("search", FAQSearch(model=tmp_path / "ranker", **source, **settings))  # type: ignore[arg-type]
    text = pipeline.dumps()
    assert yaml.safe_load(text)["components"]["search"] == {
        "type": TYPE,
        "init_parameters": {
            "model": str(tmp_path / "ranker"),
            "documents": str(tmp_path / "FAQ.csv") if kind == "file" else None,
            "document_store": None if kind == "file" else store.to_dict(),
            **settings,
            "device": CPU.to_dict(),
        },
    }
    again = Pipeline.loads(text)
    assert again.dumps() == text
    loaded = again.get_component("search")
    retriever, ranker = loaded.retriever, loaded.ranker
    assert retriever.top_k == 7
    assert (ranker.model, ranker.top_k, ranker.score_threshold) == (str(tmp_path / "ranker"), 3, 0.25)
    assert ranker.device == CPU


def test_lazy_export() -> None:
    assert ap_ranker.FAQSearch is FAQSearch


def test_inside_another_pipeline(checkpoint: Path, faq: Path, search: FAQSearch) -> None:
    """Its sockets have types, and both searches' documents arrive."""
    pipeline = Pipeline()
    for name, match in (("answers", "answer"), ("questions", "question")):
        pipeline.add_component(name, FAQSearch(model=checkpoint, documents=faq, match=match, device=CPU))
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.connect("answers.documents", "joiner.documents")
    pipeline.connect("questions.documents", "joiner.documents")
    data = {name: {"query": QUESTIONS[-1]} for name in ("answers", "questions")}
    alone = [pipeline.get_component(name).run(query=QUESTIONS[-1])["documents"] for name in data]
    expected = {document.id for documents in alone for document in documents}
    assert {document.id for document in pipeline.run(data)["joiner"]["documents"]} == expected
    with refused("query", by=ValueError):
        pipeline.run({"answers": {"query": "x"}, "questions": {}})


@pytest.mark.parametrize("command", ["file", "store"])
def test_the_commands_take_such_a_pipeline(command: str, checkpoint: Path, faq: Path, tmp_path: Path) -> None:
    source = {"documents": str(faq)} if command == "file" else {"document_store": BM25SDocumentStore().to_dict()}
    declared = {
        "components": {"search": {"type": TYPE, "init_parameters": {"model": str(checkpoint), **source}}},
        "connections": [],
        "inputs": {"query": ["search.query"]},
        "outputs": {"documents": "search.documents"},
    }
    path = tmp_path / "search.yaml"
    path.write_text(yaml.safe_dump(declared))
    arguments = ["ask", TEXTS[0], "--pipeline", str(path), "--json"]
    expected = about(found(FAQSearch(model=checkpoint, documents=faq).run(query=TEXTS[0])))
    if command == "store":
        with refused("BM25SDocumentStore … none"):
            CliRunner().invoke(app, arguments, catch_exceptions=False)
        arguments += ["--documents", str(faq)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    answers = yaml.safe_load(result.stdout)["answers"]
    assert [(answer["answer"], answer["score"]) for answer in answers] == expected
    pipeline = DeclaredPipeline.load(path)
    pipeline.fill(read_faq(faq), Match.both)
    document = pipeline.run(TEXTS[0])[0]
    assert pipeline.explain(TEXTS[0], document)[:2] == (TEXTS[0], document.content), "the ranker inside tells"


# --- several questions at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cold", [True, False], ids=["cold", "warm"])
async def test_concurrent_questions(checkpoint: Path, faq: Path, reads: list[Path], cold: bool) -> None:
    expected = expected_answers(checkpoint, faq)
    search = FAQSearch(model=checkpoint, documents=faq, device=CPU)
    if not cold:
        await search.warm_up_async()
    reads.clear()
    results = await asyncio.gather(*(search.run_async(query=text) for text in QUESTIONS * 4))
    assert [found(result) for result in results] == expected * 4
    assert reads == ([faq] if cold else [])


async def test_concurrent_questions_to_a_pipeline_around_it(checkpoint: Path, faq: Path) -> None:
    expected = expected_answers(checkpoint, faq)
    pipeline = Pipeline()
    pipeline.add_component("search", FAQSearch(model=checkpoint, documents=faq, device=CPU))
    runs = (pipeline.run_async({"search": {"query": text, "top_k": 5}}) for text in QUESTIONS * 4)
    assert [found(result["search"]) for result in await asyncio.gather(*runs)] == expected * 4


def test_threads(search: FAQSearch, checkpoint: Path, faq: Path) -> None:
    expected = expected_answers(checkpoint, faq)
    with ThreadPoolExecutor(4) as pool:
        assert [found(r) for r in pool.map(lambda text: search.run(query=text), QUESTIONS * 4)] == expected * 4
