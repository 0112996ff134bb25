"""Results that are kept: of a function of texts that come again, and the latest one until its sources change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def keep(characters: int) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """Decorate a function of a text, so that its last results are kept: those of so many characters of texts.

    `functools.lru_cache` counts results: a thousand of long answers would take gigabytes. Threads may share it.
    """

    def decorated(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
        results: OrderedDict[tuple[object, ...], R] = OrderedDict()
        lock = threading.Lock()
        size = 0

        @wraps(function)
        def kept(text: str, *args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal size
            key = (text, *args, *kwargs.items())
            with lock:
                if key in results:
                    results.move_to_end(key)
                    return results[key]
            result = function(text, *args, **kwargs)
            with lock:
                if key not in results and len(text) <= characters:
                    results[key] = result
                    size += len(text)
                while size > characters:
                    oldest, _ = results.popitem(last=False)
                    size -= len(str(oldest[0]))
            return result

        return kept

    return decorated


class Latest(Generic[T]):
    """What was last made of some sources; it is made anew when they have changed.

    Threads may share it: one at a time makes it, and the others wait for what it makes.
    """

    def __init__(self) -> None:
        self._kept: tuple[object, T] | None = None  # the sources, and what was made of them
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy begins without it."""
        return Latest, ()

    def get(self, sources: object, make: Callable[[], T]) -> T:
        """What `make` returned the last time, if the sources are equal (`==`) to those of then; or what it returns now.

        Nothing is kept if `make` raises. In a tuple or a list, the same object counts as equal without a comparison.
        """
        with self._lock:
            if self._kept is None or self._kept[0] != sources:
                self._kept = None  # frees its memory before the new one needs it
                self._kept = (sources, make())
            return self._kept[1]

    def forget(self) -> None:
        """Make it anew the next time, whatever its sources."""
        with self._lock:
            self._kept = None
