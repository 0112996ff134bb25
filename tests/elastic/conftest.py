"""A server of each kind, a proxy before it, and the pipelines that users have, pointed there."""

from __future__ import annotations

import json
import os
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

from elastic.adapter import Adapter
from elastic.servers import Server, make_server

KINDS = ["elasticsearch", "noida-db", "osmem"]


@dataclass
class Search:
    """A folder with the two pipelines, on an index of its own behind a proxy."""

    folder: Path
    server: Server
    proxy: Adapter
    index: str
    kind: str = "elasticsearch"

    @property
    def indexing(self) -> Path:
        return self.folder / f"faq_index_{self.kind}.yaml"

    @property
    def searching(self) -> Path:
        return self.folder / f"faq_search_{self.kind}.yaml"

    def write_pipelines(self, checkpoint: Path, **settings: Any) -> None:
        """The project's files with this index; `settings` are the document store's."""
        for path in (self.indexing, self.searching):
            pipeline = yaml.safe_load((ROOT / "pipelines" / path.name).read_text())
            for component in pipeline["components"].values():
                options = component["init_parameters"]
                if "document_store" in options:
                    changes = {"hosts": self.proxy.url, "index": self.index, **settings}
                    options["document_store"]["init_parameters"].update(changes)
                if "model" in options:
                    options["model"] = str(checkpoint)
            path.write_text(yaml.safe_dump(pipeline))

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """To the server itself: what is really there."""
        request = urllib.request.Request(
            f"{self.server.url}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as response:
            answer: dict[str, Any] = json.loads(response.read())
            return answer

    def documents(self) -> dict[str, dict[str, Any]]:
        """Id -> fields of every document."""
        self.request("POST", f"{self.index}/_refresh")
        found = self.request("POST", f"{self.index}/_search", {"size": 1000, "query": {"match_all": {}}})
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


@pytest.fixture(scope="session", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("elasticsearch", reason="elasticsearch-haystack is not installed")
    made = make_server(request.param, tmp_path_factory.mktemp(request.param))
    made.start()
    yield made
    made.kill()


@pytest.fixture
def search(server: Server, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Search]:
    for name in ("ELASTIC_API_KEY", "ELASTIC_API_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    proxy = Adapter(server.url)
    made = Search(tmp_path, server, proxy, f"ap-ranker-test-{uuid.uuid4().hex}")
    made.write_pipelines(checkpoint)
    yield made
    proxy.close()
    if os.environ.get("ELASTICSEARCH_URL") == server.url:  # the others end with the tests
        made.request("DELETE", f"{made.index}?ignore_unavailable=true")
