"""Replies of something that is not Elasticsearch, at its address, are one sentence without the question."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from faq_checkpoint import write_small

pytest.importorskip("elasticsearch", reason="the extra elasticsearch is not installed")

from ap_ranker.errors import InputError
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever
from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore

MAPPING = {"i": {"mappings": {"_meta": {}, "properties": {}}}}
COUNTED = {"lengths": {"count": 1, "avg": 3.0}, "asked": {"doc_count": 0}, "terms": {"buckets": []}}
WHOLE = {"_shards": {"total": 1, "successful": 1}, "hits": {"hits": []}, "aggregations": COUNTED}
ODD_HIT = WHOLE | {"hits": {"hits": [{"_id": 5, "_score": "x"}]}}


class _Odd(BaseHTTPRequestHandler):
    replies: dict[str, Any]

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        kind = "mapping" if "_mapping" in self.path else "search"
        body = self.replies[kind]
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(200)
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST  # noqa: N815  its base class names it


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("odd") / "checkpoint")


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Odd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "search",
    [
        {},
        [],
        "null",
        "[" * 100_000,
        {"responses": None},
        {"responses": []},
        {"responses": [WHOLE]},
        {"responses": ["a"] * 9},
        {"responses": [{"_shards": {}}] * 9},
        {"responses": [ODD_HIT] * 9},
    ],
    ids=["empty", "list", "null", "nested", "none", "no answer", "too few", "texts", "no counts", "odd hit"],
)
def test_an_odd_reply_is_one_sentence(search: Any, address: str, checkpoint: Path) -> None:
    _Odd.replies = {"mapping": MAPPING, "search": search}
    retriever = ElasticsearchFAQRetriever(ElasticsearchFAQStore(hosts=address, index="faq"), model=str(checkpoint))
    with pytest.raises(InputError) as refusal:
        retriever.run("Where is my confidential parcel?")
    assert "reply" in str(refusal.value)
    assert "confidential" not in str(refusal.value)


@pytest.mark.parametrize("mapping", [[], {"i": {}}, {"i": {"mappings": []}}, "null"])
def test_an_odd_mapping_is_one_sentence(mapping: Any, address: str) -> None:
    _Odd.replies = {"mapping": mapping, "search": {}}
    with pytest.raises(InputError, match="reply"):
        ElasticsearchFAQStore(hosts=address, index="faq").facts("i")
