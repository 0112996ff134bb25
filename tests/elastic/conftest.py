"""A real Elasticsearch, a proxy before it, and the pipelines that users have, pointed there."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, write_checkpoint

from elastic.adapter import Adapter
from elastic.engine import Engine, shared_engine

PACKAGED = ("faq_elasticsearch", "faq_index_elasticsearch", "faq_search_elasticsearch")
PACKAGED += ("faq_index_hybrid_elasticsearch", "faq_search_hybrid_elasticsearch")


@dataclass
class Search:
    """A folder with the pipelines of a kind, on an index of its own behind a proxy.

    The kind `elasticsearch` is ours, one file for both; the others have components of Haystack's.
    """

    folder: Path
    server: Engine
    proxy: Adapter
    index: str
    kind: str = "elasticsearch"

    @property
    def indexing(self) -> Path:
        return self.folder / f"{'faq' if self.kind == 'elasticsearch' else 'faq_index'}_{self._suffix}.yaml"

    @property
    def searching(self) -> Path:
        return self.folder / f"{'faq' if self.kind == 'elasticsearch' else 'faq_search'}_{self._suffix}.yaml"

    @property
    def _suffix(self) -> str:
        return {"words": "elasticsearch", "hybrid": "hybrid_elasticsearch"}.get(self.kind, self.kind)

    def write_pipelines(self, checkpoint: Path, **settings: Any) -> None:
        """The project's files with this index; `settings` are the document store's."""
        changes = {"hosts": self.proxy.url, "index": self.index, **settings}
        for name in PACKAGED:
            pipeline = yaml.safe_load((ROOT / "pipelines" / f"{name}.yaml").read_text())
            change(pipeline, checkpoint, changes)
            (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(pipeline))

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """To the server itself: what is really there."""
        return ask(self.server.url, method, path, body)

    def documents(self, index: str | None = None) -> dict[str, dict[str, Any]]:
        """Id -> source of every document that is searched by the FAQ's name, or of an index."""
        index = index or self.index
        self.request("POST", f"{index}/_refresh")
        found = self.request("POST", f"{index}/_search", {"size": 10_000, "query": {"match_all": {}}})
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}

    def indexes(self) -> list[str]:
        """The indexes of the FAQ, but for that of its lock."""
        names = self.request("GET", f"{self.index}*?expand_wildcards=open").keys()
        return sorted(name for name in names if not name.endswith("-lock"))

    def current(self) -> str:
        """What the FAQ's name means."""
        [name] = self.request("GET", f"_alias/{self.index}")
        return name


def change(part: Any, checkpoint: Path, store: dict[str, Any]) -> None:
    """Let all parts of a pipeline's file rank with a checkpoint, and search in this store."""
    if isinstance(part, list):
        for each in part:
            change(each, checkpoint, store)
    if not isinstance(part, dict):
        return
    if "model" in part:
        part["model"] = str(checkpoint)
    if "hosts" in part:
        part.update(store)
    for each in part.values():
        change(each, checkpoint, store)


def ask(url: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """The server's answer, also where it refuses."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/{path}", method=method, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            text = response.read()
    except urllib.error.HTTPError as error:
        text = error.read()
    answer: dict[str, Any] = json.loads(text or b"{}")
    return answer


@pytest.fixture(scope="session", autouse=True)
def started() -> float:
    """When the first test began."""
    return time.monotonic()


@pytest.fixture(autouse=True)
def in_time(started: float) -> None:
    """With a limit of the run, tests that would begin after it are skipped."""
    limit = os.environ.get("AP_RANKER_CLUSTER_SECONDS")
    if limit is not None and time.monotonic() - started > float(limit):
        pytest.skip(f"the run's {limit} seconds are over: `make cluster` has no limit")


@pytest.fixture(scope="session")
def server() -> Engine:
    pytest.importorskip("elasticsearch", reason="elasticsearch-haystack is not installed")
    return shared_engine()


@pytest.fixture(scope="session")
def cluster(server: Engine) -> Engine:
    """Three nodes, which a test may lose, pause and start again."""
    if not (server.folder / "cluster.json").exists():
        pytest.skip("no test may end the nodes of ELASTICSEARCH_URL: unset it")
    return server


@pytest.fixture(scope="module")
def bi_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a model with vectors of whole texts."""
    return write_checkpoint("qa-cnn", tmp_path_factory.mktemp("checkpoints") / "qa-cnn")


@pytest.fixture
def search(server: Engine, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Search]:
    for name in ("ELASTIC_API_KEY", "ELASTIC_API_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    proxy = Adapter(server.url)
    made = Search(tmp_path, server, proxy, f"ap-ranker-test-{uuid.uuid4().hex}")
    made.write_pipelines(checkpoint)
    yield made
    proxy.close()
    for name in [*made.indexes(), f"{made.index}-lock"]:
        made.request("DELETE", f"{name}?ignore_unavailable=true")
