"""The lock of an index: who waits for whom, and when a lock is taken over."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from refusals import refused

from ap_ranker.search.elasticsearch.index_lock import ALIVE, BRIEF, IndexLock, LockedIndexError, locked_index
from elastic.conftest import Search
from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore

KEYS = (0, 2**32)

Locks = Callable[..., IndexLock]


@pytest.fixture
def locks(search: Search, monkeypatch: pytest.MonkeyPatch) -> Iterator[Locks]:
    """Makes locks of one index, each of a machine of its own."""
    store = ElasticsearchFAQStore(hosts=search.server.url)
    machines = iter(range(100))

    def make(alive: float) -> IndexLock:
        with monkeypatch.context() as patch:
            patch.setattr(platform, "node", lambda: f"machine-{next(machines)}")
            return IndexLock(store.client, f"{search.index}-lock", KEYS, alive)

    yield make
    store.close()


@pytest.mark.parametrize("ahead", [-3600, 3600], ids=["behind", "ahead"])
def test_a_killed_writers_lock_is_taken_over(locks: Locks, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    """After the time that it has, by the clock of who waits: that of the other machine may be any."""
    first = locks(BRIEF)
    now = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now() + ahead)
        first.acquire()  # and never signs
    started = time.monotonic()
    second = locks(BRIEF)
    second.acquire()
    assert time.monotonic() - started > BRIEF
    with refused("alone … another run"):
        first.sign()
    second.sign()
    second.release()


def test_a_writer_that_lives_is_waited_for(locks: Locks) -> None:
    first = locks(BRIEF)
    first.acquire()
    first.renew()
    released: list[float] = []

    def release() -> None:
        released.append(time.monotonic())
        first.release()

    threading.Timer(3 * BRIEF, release).start()
    second = locks(ALIVE)
    second.acquire()
    assert released
    second.release()


def test_a_long_run_is_not_waited_for(locks: Locks) -> None:
    first = locks(ALIVE)
    first.acquire()
    started = time.monotonic()
    with refused("`ap-ranker index` … machine-0", LockedIndexError):
        locks(BRIEF).acquire()
    assert time.monotonic() - started < ALIVE / 2
    first.release()


def test_a_lock_that_is_given_back_leaves_nothing(search: Search) -> None:
    store = ElasticsearchFAQStore(hosts=search.server.url)
    client: Any = store.client
    for _ in range(2):
        with locked_index(client, f"{search.index}-lock", KEYS, alive=BRIEF) as lock:
            lock.sign()
    assert not client.options(ignore_status=404).get(index=f"{search.index}-lock", id="0-4294967296").get("found")
    store.close()


def test_several_machines_begin_at_once(search: Search) -> None:
    """The first of them makes the lock's index, while the others see it before its shard has started."""
    stores = [ElasticsearchFAQStore(hosts=search.server.url) for _ in range(8)]
    together = threading.Barrier(len(stores))

    def begin(part: int) -> None:
        together.wait()
        with locked_index(stores[part].client, f"{search.index}-lock", (part, part + 1)) as lock:
            lock.sign()

    with ThreadPoolExecutor(len(stores)) as machines:
        list(machines.map(begin, range(len(stores))))
    for store in stores:
        store.close()
