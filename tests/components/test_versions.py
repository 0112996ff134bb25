"""Earlier versions of a store's folder come back whole: what they found, they find again."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import forked
import pytest
from haystack import Document
from refusals import refused

from ap_ranker.search.versions import KEPT, VersionedDocuments
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore


def write(store: BM25SDocumentStore, *texts: str) -> None:
    store.delete_all_documents()
    store.write_documents([Document(content=text, embedding=[float(len(text)), 1.0]) for text in texts])


def folder_of(store: BM25SDocumentStore) -> VersionedDocuments:
    return VersionedDocuments(Path(store.path or ""))


def contents(store: BM25SDocumentStore) -> list[str]:
    return [document.content or "" for document in store.filter_documents()]


@pytest.fixture
def store(tmp_path: Path) -> BM25SDocumentStore:
    """With two earlier versions, `one` and `two, two`, and the present one, `three`."""
    store = BM25SDocumentStore(tmp_path / "index")
    for texts in (("one",), ("two", "two more")):
        write(store, *texts)
        folder_of(store).keep_version()
    write(store, "three")
    return store


def test_the_last_version_and_back(store: BM25SDocumentStore) -> None:
    assert [version.documents for version in folder_of(store).versions()] == [1, 2]
    assert folder_of(store).restore_version().number == 2
    assert contents(store) == ["two", "two more"]
    assert [document.content for document in store.bm25_retrieval("more")] == ["two more"]
    assert store.embedding_retrieval([3.0, 1.0], return_embedding=True)[0].embedding == [3.0, 1.0]
    assert not store.bm25_retrieval("three")
    folder_of(store).restore_version()
    assert contents(store) == ["three"]
    folder_of(store).restore_version(1)
    assert contents(store) == ["one"]


def test_another_process_follows(store: BM25SDocumentStore) -> None:
    other = BM25SDocumentStore(store.path)
    assert other.bm25_retrieval("three")
    folder_of(store).restore_version()
    assert not other.bm25_retrieval("three")
    assert other.bm25_retrieval("more")


def test_only_changes_are_kept_and_the_oldest_go(store: BM25SDocumentStore) -> None:
    for _ in range(3):
        folder_of(store).keep_version()
    assert [version.number for version in folder_of(store).versions()] == [1, 2, 3]
    for number in range(10):
        write(store, f"text {number}")
        folder_of(store).keep_version()
    numbers = [version.number for version in folder_of(store).versions()]
    assert numbers == list(range(numbers[-1] - KEPT + 1, numbers[-1] + 1))
    write(store, "last")
    folder_of(store).restore_version(numbers[0])  # which makes room for the present one
    assert contents(store) == ["text 5"]
    folder_of(store).restore_version()
    assert contents(store) == ["last"]


def test_readers_meet_one_version_or_the_other(store: BM25SDocumentStore) -> None:
    done = Event()

    def read() -> set[tuple[str, ...]]:
        own, met = BM25SDocumentStore(store.path), set()
        while not done.is_set():
            met.add(tuple(contents(own)))
        return met

    with ThreadPoolExecutor(2) as readers:
        reading = [readers.submit(read) for _ in range(2)]
        for _ in range(10):
            folder_of(store).restore_version()
        done.set()
    assert set.union(*(each.result() for each in reading)) <= {("three",), ("two", "two more")}


KILLED = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from ap_ranker.search import versions

def half():
    yield (1, "a", "half", "{}", None)
    os.kill(os.getpid(), signal.SIGKILL)

class Half:
    def __init__(self, whole):
        self.backup = whole.backup
        self.execute = lambda query: half() if "embedding" in query else whole.execute(query)

@contextmanager
def reading(path, whole=versions.reading):
    with whole(path) as connection:
        yield Half(connection)

versions.reading = reading
versions.VersionedDocuments(Path(sys.argv[1])).restore_version()
"""
"""Ends after it has deleted all documents and written one of the version's."""


def test_killed_in_the_middle(store: BM25SDocumentStore) -> None:
    assert forked.run(KILLED, store.path).returncode == -signal.SIGKILL
    after = BM25SDocumentStore(store.path)
    assert contents(after) == ["three"]
    folder_of(after).restore_version(2)
    assert contents(after) == ["two", "two more"]


def test_what_cannot_be_brought_back(tmp_path: Path, store: BM25SDocumentStore) -> None:
    with refused("7 … 1, 2"):
        folder_of(store).restore_version(7)
    new = BM25SDocumentStore(tmp_path / "new")
    folder_of(new).keep_version()  # there is nothing to keep
    with refused("new"):
        folder_of(new).restore_version()
    folder_of(store).versions()[0].path.write_bytes(b"nothing")
    with refused("damaged"):
        folder_of(store).restore_version()
