"""Storage of a store's documents: in memory, or in a folder that keeps them and their index between runs.

A folder contains one SQLite database, `documents.sqlite`, whose transactions make writes atomic, and at most one index,
`index-REVISION-K1-B[-LANGUAGE]`, for each BM25 setting in use. An index is built from the documents, so it may be
deleted at any time; its name contains the revision of the documents that it belongs to.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import shutil
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from haystack import Document

from ap_ranker.errors import InputError, one_line
from ap_ranker.files import WriteError, atomic_directory, make_folder
from ap_ranker.ranking.bm25 import BM25

logger = logging.getLogger(__name__)

DATABASE, ROWS = "documents.sqlite", "rows.npy"
FORMAT_VERSION = 1
"""Version of the database and of the tokenization: a saved index must not outlive a change of either."""

_REVISION = re.compile("new|[0-9a-f]{16}")
_APPLICATION = 0x61705F72  # "ap_r": SQLite's header field for the application that owns a file
_WAIT = 60.0  # seconds that a write waits for another process, which may be building an index

_REMEDIES = {
    "SQLITE_READONLY_ROLLBACK": "An interrupted write must be undone: open it once where it may be written.",
    "SQLITE_READONLY": "Write from where its folder may be written, or name another path.",
    "SQLITE_FULL": "Make room there; the documents are as they were before.",
}
"""Prefixes of SQLite's error names, and what the user can do."""


@dataclass(frozen=True)
class Index:
    """BM25 over the N documents that have content, and the (N,) rows by which to `fetch` them."""

    bm25: BM25
    rows: Sequence[str] | np.ndarray


class MemoryDocuments:
    """Documents by id, in the order of writing, in memory. Every call but `close` needs a `transaction`."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._changes = 0

    def transaction(self, *, write: bool = False) -> AbstractContextManager[None]:
        """A context without writes by others; its own writes are kept if it ends without an error."""
        return nullcontext()  # the store checks everything before its first change, and no change here can fail

    def revision(self) -> str:
        """A text that differs after every change."""
        return str(self._changes)

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._documents

    def __iter__(self) -> Iterator[Document]:
        return iter(self._documents.values())

    def put(self, document: Document) -> None:
        """Write a document at the end, in place of an older one with the same id."""
        self.remove(document.id)
        self._documents[document.id] = document
        self._changes += 1

    def remove(self, document_id: str) -> None:
        """Delete the document with this id, if it exists."""
        if self._documents.pop(document_id, None) is not None:
            self._changes += 1

    def clear(self) -> None:
        """Delete all documents."""
        self._documents.clear()
        self._changes += 1

    def index(self, k1: float, b: float, language: str | None) -> Index:
        """The index of the current revision."""
        texts = {document.id: document.content for document in self if document.content is not None}
        return Index(BM25(texts.values(), k1=k1, b=b, language=language), list(texts))

    def fetch(self, rows: Iterable[Any]) -> list[Document]:
        """The documents of some of the index's rows."""
        return [self._documents[row] for row in rows]

    def close(self) -> None:
        """Close files until the next use."""


