"""A pipeline of which nobody filled the store says so, in plain Hayhooks, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, TEXTS, settings_of
from refusals import absent, refused

pytest.importorskip("hayhooks", reason="Hayhooks is not installed")

from fastapi import FastAPI
from hayhooks import YAMLPipelineWrapper
from hayhooks.server.pipelines.registry import registry
from hayhooks.server.utils.deploy_utils import add_pipeline_api_route
from haystack import Document, Pipeline
from starlette.testclient import TestClient

from ap_ranker.data.faq import Match
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import find_stores
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

SEARCH = "haystack_integrations.components.retrievers.ap_ranker.faq_search.FAQSearch"


@pytest.fixture(params=["memory", "folder", "one component"])
def pipeline(request: pytest.FixtureRequest, tmp_path: Path, checkpoint: Path) -> Path:
    """A file that names no documents: its store is in memory, in a folder that is not there yet, in one component."""
    declared: dict[str, Any] = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    parts = settings_of(declared)
    parts["ranker"]["model"] = str(checkpoint)
    store = parts["retriever"]["document_store"]
    store["init_parameters"] = {} if request.param == "memory" else {"path": str(tmp_path / "index")}
    if request.param == "one component":
        settings = {"model": str(checkpoint), "document_store": store}
        declared["components"] = {"search": {"type": SEARCH, "init_parameters": settings}}
    path = tmp_path / "faq_search.yaml"
    path.write_text(yaml.safe_dump(declared))
    return path


def deployed(path: Path) -> tuple[TestClient, YAMLPipelineWrapper]:
    wrapper = YAMLPipelineWrapper.from_file(path)
    wrapper.setup()
    registry.remove(path.stem)
    registry.add(path.stem, wrapper)
    app = FastAPI()
    add_pipeline_api_route(app, path.stem, wrapper)
    return TestClient(app), wrapper


def test_plain_hayhooks_finds_nothing_and_logs_how_to_fill_the_store(
    pipeline: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client, _ = deployed(pipeline)
    for _ in range(2):
        response = client.post("/faq_search/run", json={"query": TEXTS[0]})
        assert (response.status_code, response.json()["result"]["search"]["documents"]) == (200, [])
    [warning] = [one.getMessage() for one in caplog.records if "ap-ranker index" in one.getMessage()]
    assert not absent("documents … none", warning)


def test_the_command_line_treats_it_as_an_error(pipeline: Path) -> None:
    with refused(f"{pipeline} … documents … none … ap-ranker index"):
        DeclaredPipeline.load(pipeline).fill(None, Match.both)


def test_a_store_that_holds_documents_may_find_none(pipeline: Path) -> None:
    client, wrapper = deployed(pipeline)
    (store,) = find_stores(wrapper.pipeline)
    store.write_documents([Document(content="Open the tracking link.")])
    response = client.post("/faq_search/run", json={"query": "zebra"})
    assert (response.status_code, response.json()["result"]["search"]["documents"]) == (200, [])
    found = client.post("/faq_search/run", json={"query": "tracking"}).json()["result"]["search"]["documents"]
    assert [document["content"] for document in found] == ["Open the tracking link."]


async def test_at_once_and_in_a_thread(pipeline: Path) -> None:
    component = Pipeline.loads(pipeline.read_text()).get_component("search")
    assert component.run(query="parcel")["documents"] == []
    assert (await component.run_async(query="parcel"))["documents"] == []


def test_a_program_may_ask_before_it_writes() -> None:
    """As of `InMemoryBM25Retriever`, for which it is a drop-in."""
    assert BM25SRetriever(BM25SDocumentStore()).run(query="parcel") == {"documents": []}
