"""A lock in the cluster: one process at a time writes a range of a FAQ's entries."""

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

SIGNS = 6
"""Number of signs of life in the time after which a run without one has ended."""

ALIVE = 60.0
"""That time in seconds. Clocks may differ by less."""

BRIEF = 0.6
"""That of who writes a few changes, in seconds; who waits for it measures this by its own clock."""

BRIEF_PATIENCE = 10.0
"""How long a run waits for those who write a few changes, in seconds."""

LOOK = 0.1
"""Seconds between two looks at a lock that is waited for."""

RELEASE_SECONDS = 5.0
"""How long a run tries to give its lock back."""

STARTING_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds before the lock's index is asked again while its shard does not answer: another run may just have made it."""

COPIES_SECONDS = 10
"""How long a new lock's index waits for its copy: a node may be lost in the next moment."""

Range = tuple[int, int]
"""Keys of entries, from the first to below the second."""


class LockedIndexError(InputError):
    """Another run writes."""


class IndexLock:
    """A lock, which ends `alive` seconds after its last sign of life; `check` raises InputError once it is lost."""

    def __init__(self, client: Any, index: str, keys: Range, alive: float = ALIVE) -> None:
        self._client = client
        self._index = index
        self._keys = keys
        self._alive = alive
        self._name = f"{keys[0]}-{keys[1]}"
        self._run = {"run": uuid.uuid4().hex, "host": platform.node(), "process": os.getpid()}
        self._place: dict[str, int] = {}
        self._lost = ""
        self._signing = threading.Lock()
        self._ended = threading.Event()

    def check(self) -> None:
        """Raise InputError unless the lock is still held."""
        if self._lost:
            raise InputError(f"Expected to write alone, found that {self._lost}. Run the command again.")

    def acquire(self) -> None:
        """Take the lock; LockedIndexError if another run that lives has it, or one of a range that overlaps.

        Who writes a few changes is waited for, for `BRIEF_PATIENCE` seconds.
        """
        end = time.monotonic() + BRIEF_PATIENCE
        seen = _LastSign()
        while True:
            document = self._read()
            if not document.get("found") or not seen.lives(document):
                if self._take(document):
                    break
            elif not _is_brief(document["_source"]) or time.monotonic() > end:
                raise _refusal(document["_source"])
            time.sleep(LOOK)
        self._require_alone()

    def _read(self) -> Any:
        """What the cluster says of the lock's document, in an index that is made if it is not there."""
        for pause in STARTING_PAUSES:
            try:
                return self._read_once()
            except elasticsearch_library().ApiError as error:
                if error.status_code != 503:
                    raise
            time.sleep(pause)
        return self._read_once()

    def _read_once(self) -> Any:
        client = self._client.options(ignore_status=404)
        document = client.get(index=self._index, id=self._name)
        if "error" in document:
            settings = {"number_of_shards": 1, "auto_expand_replicas": "0-1", "hidden": True}
            make_index(
                self._client,
                self._index,
                settings=settings,
                mappings={"dynamic": False},
                wait_for_active_shards="all",
                timeout=f"{COPIES_SECONDS}s",
            )
            document = client.get(index=self._index, id=self._name)
        return document

    def _take(self, document: Mapping[str, Any]) -> bool:
        """Write the lock in the place of a document, if any; of two runs that see the same, only one does."""
        place: dict[str, Any] = {"op_type": "create"}
        if document.get("found"):
            place = {"if_seq_no": document["_seq_no"], "if_primary_term": document["_primary_term"]}
        try:
            written = self._client.index(
                index=self._index, id=self._name, document=self._state(), refresh=True, **place
            )
        except elasticsearch_library().ConflictError:
            return False
        self._keep(written)
        return True

    def _require_alone(self) -> None:
        """Give the lock back, and raise LockedIndexError, if a run that lives has one of a range that overlaps."""
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
            with self._signing:
                client.delete(index=self._index, id=self._name, refresh=True, **self._conditions())
        except (library.ApiError, library.TransportError) as error:
            logger.debug("The lock of %s could not be given back.", self._index, exc_info=error)

    def renew(self) -> None:
        """Give signs of life until the lock is released."""
        threading.Thread(target=self._beat, name="index lock", daemon=True).start()

    def sign(self) -> None:
        """Give a sign of life now; InputError if another run has taken the lock meanwhile."""
        try:
            self._write_sign()
        except elasticsearch_library().ConflictError:
            self._lost = "another run has taken over"
        self.check()

    def _write_sign(self) -> None:
        with self._signing:  # each sign names the one before, and none comes after the lock was given back
            if self._ended.is_set():
                return
            self._keep(
                self._client.index(index=self._index, id=self._name, document=self._state(), **self._conditions())
            )

    def _beat(self) -> None:
        library = elasticsearch_library()
        last = time.monotonic()
        while not self._ended.wait(self._alive / SIGNS):
            try:
                self._write_sign()
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
        return {**self._run, "from": self._keys[0], "to": self._keys[1], "beat": time.time(), "alive": self._alive}

    def _keep(self, written: Any) -> None:
        self._place = {"seq_no": written["_seq_no"], "primary_term": written["_primary_term"]}

    def _conditions(self) -> dict[str, Any]:
        """That the lock is as it was last written: another run may have taken it."""
        return {f"if_{name}": value for name, value in self._place.items()}


class _LastSign:
    """The last sign of life of a lock that somebody waits for, and when it came, by this machine's clock."""

    def __init__(self) -> None:
        self._change: int | None = None
        self._since = 0.0

    def lives(self, document: Mapping[str, Any]) -> bool:
        """Whether the run that holds the lock of a document goes on.

        That of a brief one is seen by its next sign, as clocks may differ by more than such a lock lasts.
        """
        held = document["_source"]
        if not _is_brief(held):
            return _lives(held)
        if document["_seq_no"] != self._change:
            self._change = document["_seq_no"]
            self._since = time.monotonic()
        return time.monotonic() - self._since <= held["alive"] and _has_process(held)


def _is_brief(held: Mapping[str, Any]) -> bool:
    return bool(_seconds_of(held) < ALIVE)


def _seconds_of(held: Mapping[str, Any]) -> float:
    """After how many seconds without a sign of life a lock ends."""
    return float(held.get("alive", ALIVE))


def _lives(held: Mapping[str, Any]) -> bool:
    """Whether a run that holds a lock goes on: by its signs of life; on this machine, by its process."""
    return time.time() - held["beat"] <= _seconds_of(held) and _has_process(held)


def _has_process(held: Mapping[str, Any]) -> bool:
    """Whether the process that holds a lock is there, as far as that is known: of another machine, it may be."""
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
def locked_index(client: Any, index: str, keys: Range, alive: float = ALIVE) -> Iterator[IndexLock]:
    """An `IndexLock` in an index of its own, which is made if it is not there."""
    lock = IndexLock(client, index, keys, alive)
    lock.acquire()
    lock.renew()
    try:
        yield lock
    finally:
        lock.release()
