"""Answers encoded once: the states of the texts used last, up to a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ap_ranker.ranking.packing import Packed, Precision, size

OVERHEAD = 512
"""Bytes that an entry costs beside its numbers: its key and its tensors' headers."""

KEY_BYTES = 16


def text_key(text: str) -> bytes:
    """What a text is known by: the same text has the same states, an edited one has not."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


@dataclass(frozen=True)
class CacheInfo:
    """How a cache has fared.

    Attributes:
        hits: texts that were found.
        misses: texts that had to be encoded.
        entries: texts that it holds.
        bytes: what they take.
    """

    hits: int
    misses: int
    entries: int
    bytes: int

    @property
    def hit_rate(self) -> float:
        """The share of texts that were found; 0 before the first."""
        return self.hits / max(self.hits + self.misses, 1)


class EncodingCache:
    """Packed states by text, of one checkpoint; the text not used for longest goes first. Safe under threads."""

    def __init__(self, max_bytes: int, precision: Precision = Precision.float32) -> None:
        self.max_bytes = max_bytes
        self.precision = precision
        self._entries: OrderedDict[bytes, Packed] = OrderedDict()
        self._bytes = self._hits = self._misses = 0
        self._lock = threading.Lock()

    def get(self, keys: Sequence[bytes]) -> list[Packed | None]:
        """The states of each text, `None` where they are not here."""
        with self._lock:
            found = [self._entries.get(key) for key in keys]
            for key, states in zip(keys, found, strict=True):
                if states is not None:
                    self._entries.move_to_end(key)
            hits = sum(states is not None for states in found)
            self._hits += hits
            self._misses += len(keys) - hits
        return found

    def put(self, keys: Sequence[bytes], states: Sequence[Packed]) -> None:
        """Keep the states of these texts, and forget others if there is no room."""
        with self._lock:
            for key, packed in zip(keys, states, strict=True):
                if key in self._entries:
                    continue
                self._entries[key] = packed
                self._bytes += size(packed) + OVERHEAD
            while self._bytes > self.max_bytes and self._entries:
                _, oldest = self._entries.popitem(last=False)
                self._bytes -= size(oldest) + OVERHEAD

    def info(self) -> CacheInfo:
        """Hits, misses, entries and bytes so far."""
        with self._lock:
            return CacheInfo(self._hits, self._misses, len(self._entries), self._bytes)
