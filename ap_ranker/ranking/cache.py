"""An LRU cache of encoded texts, limited by a number of bytes."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.models.base import States, StoredStates
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype

PAGE = 8
"""Tokens per page. As in the virtual memory of an operating system, a text occupies whole pages that need not be
adjacent: nothing is ever moved to make room, and one gather makes a padded batch of any texts."""

OVERHEAD = 256
"""Bytes of an entry in addition to its states and its text."""


@dataclass(frozen=True)
class CacheInfo:
    """Statistics of a cache.

    Attributes:
        hits: number of texts that were in the cache.
        misses: number of texts that had to be encoded.
        entries: number of cached texts.
        bytes: their size.
    """

    hits: int
    misses: int
    entries: int
    bytes: int

    @property
    def hit_rate(self) -> float:
        """The share of requested texts that were in the cache; 0 before the first request."""
        return self.hits / max(self.hits + self.misses, 1)


@dataclass(frozen=True)
class _Entry:
    """The location of a text's states: one row of the states per text, and some pages of the states per token."""

    row: int
    pages: np.ndarray
    length: int
    bytes: int


class EncodingCache:
    """States of one checkpoint by text, on its device; the least recently used text is evicted first.

    The cache is thread-safe: states are copied when they are read, and a text has an entry only once its states are
    written.

    Attributes:
        max_bytes: maximum size of states, texts and entries together.
        dtype: data type to which all states are converted; `None`: the ranker's, which sets it (`Ranker.state_dtype`).
    """

    def __init__(self, max_bytes: int, dtype: StateDtype | None = None) -> None:
        if max_bytes < 0:
            raise InputError(f"Expected a cache of 0 bytes or more, found {max_bytes}.")
        self.max_bytes = max_bytes
        self.dtype = dtype
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._rows, self._pages = _Table(), _Table()
        self._bytes = self._hits = self._misses = 0
        self._claims: dict[str, threading.Event] = {}  # texts that a thread is encoding -> set when it is done
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy begins empty, with the same limit and dtype."""
        return EncodingCache, (self.max_bytes, self.dtype)

    @property
    def _dtype(self) -> StateDtype:
        return self.dtype or StateDtype.float32

    def count(self, texts: Sequence[str]) -> int:
        """The number of texts that are in the cache; unlike `lengths`, this does not count as a use."""
        with self._lock:
            return sum(text in self._entries for text in texts)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text; 0 if it is not in the cache."""
        lengths = []
        with self._lock:
            for text in texts:
                entry = self._entries.get(text)
                if entry is None:
                    lengths.append(0)
                else:
                    self._entries.move_to_end(text)
                    lengths.append(entry.length)
            missing = lengths.count(0)
            self._misses += missing
            self._hits += len(texts) - missing
        return lengths

    @property
    def dtypes(self) -> dict[str, torch.dtype]:
        """The dtypes of the states per token by name; empty before the first text."""
        with self._lock:
            return self._pages.dtypes

    def stored(self, texts: Sequence[str]) -> tuple[list[int], StoredStates | None]:
        """The states of those of the texts that are in the cache, as they are stored, and the indices of these texts.

        They are hits; the others do not count as misses yet.
        """
        with self._lock:
            known = {index: entry for index, text in enumerate(texts) if (entry := self._entries.get(text)) is not None}
            for index in known:
                self._entries.move_to_end(texts[index])
            self._hits += len(known)
            if not known:
                return [], None
            entries = list(known.values())
            per_text = self._rows.read(np.array([entry.row for entry in entries]))
            tokens = self._pages.read(np.concatenate([entry.pages for entry in entries]))
        rows = np.cumsum([0, *(len(entry.pages) * PAGE for entry in entries)])
        lengths = np.array([entry.length for entry in entries])
        per_token = {name: value.flatten(0, 1) for name, value in tokens.items()}
        return list(known), StoredStates(rows[:-1], lengths, per_token, per_text)

    def states(self, texts: Sequence[str]) -> QuantizedStates | None:
        """The states of the texts; `None` if one of them is not, or no longer, in the cache."""
        with self._lock:
            entries = [self._entries.get(text) for text in texts]
            known = [entry for entry in entries if entry is not None]
            if len(known) < len(entries):
                return None
            per_text = self._rows.read(np.array([entry.row for entry in known]))
            counts = np.array([len(entry.pages) for entry in known])
            pages = np.zeros((len(known), counts.max()), np.int64)  # page 0 is empty: padding
            pages[np.arange(pages.shape[1]) < counts[:, None]] = np.concatenate([entry.pages for entry in known])
            tokens = self._pages.read(pages.reshape(-1))
        per_token = {name: value.view(len(known), -1, *value.shape[2:]) for name, value in tokens.items()}
        return QuantizedStates(torch.tensor([entry.length for entry in known]), per_token, per_text)

    @torch.inference_mode()  # the tables are modified in place, by callers inside and outside of this mode
    def put(self, texts: Sequence[str], states: QuantizedStates) -> None:
        """Add the states of these texts, and evict others if there is no room."""
        states = states.converted(self._dtype, next(iter(states.tensors().values())).device)
        per_text, paged = states.per_text, {name: _paged(value) for name, value in states.per_token.items()}
        row_bytes = sum(value[0].nbytes for value in per_text.values())
        page_bytes = sum(value[0, 0].nbytes for value in paged.values())
        with self._lock:
            self._rows.allocate(per_text, self.max_bytes // (OVERHEAD + row_bytes + page_bytes))
            if paged:
                self._pages.allocate({name: value[0] for name, value in paged.items()}, self.max_bytes // page_bytes)
            new: OrderedDict[str, _Entry] = OrderedDict()
            indices: dict[str, int] = {}
            try:
                for index, (text, length) in enumerate(zip(texts, states.lengths.tolist(), strict=True)):
                    n_pages = -(-length // PAGE) if paged else 0
                    size = n_pages * page_bytes + row_bytes + sys.getsizeof(text) + OVERHEAD
                    if text in self._entries or text in new or size > self.max_bytes:
                        continue
                    while self._bytes + size > self.max_bytes:
                        # The last of the new texts may have to evict the first of them.
                        self._evict_oldest(self._entries or new)
                    pages = np.array(self._pages.take(n_pages), np.int64)
                    new[text] = _Entry(self._rows.take(1)[0], pages, length, size)
                    indices[text] = index
                    self._bytes += size
                if new:
                    self._write(list(new.values()), torch.tensor([indices[text] for text in new]), per_text, paged)
            except BaseException:
                while new:
                    self._evict_oldest(new)
                raise
            self._entries.update(new)

    def encoded_once(
        self, texts: Sequence[str], encode: Callable[[list[int]], States]
    ) -> Iterator[tuple[list[int], QuantizedStates]]:
        """Yield the states of distinct texts in parts, each with the indices of its texts; encode those not cached.

        If several threads need a text, one of them encodes it and the others wait. A thread encodes the texts that it
        has claimed before it waits, so there is no deadlock. If a thread fails, those that waited encode its texts.

        Args:
            texts: distinct texts.
            encode: computes the states of the texts with these indices.
        """
        remaining = list(range(len(texts)))
        while remaining:
            done = threading.Event()
            try:
                claimed, awaited = self._claim({texts[index]: index for index in remaining}, done)
                if claimed:
                    encoded = QuantizedStates.quantize(encode(claimed), self._dtype)
                    self.put([texts[index] for index in claimed], encoded)
            finally:
                self._release(texts, done)
            if claimed:
                yield claimed, encoded
            for other in awaited:
                other.wait()
            remaining = sorted({*remaining}.difference(claimed))
            with self._lock:
                cached = [index for index in remaining if texts[index] in self._entries]
            states = self.states([texts[index] for index in cached]) if cached else None
            if states is not None:
                yield cached, states
                remaining = sorted({*remaining}.difference(cached))

    def _claim(self, indices: Mapping[str, int], done: threading.Event) -> tuple[list[int], set[threading.Event]]:
        """Claim the texts that no other thread encodes; return their indices, and the events of the other threads."""
        with self._lock:
            awaited = {self._claims[text] for text in indices if text in self._claims}
            free = [text for text in indices if text not in self._entries and text not in self._claims]
            self._claims.update(dict.fromkeys(free, done))
        return [indices[text] for text in free], awaited

    def _release(self, texts: Sequence[str], done: threading.Event) -> None:
        with self._lock:
            for text in texts:
                if self._claims.get(text) is done:
                    del self._claims[text]
        done.set()

    def info(self) -> CacheInfo:
        """Hits, misses, entries and bytes so far."""
        with self._lock:
            return CacheInfo(self._hits, self._misses, len(self._entries), self._bytes)

    def _write(
        self, entries: Sequence[_Entry], indices: Tensor, per_text: Mapping[str, Tensor], paged: Mapping[str, Tensor]
    ) -> None:
        """Fill the rows and pages of these entries with the states at these indices."""
        rows = np.array([entry.row for entry in entries])
        self._rows.write(rows, {name: value[indices.to(value.device)] for name, value in per_text.items()})
        pages = np.concatenate([entry.pages for entry in entries])
        counts = torch.tensor([len(entry.pages) for entry in entries])
        for name, value in paged.items():
            used = torch.arange(value.shape[1]) < counts.unsqueeze(1)
            self._pages.write(pages, {name: value[indices.to(value.device)][used.to(value.device)]})

    def _evict_oldest(self, entries: OrderedDict[str, _Entry]) -> None:
        _, entry = entries.popitem(last=False)
        self._rows.free([entry.row])
        self._pages.free(entry.pages.tolist())
        self._bytes -= entry.bytes


def _paged(value: Tensor) -> Tensor:
    """(N, T, ...) -> (N, pages, PAGE, ...), zero beyond T."""
    missing = -value.shape[1] % PAGE
    padded = torch.cat([value, value.new_zeros(len(value), missing, *value.shape[2:])], dim=1)
    return padded.unflatten(1, (-1, PAGE))


class _Table:
    """Tensors with the same rows, which can be taken and freed. Row 0 is always zero.

    All rows are allocated at once: a CPU's system provides memory only when it is first written to, and growing would
    copy everything repeatedly.
    """

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}
        self._free: list[int] = []
        self._next = 1

    def allocate(self, examples: Mapping[str, Tensor], rows: int) -> None:
        """Allocate `rows` rows shaped like those of the examples (rows, ...), unless this is done already.

        Raises:
            InputError: there is not enough memory.
        """
        for name, value in examples.items():
            if name not in self._tensors:
                try:
                    table = value.new_empty(rows + 1, *value.shape[1:])
                except RuntimeError as error:
                    mb = (rows + 1) * value[0].nbytes / 1e6
                    raise InputError(
                        f"Expected room for {mb:,.0f} MB of cache on {value.device}, found less: lower cache_megabytes."
                    ) from error
                table[0] = 0
                self._tensors[name] = table

    @property
    def dtypes(self) -> dict[str, torch.dtype]:
        return {name: table.dtype for name, table in self._tensors.items()}

    def take(self, n: int) -> list[int]:
        """The numbers of n unused rows."""
        freed = [self._free.pop() for _ in range(min(n, len(self._free)))]
        new = range(self._next, self._next + n - len(freed))
        self._next += len(new)
        return [*freed, *new]

    def free(self, rows: list[int]) -> None:
        self._free += rows

    def write(self, rows: np.ndarray, tensors: Mapping[str, Tensor]) -> None:
        for name, value in tensors.items():
            table = self._tensors[name]
            table.index_copy_(0, torch.from_numpy(rows).to(table.device), value.to(table.device))

    def read(self, rows: np.ndarray) -> dict[str, Tensor]:
        """A copy of the rows."""
        return {
            name: table.index_select(0, torch.from_numpy(rows).to(table.device))
            for name, table in self._tensors.items()
        }
