# SPDX-License-Identifier: Apache-2.0
"""
A store's documents in a folder, which keeps them and their indexes between runs.

It contains one SQLite database, `documents.sqlite`, whose transactions make writes atomic, at most one index,
`index-REVISION-wordsVERSION-K1-B[-LANGUAGE]`, for each BM25 setting in use, and at most one of the embeddings,
`index-REVISION-vectors`. An index is built from the documents, so it may be deleted at any time; its name contains the
revision of the documents that it belongs to.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from haystack import Document, logging

from ap_ranker.data.exact_json import from_json, to_json
from ap_ranker.errors import InputError, library_errors, one_line
from ap_ranker.files import WriteError, atomic_directory, hash_of_files, make_folder
from ap_ranker.ranking.wordings import EMBEDDED_BY
from haystack_integrations.document_stores.ap_ranker.documents import Documents, Index, Kind, to_array

logger = logging.getLogger(__name__)

DATABASE = "documents.sqlite"
ROWS = "rows.npy"
DIGEST = "digest.txt"
FORMAT_VERSION = 1
_APPLICATION = 0x61705F72  # "ap_r": SQLite's header field for the application that owns a file
_WAIT = 60.0  # seconds that a write waits for another process, which may be building an index
_SOME = "WHERE row IN (SELECT value FROM json_each(?))"

_TYPES: dict[bytes, Any] = {b"f": np.dtype("<f4"), b"d": np.dtype("<f8")}
"""The first byte of a stored embedding, and the type of its numbers."""

_TABLES = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {FORMAT_VERSION};
CREATE TABLE documents
    (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, content TEXT, rest TEXT, embedding BLOB);
CREATE TABLE state (revision TEXT);
INSERT INTO state VALUES ('new')
"""
_COUNT_TABLES = "SELECT count(*) FROM sqlite_master"


