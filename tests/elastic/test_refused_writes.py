"""A disk that is full and a cluster that is busy, of a real Elasticsearch, while `ap-ranker index` writes.

Each is one sentence, nothing that was stored is lost, and the next run goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import forked
import pytest
from refusals import absent, assert_refusal

from ap_ranker.search.elasticsearch import index_cluster
from elastic.conftest import Search
from elastic.engine import WHOLE, Engine
from elastic.test_faults import answers, run
from elastic.test_index import FAQ, counts, entries, index, stored, write

three_nodes = pytest.mark.skipif(WHOLE not in os.environ, reason="settings of a whole cluster: run by `make cluster`")

PATIENCE = 60.0
"""Seconds within which a cluster notices that its disk is too full, which it looks at every ten."""

BLOCKS = {
    "write block": "index.blocks.write",
    "flood stage": "index.blocks.read_only_allow_delete",  # what a cluster sets where a disk is fuller than that
}


SMALL_REQUESTS = "from ap_ranker.search.elasticsearch import index_cluster; index_cluster.CHUNK = 20\n"


@pytest.mark.parametrize("block", BLOCKS)
def test_an_index_that_is_blocked_while_it_is_written(search: Search, block: str) -> None:
    """With its lock, as a full disk blocks both."""
    old, new = entries(0, 20), entries(10, 100)
    index(search, old)
    blocked = f"{search.index}-*/_settings?expand_wildcards=all"
    started = search.proxy.bulks()

    def fill_disk(method: str, path: str) -> None:
        if search.proxy.bulks() > started:
            search.request("PUT", blocked, {BLOCKS[block]: True})

    search.proxy.after = fill_disk
    faq = write(search.folder / "faq.csv", new)
    done = forked.run(SMALL_REQUESTS + forked.MAIN, "index", faq, "--pipeline", search.indexing)
    search.proxy.after = lambda method, path: None
    assert done.returncode == 2
    assert not absent(block, done.stderr), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert set(old) <= set(stored(search))
    assert set(stored(search)) < set(old) | set(new)
    assert answers(search, "Question 3")
    search.request("PUT", blocked, {BLOCKS[block]: None})
    added, changed, removed, unchanged = counts(index(search, new))
    assert (changed, removed, added + unchanged) == (0, 10, 90)
    assert unchanged > 10, "what was written before is not written again"
    assert stored(search) == sorted(new)


# 7: counts that are read back


@pytest.mark.parametrize("block", BLOCKS)
def test_a_blocked_index(search: Search, block: str) -> None:
    index(search, FAQ)
    search.request("PUT", f"{search.index}/_settings", {BLOCKS[block]: True})
    result = run("index", write(search.folder / "v2.csv", FAQ[:2]), "--pipeline", search.indexing)
    assert_refusal(block, result.exception)
    assert stored(search) == sorted(FAQ)
    search.request("PUT", f"{search.index}/_settings", {BLOCKS[block]: None})
    assert counts(index(search, FAQ[:2])) == [0, 0, 1, 2]


# 429


def test_a_busy_cluster_loses_nothing(search: Search) -> None:
    busy = {"error": {"type": "es_rejected_execution_exception", "reason": "rejected execution"}, "status": 429}
    answered = iter([(429, busy)] * 3)
    search.proxy.before = lambda method, path: next(answered, None) if "/_bulk" in path else None
    assert counts(index(search, FAQ)) == [3, 0, 0, 0]
    assert stored(search) == sorted(FAQ)


# Settings of a whole cluster, which other tests on it would feel


@pytest.fixture
def set_cluster(cluster: Engine) -> Iterator[Callable[[dict[str, object]], None]]:
    """Changes settings of the cluster; in the end they are as before."""
    asked = Search(Path(), cluster, None, "")  # type: ignore[arg-type]
    changed: set[str] = set()

    def change(settings: dict[str, object]) -> None:
        changed.update(settings)
        assert asked.request("PUT", "_cluster/settings", {"persistent": settings})["acknowledged"]

    yield change
    change(dict.fromkeys(changed))


@three_nodes
def test_a_disk_beyond_its_flood_stage(search: Search, set_cluster: Callable[[dict[str, object]], None]) -> None:
    """The cluster blocks its indexes by itself, and lets them go by itself."""
    index(search, FAQ)
    disk = "cluster.routing.allocation.disk"
    marks = {f"{disk}.watermark.{name}": f"{size}tb" for name, size in FREE.items()}
    set_cluster({f"{disk}.threshold_enabled": True, **marks})
    wait_for(lambda: is_blocked(search))
    later = [*FAQ, ("Do you ship abroad?", "Yes.")]
    assert_refusal(
        "flood stage", run("index", write(search.folder / "v2.csv", later), "--pipeline", search.indexing).exception
    )
    assert stored(search) == sorted(FAQ)
    assert answers(search, "battery") == [FAQ[2][1]]
    set_cluster({f"{disk}.threshold_enabled": False})
    wait_for(lambda: not is_blocked(search))
    assert counts(index(search, later)) == [1, 0, 0, 3]


FREE = {"low": 30_000, "high": 20_000, "flood_stage": 10_000}
"""How many terabytes must be free: more than any disk has."""


def is_blocked(search: Search) -> bool:
    indexes = search.request("GET", f"{search.index}-*/_settings?expand_wildcards=all&flat_settings=true").values()
    return all(BLOCKS["flood stage"] in made["settings"] for made in indexes)


def wait_for(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.5)


@three_nodes
def test_a_cluster_without_memory_for_a_request(
    search: Search, set_cluster: Callable[[dict[str, object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers 429, for longer than `index` tries again."""
    monkeypatch.setattr(index_cluster, "WRITING_PAUSES", (1.0,))
    index(search, FAQ)
    long = [(f"Question {i}", f"Answer {i}{' and so on' * 100}") for i in range(400)]
    new: Sequence[tuple[str, str]] = [*FAQ, *long]
    set_cluster({"network.breaker.inflight_requests.limit": "60kb"})
    faq = write(search.folder / "v2.csv", new)
    assert_refusal("429 … Nothing is lost", run("index", faq, "--pipeline", search.indexing).exception)
    assert set(FAQ) <= set(stored(search))
    set_cluster({"network.breaker.inflight_requests.limit": None})
    assert counts(index(search, new))[1:3] == [0, 0]
    assert stored(search) == sorted(new)
