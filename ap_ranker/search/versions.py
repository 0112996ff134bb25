"""Earlier documents of a store in a folder, `versions/NUMBER.sqlite`: what `ap-ranker index` changes can be undone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file, make_folder
from haystack_integrations.document_stores.ap_ranker.folder_documents import DATABASE, FolderDocuments

KEPT = 5
"""Number of earlier versions that are kept."""

_STATE = "SELECT (SELECT count(*) FROM documents), revision FROM state"


class Version(NamedTuple):
    """An earlier version of a store's `documents` (their number), kept when they were about to change (`until`)."""

    number: int
    until: datetime
    documents: int
    revision: str
    path: Path


class VersionedDocuments(FolderDocuments):
    """A store's documents in a folder with their earlier versions; an `InputError` says which one is damaged."""

    def versions(self) -> list[Version]:
        """The earlier versions, oldest first."""
        versions = []
        for path in (self.folder / "versions").glob("*.sqlite"):
            if path.stem.isdecimal():
                with reading(path) as connection:
                    documents, revision = connection.execute(_STATE).fetchone()
                until = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
                versions.append(Version(int(path.stem), until, documents, revision, path))
        return sorted(versions)

    def keep_version(self, spared: Version | None = None) -> None:
        """
        Keep the documents as they are, unless there are none or the last version is the same.

        Of the versions before, the last ones stay, and the one that is spared.
        """
        with self.transaction():
            versions = self.versions()  # of a database that there is now
        with reading(self.folder / DATABASE) as connection:
            documents, revision = connection.execute(_STATE).fetchone()
            if not documents or (versions and versions[-1].revision == revision):
                return
            file = self.folder / "versions" / f"{versions[-1].number + 1 if versions else 1}.sqlite"
            make_folder(file.parent)
            with atomic_file(file) as draft, closing(sqlite3.connect(draft)) as copy:
                connection.backup(copy)  # meets no half of a write of another process
        for version in versions[: max(0, len(versions) + 1 - KEPT)]:
            if version != spared:
                version.path.unlink(missing_ok=True)

    def restore_version(self, number: int | None = None) -> Version:
        """Replace all documents by those of a version, in one step; keep those of now."""
        with self.transaction():
            versions, now = self.versions(), self.revision()
        found = [each for each in versions if (each.revision != now if number is None else each.number == number)]
        if not found:
            wanted = "an earlier version" if number is None else f"version {number}"
            numbers = ", ".join(str(each.number) for each in versions) or "none"
            raise InputError(f"{self.folder}: expected {wanted}, found {numbers}. The last {KEPT} are kept.")
        version = found[-1]
        self.keep_version(version)
        with reading(version.path) as earlier, self.transaction(write=True, revision=version.revision):
            self.clear()
            rows = earlier.execute("SELECT row, id, content, rest, embedding FROM documents")
            self._open().executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", rows)
        return version


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads a database; an `InputError` if it is damaged."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise InputError(f"{path}: expected documents of a store, found a damaged file ({error}).") from error
