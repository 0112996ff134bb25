"""Results of a function of a text that are kept, as the same texts come again, up to a number of characters.

`functools.lru_cache` counts results: a thousand of long answers would take gigabytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def keep(characters: int) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """Decorate a function of a text, so that its last results are kept: those of so many characters of texts.

    Threads may share it.
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
