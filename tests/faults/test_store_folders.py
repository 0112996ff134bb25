"""A store on a disk that is read-only or full: it is searched all the same, and says once why that is slower."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import fill, read_only, small_disk_or_skip
from forked import run
from haystack import Document
from refusals import refused

from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

DOCUMENTS = [Document(id="1", content="open the tracking link"), Document(id="2", content="the refund comes soon")]


def write(folder: Path, *, index: bool) -> None:
    store = BM25SDocumentStore(folder)
    store.write_documents(DOCUMENTS)
    if index:
        store.bm25_retrieval("refund")
    store.close()


def found(folder: Path, **options: float) -> list[str]:
    store = BM25SDocumentStore(folder, **options)
    for _ in range(2):  # the second search uses the index that the first one built
        ids = [document.id for document in store.bm25_retrieval("refund tracking")]
    assert store.count_documents() == 2
    store.close()
    return sorted(ids)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_or_skip(tmp_path / "disk", 512) as folder:
        yield folder


@pytest.mark.parametrize("index", [True, False], ids=["saved index", "no index"])
def test_a_read_only_disk(index: bool, disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(disk / "s", index=index)
    before = sorted(disk.rglob("*"))
    with read_only(disk):
        assert found(disk / "s") == ["1", "2"]
        assert found(disk / "s", k1=0.7) == ["1", "2"]  # no index is saved for these settings
        with refused("documents.sqlite … readonly"):
            BM25SDocumentStore(disk / "s").write_documents([Document(content="more")])
        with refused("none"):
            BM25SDocumentStore(disk / "none").count_documents()
    assert sorted(disk.rglob("*")) == before
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == (1 if index else 2)  # one for each store that lacks its index
    assert all("The index is kept in memory" in said and "Read-only file system" in said for said in warnings)


def test_a_full_disk(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(disk / "s", index=False)
    fill(disk)
    before = sorted(disk.rglob("*"))
    assert found(disk / "s") == ["1", "2"]
    assert "No space left on device" in caplog.text or "requested and" in caplog.text
    assert sorted(disk.rglob("*")) == before
    many = [Document(content=f"{number} refund") for number in range(2000)]
    with refused("documents.sqlite … full"):
        BM25SDocumentStore(disk / "s").write_documents(many)
    assert found(disk / "s") == ["1", "2"]
    (disk / "filler").unlink()
    assert found(disk / "s") == ["1", "2"]
    assert sorted(path.name for path in (disk / "s").iterdir() if path.name != "documents.sqlite")[0][:6] == "index-"


INTERRUPTED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
for number in range(500):
    connection.execute("INSERT INTO documents (id, content, rest) VALUES (?, ?, '{}')", (str(number + 9), "x" * 500))
os._exit(9)
"""


def test_a_write_that_was_killed_needs_the_disk_once_more(disk: Path) -> None:
    """Half of it is in the file; undoing that is a write."""
    write(disk / "s", index=False)
    run(INTERRUPTED, disk / "s" / "documents.sqlite")
    assert (disk / "s" / "documents.sqlite-journal").exists()
    with read_only(disk), refused("documents.sqlite"):
        found(disk / "s")
    assert found(disk / "s") == ["1", "2"]


SEARCH = """
import os, sys
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
import ap_ranker.ranking.bm25, bm25s
from ap_ranker.errors import InputError
os.setgid(65534); os.setuid(65534)
print(sorted(d.id for d in BM25SDocumentStore(sys.argv[1]).bm25_retrieval("refund tracking")))
"""


def test_a_folder_of_somebody_else() -> None:
    if os.geteuid() != 0:
        pytest.skip("only an administrator can become somebody else")
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        Path(name).chmod(0o755)
        write(Path(name) / "s", index=False)
        done = run(SEARCH, Path(name) / "s")
        assert done.stdout.strip() == "['1', '2']", done.stderr
        assert "The index is kept in memory" in done.stderr and "Permission denied" in done.stderr
