"""A file that is read again when it has changed: one of wordings or of synonyms.

FAQs and documents are read again by `ap_ranker.documents.watched_folder`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from ap_ranker.errors import InputError
from ap_ranker.files import file_version

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Watched(Generic[T]):
    """The content of a file as it is now. Threads may share it.

    The first time, an InputError is what `read` raises; later, while a file is being edited, the last content that
    could be read counts, and a warning says so once for each version.
    """

    def __init__(self, path: str | Path, read: Callable[[Path], T]) -> None:
        self.path = Path(path)
        self._read = read
        self._lock = threading.Lock()
        # Taken before reading, so that a change meanwhile is seen by the next look.
        self._version = file_version(self.path)
        self._content = read(self.path)

    def now(self) -> T:
        """The content, read again if the file has changed."""
        with self._lock:
            version = file_version(self.path)
            if version != self._version:
                self._version = version
                try:
                    self._content = self._read(self.path)
                except InputError as error:
                    logger.warning("%s: what was read before still counts: %s", self.path, error)
            return self._content
