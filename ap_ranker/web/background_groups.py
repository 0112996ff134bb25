"""Groups questions beside the search, in a thread of its own, and says at once what is grouped so far."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from ap_ranker.web.grouping import Gap

logger = logging.getLogger(__name__)

PATIENCE = 0.5
"""Seconds that a request waits for new groups; if they take longer, it gets those that are there."""

LONGEST_PAUSE = 0.5


def pause(seconds: float) -> None:
    """Leave the processor to the search for as long as the last piece of work took."""
    time.sleep(min(seconds, LONGEST_PAUSE))


class BackgroundGroups:
    """The latest groups of a thread that works while there is something new. Threads may share it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._groups: list[Gap] = []
        self._version: object = None  # of the questions that are grouped
        self._error: Exception | None = None
        self._is_working = False

    def latest(self, version: object, work: Callable[[], Iterable[list[Gap]]]) -> tuple[list[Gap], bool]:
        """The groups that are there, and whether better ones are on their way.

        For a new `version` of the questions, `work` begins in the thread: it yields groups that become more complete.
        One at a time; a version that is new meanwhile waits for the next call. What `work` raises is raised here, once.
        """
        with self._changed:
            if not self._is_working and version != self._version:
                self._is_working = True
                threading.Thread(target=self._work, args=(version, work), name="gaps", daemon=True).start()
            self._changed.wait_for(lambda: not self._is_working, PATIENCE)
            error, self._error = self._error, None
            if error is not None:
                raise error
            return self._groups, version != self._version

    def _work(self, version: object, work: Callable[[], Iterable[list[Gap]]]) -> None:
        error = None
        try:
            for groups in work():
                with self._changed:
                    self._groups = groups
        except Exception as raised:
            logger.debug("Questions were not grouped.", exc_info=True)
            error = raised
        with self._changed:
            self._version, self._error = None if error else version, error
            self._is_working = False
            self._changed.notify_all()
