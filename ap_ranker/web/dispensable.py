"""What a visitor's request can do without: it goes on if the database does not answer soon."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from ap_ranker.errors import InputError
from ap_ranker.threads import in_daemon_thread

logger = logging.getLogger(__name__)

T = TypeVar("T")

BRIEF_SECONDS = 1.0
"""Maximum number of seconds that a visitor waits for what a request can do without."""


class Dispensable:
    """Asks a database, or `what`, in threads of its own what a visitor's request can do without. Threads may share it.

    If the answer fails or takes longer than `BRIEF_SECONDS`, the request goes on, and a warning says so once until it
    works again. A server of PostgreSQL may hang for ever: nothing is asked while an earlier answer is overdue, and the
    process can end.
    """

    def __init__(self, consequence: str, what: str = "The database") -> None:
        self._consequence = consequence
        self._what = what
        self._overdue: Future[Any] | None = None
        self._warned = False

    def ask(self, work: Callable[..., T], *arguments: Any) -> T | None:
        """What `work` returns; `None` if it raises InputError or is overdue."""
        if self._overdue is not None and not self._overdue.done():
            return None
        future = in_daemon_thread(work, *arguments)
        try:
            result = future.result(BRIEF_SECONDS)
        except TimeoutError:
            self._overdue = future
            reason: object = f"{self._what} has not answered within {BRIEF_SECONDS:g} seconds."
        except InputError as error:
            reason = error
        else:
            self._warned = False
            return result
        if not self._warned:
            self._warned = True
            logger.warning("%s %s This warning is not repeated.", self._consequence, reason)
        return None