class FolderDocuments:
    """The same as `MemoryDocuments` for documents in a folder, which are read one by one on demand.

    Several processes may use a folder; a write waits until no other process is in a transaction.

    :raises InputError: (all methods) The folder contains something else, or is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connection: sqlite3.Connection | None = None
        self._warned = False

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[None]:
        try:
            with self._begin("IMMEDIATE" if write else "DEFERRED") as connection:
                before = connection.total_changes
                yield
                if connection.total_changes != before:
                    connection.execute("UPDATE state SET revision = ?", (secrets.token_hex(8),))
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")  # absent if Python raised it, as for text that is not UTF-8
            remedy = next((" " + text for prefix, text in _REMEDIES.items() if name.startswith(prefix)), "")
            raise InputError(
                f"{self.folder / DATABASE}: the documents cannot be read or written ({error}).{remedy}"
            ) from error

    def revision(self) -> str:
        revision = str(self._one("SELECT revision FROM state")[0])
        if not _REVISION.fullmatch(revision):  # it becomes part of a folder name
            raise InputError(f"{self.folder / DATABASE}: damaged: {one_line(repr(revision), 50)} is no revision.")
        return revision

    def __len__(self) -> int:
        return int(self._one("SELECT count(*) FROM documents")[0])

    def __contains__(self, document_id: object) -> bool:
        return bool(self._one("SELECT EXISTS (SELECT 1 FROM documents WHERE id = ?)", document_id)[0])

    def __iter__(self) -> Iterator[Document]:
        return map(self._document, self._open().execute("SELECT id, content, rest FROM documents ORDER BY row"))

    def put(self, document: Document) -> None:
        fields = document.to_dict(flatten=False)
        document_id, content = fields.pop("id"), fields.pop("content")
        try:
            values = (document_id, content, json.dumps(fields, ensure_ascii=False))
            self._open().execute("INSERT OR REPLACE INTO documents (id, content, rest) VALUES (?, ?, ?)", values)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"Document {document.id!r}: expected meta that JSON can hold, to write it into {self.folder}, found "
                f"{document.meta} ({error})."
            ) from error

    def remove(self, document_id: str) -> None:
        self._open().execute("DELETE FROM documents WHERE id = ?", (document_id,))

    def clear(self) -> None:
        self._open().execute("DELETE FROM documents")

    def index(self, k1: float, b: float, language: str | None) -> Index:
        revision = self.revision()
        folder = self.folder / "-".join(["index", revision, str(float(k1)), str(float(b)), *filter(None, [language])])
        if not folder.is_dir():
            rows = array("q")

            def texts() -> Iterator[str]:
                cursor = self._open().execute(
                    "SELECT row, content FROM documents WHERE content IS NOT NULL ORDER BY row"
                )
                for row, content in cursor:
                    rows.append(row)
                    yield self._text(content) or ""

            built = Index(BM25(texts(), k1=k1, b=b, language=language), np.array(rows))
            if built.bm25.wordless or not self._save(built, folder):
                return built
            self._remove_indexes_but_of(revision)
        return self._load(folder, language)

    def fetch(self, rows: Iterable[Any]) -> list[Document]:
        query = "SELECT id, content, rest FROM documents WHERE row = ? AND content IS NOT NULL"  # as in `index`
        return [self._document(self._one(query, int(row))) for row in rows]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        """The connection. The first call creates the database, or checks that it is ours."""
        if self._connection is None:
            self._check_folder()
            # One connection for all threads: the store's lock admits one at a time.
            self._connection = sqlite3.connect(
                self.folder / DATABASE, timeout=_WAIT, isolation_level=None, check_same_thread=False
            )
            try:
                if not self._one("SELECT count(*) FROM sqlite_master")[0]:
                    self._create()
                self._check_database()
            except BaseException:
                self.close()
                raise
        return self._connection

    def _check_folder(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: expected a folder, or nothing yet, found a file.")
        make_folder(self.folder)
        names = sorted(path.name for path in self.folder.iterdir())
        if names and DATABASE not in names:
            raise InputError(
                f"{self.folder}: expected a folder of a BM25SDocumentStore ({DATABASE}), or an empty one, found "
                f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}. Choose another path."
            )

    def _create(self) -> None:
        with self._begin("IMMEDIATE") as connection:
            if self._one("SELECT count(*) FROM sqlite_master")[0]:
                return  # another process was faster
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            connection.execute(
                "CREATE TABLE documents (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, content TEXT, rest TEXT)"
            )
            connection.execute("CREATE TABLE state (revision TEXT)")
            connection.execute("INSERT INTO state VALUES ('new')")

    def _check_database(self) -> None:
        file = self.folder / DATABASE
        if self._one("PRAGMA application_id")[0] != _APPLICATION:
            raise InputError(f"{file}: expected the documents of a BM25SDocumentStore, found another database.")
        version = self._one("PRAGMA user_version")[0]
        if version != FORMAT_VERSION:
            raise InputError(f"{file}: expected format version {FORMAT_VERSION}, found {version}. Update ap-ranker.")

    @contextmanager
    def _begin(self, kind: str) -> Iterator[sqlite3.Connection]:
        connection = self._open()
        connection.execute(f"BEGIN {kind}")
        try:
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.rollback()  # nothing is left to roll back after a commit

    def _one(self, query: str, *values: object) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._open().execute(query, values).fetchone()
        if row is None:
            raise InputError(f"{self.folder}: damaged: no answer to {query} with {values}.")
        return row

    def _document(self, fields: tuple[str, str | None, str]) -> Document:
        document_id, content, rest = fields
        try:
            return Document.from_dict({**json.loads(rest), "id": document_id, "content": self._text(content)})
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{self.folder / DATABASE}: document {one_line(repr(document_id), 80)} is damaged "
                f"({one_line(error, 200)})."
            ) from error

    def _text(self, content: object) -> str | None:
        """Check the type of the content: SQLite stores any type that another program writes."""
        if content is None or isinstance(content, str):
            return content
        raise InputError(
            f"{self.folder / DATABASE}: expected text as content, found {type(content).__name__}. Write it anew."
        )

    def _save(self, index: Index, folder: Path) -> bool:
        """Save an index and return whether that succeeded; without permission or space, it is used from memory."""
        try:
            with atomic_directory(folder) as draft:
                index.bm25.save(draft)
                np.save(draft / ROWS, index.rows, allow_pickle=False)
        except WriteError as error:
            if not self._warned:
                logger.warning("The index is kept in memory, and each process builds its own: %s", error)
            self._warned = True
            return False
        return True

    def _remove_indexes_but_of(self, revision: str) -> None:
        """Remove other indexes and the drafts of killed processes; another process may be writing this revision's."""
        for path in list(self.folder.iterdir()):
            if path.name.lstrip(".").startswith("index-") and f"index-{revision}-" not in path.name:
                shutil.rmtree(path, ignore_errors=True)

    def _load(self, folder: Path, language: str | None) -> Index:
        bm25 = BM25.load(folder, language)
        try:
            rows = np.load(folder / ROWS, mmap_mode="r", allow_pickle=False)
            if rows.dtype.kind != "i" or rows.shape != (len(bm25),) or (np.diff(rows) <= 0).any():
                raise ValueError(f"{rows.dtype} of shape {rows.shape} for {len(bm25)} texts, or not ascending")
        except Exception as error:  # numpy raises almost anything for a damaged header
            raise InputError(
                f"{folder / ROWS}: expected the rows of an index, found damaged ones ({one_line(error, 200)}). "
                f"Delete the folder {folder}; the next query builds the index again."
            ) from error
        return Index(bm25, rows)


Documents = MemoryDocuments | FolderDocuments
