"""Storage of a store's documents: in memory, or in a folder that keeps them and their index between runs.

A folder contains one SQLite database, `documents.sqlite`, whose transactions make writes atomic, at most one index,
`index-REVISION-wordsVERSION-K1-B[-LANGUAGE]`, for each BM25 setting in use, and at most one of the embeddings,
`index-REVISION-vectors`. An index is built from the documents, so it may be deleted at any time; its name contains the
revision of the documents that it belongs to.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import shutil
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np
from haystack import Document
from haystack.document_stores.errors import DocumentStoreError

from ap_ranker.errors import InputError, one_line
from ap_ranker.files import WriteError, atomic_directory, make_folder
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.int8_vectors import EMBEDDED_BY, Vectors
from ap_ranker.text.reading import READING_VERSION
from haystack_integrations.document_stores.ap_ranker.embeddings import from_bytes, to_array, to_bytes
from haystack_integrations.document_stores.ap_ranker.versions import Version, reading

logger = logging.getLogger(__name__)

DATABASE, ROWS = "documents.sqlite", "rows.npy"
FORMAT_VERSION = 1
"""Version of the database."""

_REVISION = re.compile("new|[0-9a-f]{16}")
_APPLICATION = 0x61705F72  # "ap_r": SQLite's header field for the application that owns a file
_JSON_EMBEDDING = '"embedding": ['
"""What the JSON of a document contains if an earlier version wrote its embedding there."""

_COLUMNS = "PRAGMA table_info(documents)"
_WAIT = 60.0  # seconds that a write waits for another process, which may be building an index

_REMEDIES = {
    "SQLITE_READONLY_ROLLBACK": "An interrupted write must be undone: open it once where it may be written.",
    "SQLITE_READONLY": "Write from where its folder may be written, or name another path.",
    "SQLITE_FULL": "Make room there; the documents are as they were before.",
}
"""Prefixes of SQLite's error names, and what the user can do."""


class EmbeddingSizeError(InputError, DocumentStoreError):
    """Embeddings that cannot be compared; also the error that Haystack's in-memory store raises."""


Kind = TypeVar("Kind", BM25, Vectors)


@dataclass(frozen=True)
class Index(Generic[Kind]):
    """Something that scores N documents, and their (N,) rows, ascending, by which to `fetch` them."""

    scorer: Kind
    rows: np.ndarray


