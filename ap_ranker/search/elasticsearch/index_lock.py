"""A lock in the cluster: one `ap-ranker index` at a time writes a range of a FAQ's entries."""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ap_ranker.errors import InputError
from ap_ranker.search.elasticsearch.index_cluster import make_index
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import elasticsearch_library

logger = logging.getLogger(__name__)

BEAT = 10.0
"""Seconds between two signs of life."""

ALIVE = 60.0
"""Seconds after which a run without a sign of life has ended. Clocks may differ by less."""

RELEASE_SECONDS = 5.0
"""How long a run tries to give its lock back."""

COPIES_SECONDS = 10
"""How long a new lock's index waits for its copy: a node may be lost in the next moment."""

Range = tuple[int, int]
"""Keys of entries, from the first to below the second."""


class LockedIndexError(InputError):
    """Another run writes."""


class IndexLock:
    """A held lock; `check` raises InputError once another run has taken it."""

    def __init__(self, client: Any, index: str, keys: Range) -> None:
        self._client = client
        self._index = index
        self._keys = keys
        self._name = f"{keys[0]}-{keys[1]}"
        self._run = {"run": uuid.uuid4().hex, "host": platform.node(), "process": os.getpid()}
        self._place: dict[str, int] = {}
        self._lost = ""
        self._ended = threading.Event()

    def check(self) -> None:
        """Raise InputError unless the lock is still held."""
        if self._lost:
            raise InputError(f"Expected to write alone, found that {self._lost}. Run the command again.")

    def acquire(self) -> None:
        """Take the lock; InputError if another run that lives has it, or one of a range that overlaps."""
        document = self._client.options(ignore_status=404).get(index=self._index, id=self._name)
        held = document.get("_source") if document.get("found") else None
        if held is not None and _lives(held):
            raise _refusal(held)
        # Of two runs that see the same, the cluster lets only one write.
        place: dict[str, Any] = {"op_type": "create"}
        if held is not None:
            place = {"if_seq_no": document["_seq_no"], "if_primary_term": document["_primary_term"]}
        try:
            self._keep(self._client.index(index=self._index, id=self._name, document=self._state(), **place))
        except elasticsearch_library().ConflictError as error:
            document = self._client.get(index=self._index, id=self._name)
            raise _refusal(document["_source"]) from error
        self._client.indices.refresh(index=self._index)
        answer = self._client.search(index=self._index, size=1000, allow_partial_search_results=False)
        first, end = self._keys
        for hit in answer["hits"]["hits"]:
            state = hit["_source"]
            if "beat" not in state:  # no lock: a part of a run that is done
                continue
            overlaps = state["from"] < end and first < state["to"]
            if state["run"] != self._run["run"] and overlaps and _lives(state):
                self.release()
                raise _refusal(state)

    def release(self) -> None:
        """Give the lock back, unless it was lost. Where the cluster refuses that, it ends without signs of life."""
        self._ended.set()
        if self._lost:
            return
        library = elasticsearch_library()
        # Once, for a moment: where no shard of the lock answers, a client that tries again would wait for minutes.
        client = self._client.options(ignore_status=(404, 409), request_timeout=RELEASE_SECONDS, max_retries=0)
        try:
            client.delete(index=self._index, id=self._name, refresh=True, **self._conditions())
        except (library.ApiError, library.TransportError) as error:
            logger.debug("The lock of %s could not be given back.", self._index, exc_info=error)

    def renew(self) -> None:
        """Give signs of life until the lock is released."""
        threading.Thread(target=self._beat, name="index lock", daemon=True).start()

    def _beat(self) -> None:
        library = elasticsearch_library()
        last = time.monotonic()
        while not self._ended.wait(BEAT):
            try:
                self._keep(
                    self._client.index(index=self._index, id=self._name, document=self._state(), **self._conditions())
                )
                last = time.monotonic()
            except library.ConflictError:
                self._lost = "another run has taken over"
                return
            except (library.ApiError, library.TransportError) as error:
                logger.debug("The lock of %s could not be renewed.", self._index, exc_info=error)
                if time.monotonic() - last > ALIVE:
                    self._lost = f"the cluster has not answered for {ALIVE:g} s"
                    return

    def _state(self) -> dict[str, Any]:
        return {**self._run, "from": self._keys[0], "to": self._keys[1], "beat": time.time()}

    def _keep(self, written: Any) -> None:
        self._place = {"seq_no": written["_seq_no"], "primary_term": written["_primary_term"]}

    def _conditions(self) -> dict[str, Any]:
        """That the lock is as it was last written: another run may have taken it."""
        return {f"if_{name}": value for name, value in self._place.items()}


def _lives(held: Mapping[str, Any]) -> bool:
    """Whether a run that holds a lock goes on: by its signs of life; on this machine, by its process."""
    if time.time() - held["beat"] > ALIVE:
        return False
    if held["host"] != platform.node():
        return True
    try:
        os.kill(held["process"], 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _refusal(held: Mapping[str, Any]) -> LockedIndexError:
    seconds = max(0, round(time.time() - held["beat"]))
    return LockedIndexError(
        f"Expected no other `ap-ranker index` of this FAQ, found one on {held['host']} (process {held['process']}, "
        f"last sign of life {seconds} s ago). Wait until it has ended; of one that was killed, at most {ALIVE:g} s."
    )


@contextmanager
def locked_index(client: Any, index: str, keys: Range) -> Iterator[IndexLock]:
    """A lock in an index of its own, which is made if it is not there."""
    if not client.indices.exists(index=index):
        settings = {"number_of_shards": 1, "auto_expand_replicas": "0-1", "hidden": True}
        make_index(
            client,
            index,
            settings=settings,
            mappings={"dynamic": False},
            wait_for_active_shards="all",
            timeout=f"{COPIES_SECONDS}s",
        )
    lock = IndexLock(client, index, keys)
    lock.acquire()
    lock.renew()
    try:
        yield lock
    finally:
        lock.release()
