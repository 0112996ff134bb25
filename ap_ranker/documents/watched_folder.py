"""Reads a FAQ, a document, or all documents of a folder again when their files have changed.

Files of wordings and of synonyms are read again by `ap_ranker.watched_file`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ap_ranker.data.faq import Entry, gone_entries, log_left_out, read_finished, why_kept
from ap_ranker.data.rows import LeftOut
from ap_ranker.documents import READING, Reading, is_faq, log_reading, read_documents
from ap_ranker.documents.folder import find_files
from ap_ranker.errors import InputError
from ap_ranker.files import file_version
from ap_ranker.progress import Progress, untold


class Version(NamedTuple):
    """What differs after every change of the files or the overlay."""

    files: dict[Path, tuple[int, ...]]  # file -> what differs between two versions of it
    overlay: Hashable


@dataclass(frozen=True)
class Overlay:
    """What is laid over the entries of a FAQ or of documents."""

    version: Callable[[], Hashable]  # what differs after every change of the overlay; raises InputError
    lay: Callable[[list[Entry]], list[Entry]]  # gives the entries that are searched; raises InputError


class WatchedFolder:
    """A FAQ, a document or a folder that is read more than once; `path` and `columns` are as for `read_documents`."""

    def __init__(self, path: Path, columns: tuple[str, str] | None = None, overlay: Overlay | None = None) -> None:
        self.path = path
        self._columns = columns
        self.overlay = overlay
        self.version = Version({}, None)  # of the files and the overlay, from before they were last read
        self.unchanged: list[Entry] = []  # what was last read, without the overlay
        self.entries: list[Entry] = []  # the same with it
        self.left_out: list[LeftOut] = []  # what could not be read of them, such as rows without an answer
        self._reading: Reading | None = None

    def look(self) -> Version:
        """The version of the files and the overlay as they are now; an overlay that cannot be read has not changed."""
        files = find_files(self.path)[0] if self.path.is_dir() else [self.path]
        try:
            overlay = self.overlay.version() if self.overlay else None
        except InputError:  # a look follows another; what is read again says why it cannot be
            overlay = self.version.overlay
        return Version({file: file_version(file) for file in files}, overlay)

    def read(self, on_progress: Progress = untold) -> list[Entry]:
        """The entries as they are now; of a folder, only changed files are read, and what is left out is logged.

        `entries` stay as they are if InputError is raised: the file, all of the folder, or the overlay cannot be read.
        """
        # An overlay that cannot be read now has no version; once it can be read, it has changed.
        self.version = self.version._replace(overlay=None)
        # Taken even if reading fails, so that the same error is not met again and again.
        self.version = self.look()
        if is_faq(self.path):
            on_progress(READING, 0, 1)
            read, left_out = self._read_faq()
            on_progress(READING, 1, 1)
            log_left_out(self.path, [left for left in left_out if left not in self.left_out])
        else:
            earlier = self._reading
            self._reading = read_documents(self.path, self._columns, self._reading, on_progress)
            logged_before = set(earlier.left_out) if earlier else ()
            log_reading(self.path, self._reading, logged_before)
            read = self._reading.entries
            left_out = self._reading.left_out
        self.left_out = left_out
        entries = self.laid(read)
        self.unchanged = read
        self.entries = entries
        return self.entries

    def laid(self, entries: list[Entry]) -> list[Entry]:
        """Entries with the overlay as it is now."""
        if self.overlay:
            return self.overlay.lay(entries)
        return entries

    def _read_faq(self) -> tuple[list[Entry], list[LeftOut]]:
        """The entries of a FAQ and its rows left out; those of before if too many are gone in one step."""
        read, left_out = read_finished(self.path, self._columns)
        if not gone_entries(self.unchanged, read):
            return read, left_out
        # The owner may have deleted them, and this version of the file says so, too (`owner changes --output`).
        gone = gone_entries(self.entries, self.laid(read))
        if not gone:
            return read, left_out
        return self.unchanged, [LeftOut(str(self.path), why_kept(gone, self.entries))]
