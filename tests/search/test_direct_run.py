"""A pipeline of our own components gives the same documents without Haystack's copies; others go Haystack's way."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, TEXTS, write_checkpoint
from haystack import Document, Pipeline, component, tracing
from haystack.components.joiners import DocumentJoiner
from haystack.core.errors import PipelineRuntimeError
from haystack.tracing.logging_tracer import LoggingTracer
from searches import filled

from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.direct_run import DirectRun
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

QUERY = ["retriever.query", "ranker.query"]


@pytest.fixture(scope="module")
def vector_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that also retrieves."""
    return write_checkpoint("ap-transformer", tmp_path_factory.mktemp("vectors") / "ranker")


def search_with(checkpoint: Path, tmp_path: Path, name: str) -> DeclaredPipeline:
    text = (ROOT / "pipelines" / name).read_text().replace("checkpoints/faq", str(checkpoint))
    path = tmp_path / name
    path.write_text(text)
    return filled(path)


@pytest.mark.parametrize("name", ["faq_search.yaml", "faq_search_hybrid.yaml"])
def test_the_documents_are_those_of_haystacks_way(
    name: str, vector_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = search_with(vector_checkpoint, tmp_path, name)
    assert search._short_way is not None
    for question in [*TEXTS, "bike", "nothing of that"]:
        for limits in ({}, {"score_threshold": 0.4}):
            documents = search.run(question, limits, top_k=2)  # type: ignore[arg-type]
            with monkeypatch.context() as patch:
                patch.setattr(DeclaredPipeline, "_short_way", None)
                assert documents == search.run(question, limits, top_k=2)  # type: ignore[arg-type]
            assert len(documents) <= 2
    assert search.run(TEXTS[0])


def test_no_component_of_ours_changes_what_it_is_given(
    vector_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = search_with(vector_checkpoint, tmp_path, "faq_search_hybrid.yaml")
    seen: list[tuple[Any, Any]] = []
    ranker = search.ranker()
    assert ranker is not None
    run = ranker.run

    def spied(**inputs: Any) -> Any:
        seen.append((inputs["documents"], deepcopy([asdict(one) for one in inputs["documents"]])))
        return run(**inputs)

    monkeypatch.setattr(ranker, "run", spied)
    search.run(TEXTS[0])
    [(documents, before)] = seen
    assert len(documents) > 1
    assert [asdict(one) for one in documents] == before


def test_a_traced_search_goes_haystacks_way(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the short way has no spans")

    monkeypatch.setattr(DirectRun, "run", fail)
    with pytest.raises(AssertionError, match="no spans"):
        search.run(TEXTS[0])
    tracing.enable_tracing(LoggingTracer())
    try:
        assert search.run(TEXTS[0])
    finally:
        tracing.disable_tracing()


def test_a_component_that_fails_is_named(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("no more paper")

    monkeypatch.setattr(search.pipeline.get_component("ranker"), "run", fail)
    with pytest.raises(PipelineRuntimeError, match="'ranker'") as error:
        search.run(TEXTS[0])
    assert isinstance(error.value.__cause__, RuntimeError)


def pipeline_of(checkpoint: Path) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("retriever", BM25SRetriever(BM25SDocumentStore()))
    pipeline.add_component("ranker", AnswerRanker(model=checkpoint))
    return pipeline


@component
class Upper:
    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        return {"documents": documents}


def test_which_pipelines_have_one(checkpoint: Path) -> None:
    plain = pipeline_of(checkpoint)
    plain.connect("retriever.documents", "ranker.documents")
    assert DirectRun.of(plain, QUERY) is not None
    assert DirectRun.of(plain, QUERY[:1]) is None  # Haystack says what is missing

    foreign = pipeline_of(checkpoint)
    foreign.add_component("upper", Upper())
    foreign.connect("retriever.documents", "upper.documents")
    foreign.connect("upper.documents", "ranker.documents")
    assert DirectRun.of(foreign, QUERY) is None

    joined = pipeline_of(checkpoint)
    joined.add_component("other", BM25SRetriever(BM25SDocumentStore()))
    joined.add_component("joiner", DocumentJoiner())
    for sender in ("retriever", "other"):
        joined.connect(f"{sender}.documents", "joiner.documents")
    joined.connect("joiner.documents", "ranker.documents")
    assert DirectRun.of(joined, [*QUERY, "other.query"]) is None


def test_two_senders_of_one_socket_go_haystacks_way(checkpoint: Path) -> None:
    """Haystack joins the lists of several senders of a list."""
    pipeline = pipeline_of(checkpoint)
    pipeline.add_component("other", BM25SRetriever(BM25SDocumentStore()))
    for sender in ("retriever", "other"):
        pipeline.connect(f"{sender}.documents", "ranker.documents")
    assert DirectRun.of(pipeline, [*QUERY, "other.query"]) is None


def test_a_query_that_does_not_reach_the_ranker_is_an_error(checkpoint: Path, tmp_path: Path) -> None:
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    declared["components"]["ranker"]["init_parameters"]["model"] = str(checkpoint)
    declared["inputs"]["query"] = "retriever.query"
    path = tmp_path / "deaf.yaml"
    path.write_text(yaml.safe_dump(declared))
    with pytest.raises((InputError, ValueError)):
        filled(path).run(TEXTS[0])
