"""An index that is blocked, as by a full disk, and a cluster that is busy, while `ap-ranker index` writes.

Each is one sentence, nothing that was stored is lost, and the next run goes on. (By a cluster's own limits:
test_exhausted_cluster.py.)
"""

from __future__ import annotations

import forked
import pytest
from refusals import absent, assert_refusal

from elastic.conftest import Search
from elastic.test_faults import answers, run
from elastic.test_index import FAQ, counts, entries, index, stored, write

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


# 503


def test_a_cluster_that_starts_is_not_called_blocked(search: Search) -> None:
    """It says so by a block of its own, which ends by itself; `index` waits for that."""
    reason = "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];"
    cause = {"type": "cluster_block_exception", "reason": reason}
    starting = {"error": {"root_cause": [cause], **cause}, "status": 503}
    answered = iter([(503, starting)] * 8)  # the client itself asks six times
    search.proxy.before = lambda method, path: next(answered, None) if "/_bulk" in path else None
    assert counts(index(search, FAQ)) == [3, 0, 0, 0]
    search.proxy.before = lambda method, path: (503, starting) if "/_msearch" in path else None
    error = run("ask", "battery", "--pipeline", search.searching).exception
    assert_refusal("503 … health", error)
    assert "Remove" not in str(error)
