"""The states of texts by frozen layers, computed once: in half precision, in the user's cache for the next run.

A shard is a safetensors file of the texts that were read together, memory-mapped: a tensor (T, H) by the hash of each
text's token ids. Shards are never changed, so that several processes may write at once.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ap_ranker.files import WriteError, atomic_file, cache_folder

logger = logging.getLogger(__name__)

KIND = "encoder-states"  # the folder in the cache

MOST_BYTES = 8 * 10**9
"""Of all states when a run begins; 130 tokens of 384 numbers are 100 KB. The shards written first are removed."""


class FrozenStates:
    """The states of texts by layers with these weights; `reading` tells how they compute."""

    def __init__(self, weights: Iterable[Tensor], reading: str) -> None:
        digest = hashlib.sha256(reading.encode())
        for weight in weights:
            digest.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        self._folder = cache_folder(KIND) / digest.hexdigest()[:32]
        self._shards: dict[str, Any] = {}  # of each text; or its states in memory, if they could not be written
        room = MOST_BYTES
        for path in sorted(cache_folder(KIND).rglob("*.safetensors"), key=lambda path: -path.stat().st_mtime):
            try:
                room -= path.stat().st_size
                if room < 0:
                    path.unlink()  # a process that has mapped it goes on reading
                elif path.parent == self._folder:
                    shard = safe_open(path, "pt")
                    self._shards |= dict.fromkeys(shard.keys(), shard)
            except (OSError, SafetensorError):  # damaged, or removed by another process: its texts are read again
                path.unlink(missing_ok=True)

    def find(self, text: bytes) -> Tensor | None:
        """(T, H) in float16; `None` if the text, given by its token ids, has not been read."""
        kept = self._shards.get(_key(text))
        return kept if kept is None or isinstance(kept, Tensor) else kept.get_tensor(_key(text))

    def add(self, states: Mapping[bytes, Tensor]) -> None:
        """Keep the (T, H) states of texts: on disk, or on a full one in memory."""
        kept = {_key(text): each.half().cpu().contiguous() for text, each in states.items()}
        path = self._folder / f"{uuid.uuid4().hex}.safetensors"
        try:
            with atomic_file(path) as draft:
                save_file(kept, draft)
            self._shards |= dict.fromkeys(kept, safe_open(path, "pt"))
        except (OSError, WriteError, SafetensorError) as error:  # it only costs the time again
            logger.warning("%s", error)
            self._shards |= kept


def _key(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16).hexdigest()
