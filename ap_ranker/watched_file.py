"""A file that is read again when it has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from ap_ranker.errors import InputError
from ap_ranker.files import file_version
from ap_ranker.kept_results import Latest

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
        self._contents: Latest[T] = Latest()
        # The version is that of before it is read, so that a change meanwhile is seen by the next look.
        self._readable = self._contents.get(file_version(self.path), partial(read, self.path))

    def now(self) -> T:
        """The content, read again if the file has changed."""
        return self._contents.get(file_version(self.path), self._read_again)

    def _read_again(self) -> T:
        try:
            self._readable = self._read(self.path)
        except InputError as error:
            logger.warning("%s: what was read before still counts: %s", self.path, error)
        return self._readable
