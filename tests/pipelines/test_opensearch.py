"""OpenSearch and other servers that are no Elasticsearch: what loads, what is answered, and what is said of the rest.

No OpenSearch server is here: one is pretended, of the few replies that a question needs.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT
from haystack import default_to_dict
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore
from refusals import refused
from test_documentation import blocks

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.lasting_stores import fill_store
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.search.sync_store import index_faq

PAGE = ROOT / "docs" / "archive" / "elasticsearch.md"
SCORES = {"parcel": 1.75, "late": 0.5}
"""BM25's scores of the pretended server, as OpenSearch 3 has them."""

STORE = """
from haystack import Document, default_from_dict, default_to_dict


class ServerError(Exception):
    '''As of a client that nobody else knows.'''


class PretendedStore:
    def to_dict(self):
        return default_to_dict(self, hosts="http://127.0.0.1:9200", index="faq")

    @classmethod
    def from_dict(cls, data):
        return default_from_dict(cls, {**data, "init_parameters": {}})

    def count_documents(self):
        return 3

    def filter_documents(self, filters=None):
        if filters:
            raise ServerError("no answer to api_key=abcdef")
        return [Document(id=name, content=name) for name in ("first", "second")]
"""
"""A store of another package, which lists fewer documents than it holds, and whose server fails if it is filtered."""


class Reply(BaseHTTPRequestHandler):
    """One of OpenSearch, without the header by which Elasticsearch's client knows its server."""

    def do_GET(self) -> None:
        self._reply({"version": {"distribution": "opensearch", "number": "3.2.0"}})

    def do_HEAD(self) -> None:
        self._reply({})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        hits = []
        for name, score in SCORES.items():
            hits.append({"_id": name, "_score": score, "_source": {"id": name, "content": name}})
        self._reply({"count": len(SCORES), "hits": {"hits": hits}})

    def _reply(self, answer: dict[str, Any]) -> None:
        text = json.dumps(answer).encode()
        if self.path.endswith("/_mapping"):
            text = b'{"faq": {"mappings": {}}}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def server() -> Iterator[str]:
    """The URL of a server that says it is OpenSearch."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Reply) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """As `STORE` says, at the place where such packages have theirs."""
    name = "haystack_integrations.document_stores.pretended"
    folder = tmp_path / name.replace(".", "/")
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(STORE)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module(name).PretendedStore()
    sys.modules.pop(name)


def written(declared: dict[str, Any], folder: Path, checkpoint: Path, server: str) -> Path:
    """The file of a pipeline with this checkpoint and this server."""
    retriever = declared["components"]["retriever"]["init_parameters"]
    retriever["document_store"]["init_parameters"]["hosts"] = server
    declared["components"]["ranker"]["init_parameters"]["model"] = str(checkpoint)
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(declared))
    return path


def test_the_pipeline_of_the_page(server: str, checkpoint: Path, tmp_path: Path) -> None:
    """It loads and answers; scores that nothing multiplied reach the ranker as they are."""
    pytest.importorskip(
        "haystack_integrations.document_stores.opensearch", reason="opensearch-haystack is not installed"
    )
    [text] = [block for block in blocks(PAGE, "yaml") if "OpenSearchBM25Retriever" in block]
    search = DeclaredPipeline.load(written(yaml.safe_load(text), tmp_path, checkpoint, server))
    search.prepare()
    documents, _ = search.answer("Where is my parcel?")
    assert {document.id: document.meta["ap_ranker"]["bm25_score"] for document in documents} == SCORES


def test_elasticsearch_refuses_opensearch(
    server: str, checkpoint: Path, tmp_path: Path, faq_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("elasticsearch", reason="elasticsearch-haystack is not installed")
    for name in ("ELASTIC_API_KEY", "ELASTIC_API_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search_elasticsearch.yaml").read_text())
    path = written(declared, tmp_path, checkpoint, server)
    with refused("not Elasticsearch … OpenSearch … hosts … docs/archive/elasticsearch.md"):
        index_faq(faq_file, path)


def test_another_package(store: Any, tmp_path: Path, faq_file: Path) -> None:
    """What its client raises is no defect of ours, and is told without a key; options of Elasticsearch are refused."""
    path = tmp_path / "index.yaml"
    writer = default_to_dict(DocumentWriter(InMemoryDocumentStore()), document_store=store.to_dict())
    path.write_text(yaml.safe_dump({"components": {"writer": writer}}))
    with refused("index.yaml … index 'faq' … ServerError … api_key=***"):
        index_faq(faq_file, path)
    with refused("index.yaml … --language … PretendedStore"):
        index_faq(faq_file, path, language="english")


def test_a_defect_is_none_of_a_store(tmp_path: Path) -> None:
    with pytest.raises(KeyError), report_store_errors(tmp_path / "index.yaml", "index 'faq'"):
        raise KeyError("ours")


def test_a_store_that_lists_fewer_than_it_holds(store: Any) -> None:
    with refused("3 … index 'faq' … 2"):
        fill_store(store, store.filter_documents(), None)