class MemoryDocuments:
    """Documents by id, in the order of writing, in memory. Every call but `close` needs a `transaction`.

    The number of a document's row stays while the document does; a new document has a higher one than all before.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._documents: dict[
            int, Document
        ] = {}  # without embeddings, which lists of floats would make ten times larger
        self._embeddings: dict[int, np.ndarray] = {}
        self._next = 0
        self._changes = 0

    def copy(self) -> Self:
        """The same documents in the same rows; what is written into one does not change the other."""
        copied = type(self)()
        copied._rows, copied._documents = dict(self._rows), dict(self._documents)
        copied._embeddings = dict(self._embeddings)
        copied._next, copied._changes = self._next, self._changes
        return copied

    def transaction(self, *, write: bool = False) -> AbstractContextManager[None]:
        """A context without writes by others; its own writes are kept if it ends without an error."""
        return nullcontext()  # the store checks everything before its first change, and no change here can fail

    def revision(self) -> str:
        """A text that differs after every change."""
        return str(self._changes)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._rows

    def read(self, keep: Callable[[Document], bool] = lambda document: True) -> Iterator[Document]:
        """The documents with their embeddings, except those that `keep`, which sees none, does not keep."""
        return (self._whole(row) for row, document in self._documents.items() if keep(document))

    def by_row(self) -> Iterator[tuple[int, Document]]:
        """The rows, ascending, and their documents, without embeddings, which the caller must not change."""
        return iter(self._documents.items())

    def put(self, document: Document) -> None:
        """Write a document at the end, in place of an older one with the same id."""
        self.remove(document.id)
        self._set(self._next, document)
        self._next += 1

    def update(self, row: int, document: Document) -> None:
        """Write another version of a document into its row."""
        self._set(row, document)

    def remove(self, document_id: str) -> None:
        """Delete the document with this id, if it exists."""
        row = self._rows.pop(document_id, None)
        if row is not None:
            del self._documents[row]
            self._embeddings.pop(row, None)
            self._changes += 1

    def clear(self) -> None:
        """Delete all documents."""
        for part in (self._rows, self._documents, self._embeddings):
            part.clear()
        self._changes += 1

    def index(self, k1: float, b: float, language: str | None) -> Index[BM25]:
        """The BM25 index of the current revision, of the documents that have content."""
        texts = {row: document.content for row, document in self._documents.items() if document.content is not None}
        return Index(BM25(texts.values(), k1=k1, b=b, language=language), np.array(list(texts), np.int64))

    def vectors(self) -> Index[Vectors]:
        """The embeddings of the current revision, of the documents that have one.

        :raises EmbeddingSizeError: They differ in size.
        """
        embeddings = ((row, self._documents[row].id, self._embeddings[row]) for row in sorted(self._embeddings))
        return _vectors(embeddings, "the documents in memory")

    def not_embedded_by(self, origin: str) -> list[int]:
        """The rows of the documents without an embedding of this origin."""
        return [
            row
            for row, document in self._documents.items()
            if row not in self._embeddings or document.meta.get(EMBEDDED_BY) != origin
        ]

    def existing(self, rows: Iterable[int]) -> dict[int, Document]:
        """The documents of those rows that there still are, without their embeddings."""
        return {row: self._documents[row] for row in rows if row in self._documents}

    def fetch(self, rows: Iterable[Any], *, content: bool = False, embedding: bool = False) -> list[Document]:
        """The documents of some of an index's rows, which the caller must not change.

        :param rows: The rows; at most some hundred.
        :param content: Whether each must have content, because the index is that of the content.
        :param embedding: Whether to read the embeddings, too.
        """
        return [self._whole(row) if embedding else self._documents[row] for row in map(int, rows)]

    def close(self) -> None:
        """Close files until the next use."""

    def _set(self, row: int, document: Document) -> None:
        self._rows[document.id] = row
        self._documents[row] = replace(document, embedding=None)
        self._embeddings.pop(row, None)
        if document.embedding is not None:
            self._embeddings[row] = to_array(document.embedding)
        self._changes += 1

    def _whole(self, row: int) -> Document:
        embedding = self._embeddings.get(row)
        document = self._documents[row]
        return document if embedding is None else replace(document, embedding=embedding.tolist())


class FolderDocuments:
    """The same as `MemoryDocuments` for documents in a folder, which are read one by one on demand.

    Several processes may use a folder; a write waits until no other process is in a transaction.

    :raises InputError: (all methods) The folder contains something else, or is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connection: sqlite3.Connection | None = None
        self._warned = False
        self._has_embeddings = False

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[None]:
        try:
            with self._begin("IMMEDIATE" if write else "DEFERRED") as connection:
                self._find_embeddings(connection, write=write)
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

    def read(self, keep: Callable[[Document], bool] = lambda document: True) -> Iterator[Document]:
        for *fields, embedding in self._open().execute(f"SELECT {self._columns} FROM documents ORDER BY row"):
            document = self._document(fields)
            if keep(document):
                yield self._with_embedding(document, fields[2], embedding)

    def by_row(self) -> Iterator[tuple[int, Document]]:
        for row, *fields in self._open().execute("SELECT row, id, content, rest FROM documents ORDER BY row"):
            yield row, self._document(fields)

    def put(self, document: Document) -> None:
        values = (document.id, document.content, self._rest(document), self._blob(document))
        query = "INSERT OR REPLACE INTO documents (id, content, rest, embedding) VALUES (?, ?, ?, ?)"
        self._open().execute(query, values)

    def update(self, row: int, document: Document) -> None:
        query = "UPDATE documents SET rest = ?, embedding = ? WHERE row = ?"
        self._open().execute(query, (self._rest(document), self._blob(document), row))

    def remove(self, document_id: str) -> None:
        self._open().execute("DELETE FROM documents WHERE id = ?", (document_id,))

    def clear(self) -> None:
        self._open().execute("DELETE FROM documents")

    def index(self, k1: float, b: float, language: str | None) -> Index[BM25]:
        def build() -> Index[BM25]:
            rows = array("q")

            def texts() -> Iterator[str]:
                cursor = self._open().execute(
                    "SELECT row, content FROM documents WHERE content IS NOT NULL ORDER BY row"
                )
                for row, content in cursor:
                    rows.append(row)
                    yield self._text(content) or ""

            return Index(BM25(texts(), k1=k1, b=b, language=language), np.array(rows))

        name = "-".join([f"words{READING_VERSION}", str(float(k1)), str(float(b)), *filter(None, [language])])
        return self._load_or_build(name, lambda folder: BM25.load(folder, language), build)

    def vectors(self) -> Index[Vectors]:
        def build() -> Index[Vectors]:
            # An earlier version wrote embeddings as JSON.
            cursor = self._open().execute(
                f"SELECT row, id, {self._embedding}, CASE WHEN {self._embedding} IS NULL THEN rest END FROM documents "
                f"WHERE {self._embedding} IS NOT NULL OR instr(rest, ?) ORDER BY row",
                (_JSON_EMBEDDING,),
            )
            embeddings = (
                (row, document_id, embedding)
                for row, document_id, blob, rest in cursor
                if (embedding := self._stored_embedding(document_id, blob, rest)) is not None
            )
            return _vectors(embeddings, str(self.folder / DATABASE))

        return self._load_or_build("vectors", Vectors.load, build)

    def not_embedded_by(self, origin: str) -> list[int]:
        query = (
            f"SELECT row FROM documents WHERE NOT instr(rest, ?) OR ({self._embedding} IS NULL AND NOT instr(rest, ?)) "
            "ORDER BY row"
        )
        return [row for (row,) in self._open().execute(query, (f'"{EMBEDDED_BY}": "{origin}"', _JSON_EMBEDDING))]

    def existing(self, rows: Iterable[int]) -> dict[int, Document]:
        query = "SELECT id, content, rest FROM documents WHERE row = ?"
        stored = {row: self._open().execute(query, (row,)).fetchone() for row in rows}
        return {row: self._document(fields) for row, fields in stored.items() if fields is not None}

    def fetch(self, rows: Iterable[Any], *, content: bool = False, embedding: bool = False) -> list[Document]:
        numbers = list(map(int, rows))
        columns = self._columns if embedding else "id, content, rest"
        query = f"SELECT row, {columns} FROM documents WHERE row IN ({', '.join('?' * len(numbers))})"
        found = {row: fields for row, *fields in self._open().execute(query, numbers)}
        documents = []
        for row in numbers:
            fields = found.get(row)
            if fields is None or (content and fields[1] is None):
                raise InputError(
                    f"{self.folder}: damaged: the index has a document of row {row}, the database has not."
                )
            document = self._document(fields[:3])
            documents.append(self._with_embedding(document, *fields[2:]) if embedding else document)
        return documents

    def restore(self, version: Version) -> None:
        """Replace all documents by those of an earlier version, in one step."""
        with reading(version.path) as earlier, self._begin("IMMEDIATE") as connection:
            connection.execute("DELETE FROM documents")
            rows = earlier.execute("SELECT row, id, content, rest, embedding FROM documents")
            connection.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", rows)
            connection.execute("UPDATE state SET revision = ?", (version.revision,))

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
                "CREATE TABLE documents "
                "(row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, content TEXT, rest TEXT, embedding BLOB)"
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

    @property
    def _embedding(self) -> str:
        """The embedding in a query; NULL in a folder of an earlier version that nothing was written into since."""
        return "embedding" if self._has_embeddings else "NULL"

    @property
    def _columns(self) -> str:
        return f"id, content, rest, {self._embedding}"

    def _find_embeddings(self, connection: sqlite3.Connection, *, write: bool) -> None:
        # Each time: another process may have added the column, or a failed write of ours may have undone that.
        self._has_embeddings = any(name == "embedding" for _, name, *_ in connection.execute(_COLUMNS))
        if write and not self._has_embeddings:
            connection.execute("ALTER TABLE documents ADD COLUMN embedding BLOB")
            self._has_embeddings = True

    def _document(self, fields: Sequence[Any]) -> Document:
        """The document of an id, a content and the rest, without its embedding."""
        document_id, content, rest = fields
        try:
            known = {**json.loads(rest), "id": document_id, "content": self._text(content), "embedding": None}
            return Document.from_dict(known)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(document_id, error) from error

    def _with_embedding(self, document: Document, rest: str, blob: bytes | None) -> Document:
        embedding = self._stored_embedding(document.id, blob, rest)
        return document if embedding is None else replace(document, embedding=embedding.tolist())

    def _stored_embedding(self, document_id: str, blob: bytes | None, rest: str | None) -> np.ndarray | None:
        """The embedding of the column or, as an earlier version wrote it, of the rest."""
        try:
            embedding = json.loads(rest or "{}").get("embedding") if blob is None else from_bytes(blob)
            return None if embedding is None else to_array(embedding)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(document_id, error) from error

    def _damaged(self, document_id: object, error: Exception) -> InputError:
        return InputError(
            f"{self.folder / DATABASE}: document {one_line(repr(document_id), 80)} is damaged ({one_line(error, 200)})."
        )

    def _rest(self, document: Document) -> str:
        """All of a document but its id, its content and its embedding."""
        fields = document.to_dict(flatten=False)
        for name in ("id", "content", "embedding"):
            del fields[name]
        try:
            return json.dumps(fields, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"Document {document.id!r}: expected meta that JSON can hold, to write it into {self.folder}, found "
                f"{document.meta} ({error})."
            ) from error

    def _blob(self, document: Document) -> bytes | None:
        return None if document.embedding is None else to_bytes(to_array(document.embedding))

    def _text(self, content: object) -> str | None:
        """Check the type of the content: SQLite stores any type that another program writes."""
        if content is None or isinstance(content, str):
            return content
        raise InputError(
            f"{self.folder / DATABASE}: expected text as content, found {type(content).__name__}. Write it anew."
        )

    def _load_or_build(self, name: str, load: Callable[[Path], Kind], build: Callable[[], Index[Kind]]) -> Index[Kind]:
        """The index of this name and the current revision; built and saved if it is not there."""
        revision = self.revision()
        folder = self.folder / f"index-{revision}-{name}"
        if not folder.is_dir():
            built = build()
            if built.scorer.is_empty or not self._save(built, folder):
                return built
            self._remove_indexes_but_of(revision)
        scorer = load(folder)
        return Index(scorer, self._load_rows(folder, len(scorer)))

    def _save(self, index: Index[Any], folder: Path) -> bool:
        """Save an index and return whether that succeeded; without permission or space, it is used from memory."""
        try:
            with atomic_directory(folder) as draft:
                index.scorer.save(draft)
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

    def _load_rows(self, folder: Path, size: int) -> np.ndarray:
        try:
            rows = np.load(folder / ROWS, mmap_mode="r", allow_pickle=False)
            if rows.dtype.kind != "i" or rows.shape != (size,) or (np.diff(rows) <= 0).any():
                raise ValueError(f"{rows.dtype} of shape {rows.shape} for {size} texts, or not ascending")
        except Exception as error:  # numpy raises almost anything for a damaged header
            raise InputError(
                f"{folder / ROWS}: expected the rows of an index, found damaged ones ({one_line(error, 200)}). "
                f"Delete the folder {folder}; the next query builds the index again."
            ) from error
        return rows


def _vectors(embeddings: Iterable[tuple[int, str, np.ndarray]], place: str) -> Index[Vectors]:
    """The index of rows with their documents' ids and embeddings; an empty embedding counts as none."""
    rows = array("q")
    first: tuple[str, int] | None = None

    def checked() -> Iterator[np.ndarray]:
        nonlocal first
        for row, document_id, embedding in embeddings:
            if not len(embedding):
                continue
            first = first or (document_id, len(embedding))
            if len(embedding) != first[1]:
                raise EmbeddingSizeError(
                    f"{place}: expected embeddings of one size, found {first[1]} numbers in document {first[0]!r} and "
                    f"{len(embedding)} in {document_id!r}. Embed all documents with the same model."
                )
            rows.append(row)
            yield embedding

    return Index(Vectors.of(checked()), np.array(rows, np.int64))


Documents = MemoryDocuments | FolderDocuments
