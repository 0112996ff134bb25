"""Reads a FAQ or documents again when their files have changed."""

from __future__ import annotations

import logging
from pathlib import Path

from ap_ranker.data.changes import apply_changes, read_changes
from ap_ranker.data.faq import Entry, read_faq
from ap_ranker.documents import Reading, is_faq, log_reading, read_documents
from ap_ranker.documents.folder import LeftOut, find_files
from ap_ranker.errors import InputError
from ap_ranker.files import file_version

logger = logging.getLogger(__name__)

Version = dict[Path, tuple[int, ...]]
"""File -> what differs between two versions of it."""


class WatchedFolder:
    """A FAQ, a document or a folder that is read more than once.

    Args:
        path: the file or folder.
        columns: the names of its columns of questions and answers; by default they are recognized.
        changes: a file of the owner's changes, which are laid over what is read; `None` for none.

    Attributes:
        version: of the files, from before they were last read.
        unchanged: what was last read, without the owner's changes.
        entries: the same with them.
    """

    def __init__(self, path: Path, columns: tuple[str, str] | None = None, changes: Path | None = None) -> None:
        self.path = path
        self.changes = changes
        self.version: Version = {}
        self.unchanged: list[Entry] = []
        self.entries: list[Entry] = []
        self._columns = columns
        self._reading: Reading | None = None

    def look(self) -> Version:
        """The version of the files as they are now, which differs after every change."""
        files = find_files(self.path)[0] if self.path.is_dir() else [self.path]
        return {file: file_version(file) for file in (*files, *([self.changes] if self.changes else ()))}

    def read(self) -> list[Entry]:
        """The entries as they are now; of a folder, what was left out is logged.

        Files of a folder that have not changed are not read again, and one that cannot be read any more keeps what it
        was before.

        Raises:
            InputError: the file, or every file of the folder, or the file of changes cannot be read; `entries` stay as
                they are.
        """
        self.version = self.look()  # even if they cannot be read, so that the same error is not met again and again
        read = self._read()
        changed = read if self.changes is None else self._with_changes(read, self.changes)
        self.unchanged, self.entries = read, changed
        return self.entries

    def _read(self) -> list[Entry]:
        if is_faq(self.path):
            return read_faq(self.path, self._columns)
        known: set[LeftOut] = set(self._reading.left_out) if self._reading else set()
        self._reading = read_documents(self.path, self._columns, self._reading)
        log_reading(self.path, self._reading, known)
        return self._reading.entries

    def _with_changes(self, entries: list[Entry], changes: Path) -> list[Entry]:
        known = read_changes(changes)
        changed = [keyed.entry for keyed in apply_changes(entries, known).entries] if known else entries
        if not changed:
            raise InputError(f"{changes}: expected entries that are left, found that its changes delete all of them.")
        return changed
