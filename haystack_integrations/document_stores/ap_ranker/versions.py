"""Earlier versions of a store's folder, so that a wrong change can be taken back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file, make_folder

KEPT = 5
"""Number of earlier versions that are kept."""

_STATE = "SELECT (SELECT count(*) FROM documents), revision FROM state"


@dataclass(frozen=True)
class Version:
    """An earlier version of a store's documents.

    Attributes:
        number: counts up from 1.
        until: when it was kept, because it was about to change.
        documents: number of documents.
        revision: of the documents.
        path: its database.
    """

    number: int
    until: datetime
    documents: int
    revision: str
    path: Path


def list_versions(folder: Path) -> list[Version]:
    """The versions of a store's folder, oldest first; an `InputError` if one is damaged."""
    versions = []
    for path in (folder / "versions").glob("*.sqlite"):
        if path.stem.isdecimal():
            with reading(path) as connection:
                documents, revision = connection.execute(_STATE).fetchone()
            until = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
            versions.append(Version(int(path.stem), until, documents, revision, path))
    return sorted(versions, key=lambda version: version.number)


def keep_version(folder: Path, database: Path, spared: Version | None = None) -> None:
    """Keep the documents of a folder's database, unless there are none or the last version is the same.

    Of the versions before, the last ones stay, and the one that is spared. Raises `InputError` if one is damaged.
    """
    versions = list_versions(folder)
    with reading(database) as connection:
        documents, revision = connection.execute(_STATE).fetchone()
        if not documents or (versions and versions[-1].revision == revision):
            return
        file = folder / "versions" / f"{versions[-1].number + 1 if versions else 1}.sqlite"
        make_folder(file.parent)
        with atomic_file(file) as draft, closing(sqlite3.connect(draft)) as copy:
            connection.backup(copy)  # meets no half of a write of another process
    for version in versions[: max(0, len(versions) + 1 - KEPT)]:
        if version != spared:
            version.path.unlink(missing_ok=True)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads a database; an `InputError` if it is damaged."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise InputError(
            f"{path}: expected documents of a BM25SDocumentStore, found a damaged file ({error})."
        ) from error
