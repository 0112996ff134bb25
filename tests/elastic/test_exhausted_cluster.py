"""A cluster at the limits of its disks and of its memory, while `ap-ranker index` writes: settings of all nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from refusals import assert_refusal
from waiting import wait_until

from ap_ranker.search.elasticsearch import index_cluster
from elastic.conftest import Search
from elastic.engine import WHOLE, Engine
from elastic.test_faults import answers, run
from elastic.test_index import FAQ, counts, index, stored, write
from elastic.test_refused_writes import BLOCKS

pytestmark = pytest.mark.skipif(WHOLE not in os.environ, reason="settings of a whole cluster: run by `make cluster`")

FREE = {"low": 30_000, "high": 20_000, "flood_stage": 10_000}
"""How many terabytes must be free: more than any disk has."""


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


@pytest.mark.by_hand  # the cluster looks at its disks every ten seconds
def test_a_disk_beyond_its_flood_stage(search: Search, set_cluster: Callable[[dict[str, object]], None]) -> None:
    """The cluster blocks its indexes by itself, and lets them go by itself."""
    index(search, FAQ)
    disk = "cluster.routing.allocation.disk"
    marks = {f"{disk}.watermark.{name}": f"{size}tb" for name, size in FREE.items()}
    set_cluster({f"{disk}.threshold_enabled": True, **marks})
    wait_until(lambda: is_blocked(search))
    later = [*FAQ, ("Do you ship abroad?", "Yes.")]
    assert_refusal(
        "flood stage", run("index", write(search.folder / "v2.csv", later), "--pipeline", search.indexing).exception
    )
    assert stored(search) == sorted(FAQ)
    assert answers(search, "battery") == [FAQ[2][1]]
    set_cluster({f"{disk}.threshold_enabled": False})
    wait_until(lambda: not is_blocked(search))
    assert counts(index(search, later)) == [1, 0, 0, 3]


def is_blocked(search: Search) -> bool:
    indexes = search.request("GET", f"{search.index}-*/_settings?expand_wildcards=all&flat_settings=true").values()
    return all(BLOCKS["flood stage"] in made["settings"] for made in indexes)


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
