"""The states of texts by frozen layers, computed once: in half precision, in the user's cache for the next run.

A shard is a safetensors file of some hundred texts, memory-mapped: a tensor (T, H) by the hash of a text's token ids.
A run that is killed loses its last shard; shards are never changed, so that several processes may write at once.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.files import WriteError, atomic_file, cache_folder

logger = logging.getLogger(__name__)

KIND = "encoder-states"  # the folder in the cache

MOST_BYTES = 8 * 10**9
"""Of all states that are kept; 130 tokens of 384 numbers are 100 KB. The shards written first are removed."""

SHARD_BYTES = 32 * 10**6
"""What a run keeps in memory before it writes."""


class FrozenStates:
    """The states of texts by layers with these weights, whose `reading` tells how they compute."""

    def __init__(self, weights: Iterable[Tensor], reading: str) -> None:
        digest = hashlib.sha256(reading.encode())
        for weight in weights:
            digest.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        self._folder = cache_folder(KIND) / digest.hexdigest()[:32]
        self._new: dict[str, Tensor] = {}
        self._new_bytes = 0
        self._shards: dict[str, safe_open] = {}
        for path in _oldest_first(self._folder):
            try:
                shard = safe_open(path, "pt")
                self._shards |= dict.fromkeys(shard.keys(), shard)
            except (OSError, SafetensorError):  # damaged, or removed by another process: its texts are read again
                path.unlink(missing_ok=True)

    def find(self, text: bytes) -> Tensor | None:
        """(T, H) in float16; `None` if the text, given by its token ids, has not been read."""
        key = _key(text)
        if (new := self._new.get(key)) is not None:
            return new
        shard = self._shards.get(key)
        return None if shard is None else shard.get_tensor(key)

    def add(self, text: bytes, states: Tensor) -> None:
        """Keep the (T, H) states of a text."""
        kept = states.half().cpu().contiguous()
        self._new[_key(text)] = kept
        self._new_bytes += kept.nbytes
        if self._new_bytes >= SHARD_BYTES:
            self.write()

    def write(self) -> None:
        """Write what is new; on a full disk, it is kept in memory instead."""
        if not self._new:
            return
        path = self._folder / f"{uuid.uuid4().hex}.safetensors"
        try:
            with atomic_file(path) as draft:
                save_file(self._new, draft)
            shard = safe_open(path, "pt")
        except (InputError, OSError, WriteError, SafetensorError) as error:  # it only costs the time again
            logger.warning("%s", error)
            self._new_bytes = 0
            return
        self._shards |= dict.fromkeys(self._new, shard)
        self._new, self._new_bytes = {}, 0
        files = _oldest_first(cache_folder(KIND))
        size = sum(file.stat().st_size for file in files)
        for file in files[:-1]:
            if size <= MOST_BYTES:
                break
            size -= file.stat().st_size
            file.unlink(missing_ok=True)  # a process that has mapped it goes on reading


def _key(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _oldest_first(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"), key=lambda path: path.stat().st_mtime)
