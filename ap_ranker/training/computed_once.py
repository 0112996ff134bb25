"""Numbers that take minutes to compute: kept in the user's cache, so that the next run finds them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ap_ranker.files import WriteError, atomic_file, cache_folder, make_folder

logger = logging.getLogger(__name__)


def computed_once(kind: str, depends_on: object, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """What `compute` returns, or has returned in an earlier run.

    `kind` names a folder of the cache; `depends_on` is all that makes the numbers others, as its `repr` tells.
    """
    identity = repr(depends_on).encode("utf-8", "surrogatepass")
    name = hashlib.sha256(identity).hexdigest()
    path = cache_folder(kind) / f"{name}.safetensors"
    with suppress(OSError, SafetensorError, ValueError):
        [kept] = load_file(path).values()
        return kept
    computed = compute()
    try:
        make_folder(cache_folder(kind), private=True)  # hashes and numbers that texts could be guessed by
        with atomic_file(path, private=True) as draft:
            save_file({"values": computed}, draft)
    except WriteError as error:  # it only costs the time again
        logger.warning("%s", error)
    return computed