class FolderDocuments(Documents):
    """
    The same in a folder, which is read on demand. Every method raises `InputError` if it is another or damaged.

    Several processes may use a folder; a write waits until no other process is in a transaction.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()  # the process may change its own
        self.place = str(self.folder / DATABASE)
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[None]:
        problem = f"{self.place}: the documents cannot be read or written"
        needed = "room and a folder that may be written; so does reading after a write that was interrupted."
        with library_errors(problem, (sqlite3.Error,), f" Writing needs {needed}"):
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                before = connection.total_changes
                yield
                if connection.total_changes != before:
                    connection.execute("UPDATE state SET revision = ?", (secrets.token_hex(8),))
                connection.execute("COMMIT")
            finally:
                connection.rollback()  # nothing is left to roll back after a commit

    def revision(self) -> str:
        revision = str(self._one("SELECT max(revision) FROM state"))
        if not revision.isalnum():  # it becomes part of a folder name
            raise InputError(f"{self.place}: damaged: {one_line(repr(revision), 50)} is no revision.")
        return revision

    def __len__(self) -> int:
        return int(self._one("SELECT count(*) FROM documents"))

    def __contains__(self, document_id: object) -> bool:
        return bool(self._one("SELECT EXISTS (SELECT 1 FROM documents WHERE id = ?)", document_id))

    def by_row(self) -> Iterator[tuple[int, Document]]:
        return self._select("ORDER BY row")

    def fetch(self, rows: Iterable[int]) -> dict[int, Document]:
        return dict(self._select(_SOME, json.dumps(list(rows))))

    def contents(self) -> Iterator[tuple[int, str]]:
        return self._open().execute("SELECT row, content FROM documents WHERE typeof(content) = 'text' ORDER BY row")

    def embeddings(self, rows: Iterable[int] | None = None) -> Iterator[tuple[int, str, np.ndarray]]:
        condition = "WHERE"
        values: tuple[str, ...] = ()
        if rows is not None:
            condition = f"{_SOME} AND"
            values = (json.dumps(list(rows)),)
        query = f"SELECT row, id, embedding FROM documents {condition} embedding IS NOT NULL ORDER BY row"
        for row, document_id, stored in self._open().execute(query, values):
            with self._reading(document_id):
                embedding = to_array(np.frombuffer(stored, _TYPES[bytes(stored[:1])], offset=1))
            yield row, document_id, embedding

    def rows_of(self, ids: Iterable[str]) -> list[int]:
        query = "SELECT row FROM documents WHERE id IN (SELECT value FROM json_each(?))"
        return [row for (row,) in self._open().execute(query, (json.dumps(list(ids)),))]

    def put(self, document: Document) -> None:
        values = (document.id, document.content, self._rest(document), _blob(document))
        self._open().execute("INSERT OR REPLACE INTO documents VALUES (NULL, ?, ?, ?, ?)", values)

    def update(self, row: int, document: Document) -> None:
        query = "UPDATE documents SET rest = ?, embedding = ? WHERE row = ?"
        self._open().execute(query, (self._rest(document), _blob(document), row))

    def remove(self, document_id: str) -> None:
        self._open().execute("DELETE FROM documents WHERE id = ?", (document_id,))

    def clear(self) -> None:
        self._open().execute("DELETE FROM documents")

    def not_embedded_by(self, origin: str) -> list[int]:
        query = "SELECT row FROM documents WHERE embedding IS NULL OR NOT instr(rest, ?) ORDER BY row"
        return [row for (row,) in self._open().execute(query, (f'"{EMBEDDED_BY}": "{origin}"',))]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        """The connection. The first call creates the database, or checks that it is ours."""
        if self._connection is None:
            self._check_folder()
            # One connection for all threads: the store's lock admits one at a time.
            self._connection = sqlite3.connect(self.place, timeout=_WAIT, isolation_level=None, check_same_thread=False)
            try:
                if not self._one(_COUNT_TABLES):
                    self._create()
                application = self._one("PRAGMA application_id")
                version = self._one("PRAGMA user_version")
                if (application, version) != (_APPLICATION, FORMAT_VERSION):
                    raise InputError(
                        f"{self.place}: expected a document store in format {FORMAT_VERSION}, found another database "
                        f"(application {application}, format {version}). Update ap-ranker, or choose another path."
                    )
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
            others = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise InputError(
                f"{self.folder}: expected {DATABASE}, or nothing yet, found {others}. Choose another path."
            )

    def _create(self) -> None:
        """Create the tables unless another process has just done the same."""
        with self.transaction(write=True):
            if not self._one(_COUNT_TABLES):
                for statement in _TABLES.split(";"):  # `executescript` would end the transaction
                    self._open().execute(statement)

    def _one(self, query: str, *values: object) -> Any:
        return self._open().execute(query, values).fetchone()[0]

    def _select(self, some: str, *values: object) -> Iterator[tuple[int, Document]]:
        query = f"SELECT row, id, content, rest FROM documents {some}"
        for row, document_id, content, rest in self._open().execute(query, values):
            with self._reading(document_id):
                if not isinstance(content, str | None):  # SQLite keeps any type that another program writes
                    raise TypeError(f"content of {type(content).__name__}")
                fields = {**from_json(rest), "id": document_id, "content": content, "embedding": None}
                document = Document.from_dict(fields)
            yield row, document

    @contextmanager
    def _reading(self, document_id: object) -> Iterator[None]:
        try:
            yield
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{self.place}: document {one_line(repr(document_id), 80)} is damaged ({one_line(repr(error), 200)})."
            ) from error

    def _rest(self, document: Document) -> str:
        """All of a document but its id, its content and its embedding."""
        try:
            fields = document.to_dict(flatten=False) | {"meta": document.meta}  # of whose objects it made dictionaries
            del fields["id"], fields["content"], fields["embedding"]
            return to_json(fields)
        except (TypeError, ValueError, RecursionError) as error:
            content = f"{one_line(repr(document.meta))} ({one_line(error)})"
            raise InputError(
                f"Document {document.id!r}: expected meta of plain values, found {content}, which {self.folder} cannot "
                "keep."
            ) from error

    def _kept(self, name: str, load: Callable[[Path], Kind], build: Callable[[], Index[Kind]]) -> Index[Kind]:
        """The index of this name and the current revision; built and saved unless it is there as it was saved."""
        revision = self.revision()
        folder = self.folder / f"index-{revision}-{name}"
        kept = _saved(folder, load)
        if kept is not None:
            return kept
        built = build()
        if built.scorer.is_empty:
            return built
        try:
            with atomic_directory(folder) as draft:
                built.scorer.save(draft)
                np.save(draft / ROWS, built.rows, allow_pickle=False)
                (draft / DIGEST).write_text(_digest(draft), encoding="ascii")
        except WriteError as error:  # without permission or room
            logger.warning("The index is kept in memory, and each process builds its own: {error}", error=error)
            return built
        # The drafts of killed processes go, too; another process may be writing an index of this revision.
        for path in list(self.folder.iterdir()):
            if path.name.lstrip(".").startswith("index-") and f"index-{revision}-" not in path.name:
                shutil.rmtree(path, ignore_errors=True)
        return _saved(folder, load, just_now=True) or built  # mapped into memory, which other processes share


def _saved(folder: Path, load: Callable[[Path], Kind], *, just_now: bool = False) -> Index[Kind] | None:
    """A saved index; `None` if it is not there, is damaged (unless saved `just_now`), or a library reads it no more."""
    try:
        if just_now or (folder / DIGEST).read_text(encoding="ascii") == _digest(folder):
            return Index(load(folder), np.load(folder / ROWS, mmap_mode="r", allow_pickle=False))
    except Exception as error:  # the libraries raise almost anything
        logger.debug("The index {folder} is built: {error}", folder=str(folder), error=repr(error))
    return None


def _digest(folder: Path) -> str:
    return hash_of_files(path for path in sorted(folder.iterdir()) if path.name != DIGEST)


def _blob(document: Document) -> bytes | None:
    """Exactly the numbers of the embedding, in as few bytes as they need."""
    if document.embedding is None:
        return None
    numbers = to_array(document.embedding)
    kind = numbers.dtype.char.encode()
    return kind + numbers.astype(_TYPES[kind]).tobytes()
