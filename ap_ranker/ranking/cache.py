"""Answers encoded once: the states of the texts used last, up to a number of bytes."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.models.base import States
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype

PAGE = 8
"""Tokens that are kept together. As an operating system pages its memory, a text of any length takes whole pages that
lie anywhere: nothing is ever moved to make room, and one gather makes a padded batch of any texts."""

OVERHEAD = 256
"""Bytes that an entry costs beside its states and its text."""


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


@dataclass(frozen=True)
class _Entry:
    """Where a text's states are: one row of what it has per text, some pages of what it has per token."""

    row: int
    pages: np.ndarray
    length: int
    bytes: int


class EncodingCache:
    """States by text, of one checkpoint, on its device; the text not used for longest goes first.

    Safe under threads: what is read is copied before another text may take its place, and a text is here only when its
    states are written.

    Attributes:
        max_bytes: what states, texts and entries may take together.
        dtype: of the states that it keeps, whatever it is given; a model that bears no other makes it float32.
    """

    def __init__(self, max_bytes: int, dtype: StateDtype = StateDtype.float32) -> None:
        if max_bytes < 0:
            raise InputError(f"Expected a cache of 0 bytes or more, found {max_bytes}.")
        self.max_bytes = max_bytes
        self.dtype = dtype
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._rows, self._pages = _Table(), _Table()
        self._bytes = self._hits = self._misses = 0
        self._claims: dict[str, threading.Event] = {}  # texts that a thread is encoding -> set when it has
        self._lock = threading.Lock()

    def count(self, texts: Sequence[str]) -> int:
        """How many of the texts are here; unlike `lengths`, asking does not count as a use."""
        with self._lock:
            return sum(text in self._entries for text in texts)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, 0 where it is not here."""
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

    def states(self, texts: Sequence[str]) -> QuantizedStates | None:
        """The states of the texts; `None` if one of them is not here, or no longer."""
        with self._lock:
            entries = [self._entries.get(text) for text in texts]
            known = [entry for entry in entries if entry is not None]
            if len(known) < len(entries):
                return None
            per_text = self._rows.read(np.array([entry.row for entry in known]))
            counts = np.array([len(entry.pages) for entry in known])
            places = np.zeros((len(known), counts.max()), np.int64)  # page 0 is empty: padding
            places[np.arange(places.shape[1]) < counts[:, None]] = np.concatenate([entry.pages for entry in known])
            pages = self._pages.read(places.reshape(-1))
        per_token = {name: value.view(len(known), -1, *value.shape[2:]) for name, value in pages.items()}
        return QuantizedStates(torch.tensor([entry.length for entry in known]), per_token, per_text)

    @torch.inference_mode()  # the tables are written to in place, from inside that mode and from outside
    def put(self, texts: Sequence[str], states: QuantizedStates) -> None:
        """Keep the states of these texts, and forget others if there is no room."""
        states = states.converted(self.dtype, next(iter(states.tensors().values())).device)
        per_text, paged = states.per_text, {name: _paged(value) for name, value in states.per_token.items()}
        row_bytes = sum(value[0].nbytes for value in per_text.values())
        page_bytes = sum(value[0, 0].nbytes for value in paged.values())
        with self._lock:
            self._rows.make(per_text, self.max_bytes // (OVERHEAD + row_bytes + page_bytes))
            if paged:
                self._pages.make({name: value[0] for name, value in paged.items()}, self.max_bytes // page_bytes)
            new: OrderedDict[str, _Entry] = OrderedDict()
            places: dict[str, int] = {}
            try:
                for row, (text, length) in enumerate(zip(texts, states.lengths.tolist(), strict=True)):
                    n_pages = -(-length // PAGE) if paged else 0
                    size = n_pages * page_bytes + row_bytes + sys.getsizeof(text) + OVERHEAD
                    if text in self._entries or text in new or size > self.max_bytes:
                        continue
                    while self._bytes + size > self.max_bytes:
                        # One of the first may already have to make room for one of the last.
                        self._forget_oldest(self._entries or new)
                    pages = np.array(self._pages.take(n_pages), np.int64)
                    new[text] = _Entry(self._rows.take(1)[0], pages, length, size)
                    places[text] = row
                    self._bytes += size
                if new:
                    self._write(list(new.values()), torch.tensor([places[text] for text in new]), per_text, paged)
            except BaseException:
                while new:
                    self._forget_oldest(new)
                raise
            self._entries.update(new)

    def encoded_once(
        self, texts: Sequence[str], encode: Callable[[list[int]], States]
    ) -> Iterator[tuple[list[int], QuantizedStates]]:
        """The states of different texts, in parts with the places of their texts; those that are not here are encoded.

        A text that several threads want is encoded by one of them, and the others wait for it. A thread first encodes
        what falls to it and only then waits, so no two wait for each other. The texts of one that fails fall to those
        that waited.

        Args:
            texts: each once.
            encode: makes the states of the texts at these places.
        """
        left = list(range(len(texts)))
        while left:
            done = threading.Event()
            try:
                mine, awaited = self._claim({texts[place]: place for place in left}, done)
                if mine:
                    made = QuantizedStates.quantize(encode(mine), self.dtype)
                    self.put([texts[place] for place in mine], made)
            finally:
                self._release(texts, done)
            if mine:
                yield mine, made
            for other in awaited:
                other.wait()
            left = sorted({*left}.difference(mine))
            with self._lock:
                here = [place for place in left if texts[place] in self._entries]
            states = self.states([texts[place] for place in here]) if here else None
            if states is not None:
                yield here, states
                left = sorted({*left}.difference(here))

    def _claim(self, places: Mapping[str, int], done: threading.Event) -> tuple[list[int], set[threading.Event]]:
        """The places of the texts that fall to this thread until it sets `done`, and what to wait for of the others."""
        with self._lock:
            awaited = {self._claims[text] for text in places if text in self._claims}
            free = [text for text in places if text not in self._entries and text not in self._claims]
            self._claims.update(dict.fromkeys(free, done))
        return [places[text] for text in free], awaited

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
        self, entries: Sequence[_Entry], places: Tensor, per_text: Mapping[str, Tensor], paged: Mapping[str, Tensor]
    ) -> None:
        """Fill the rows and pages of these entries from the states at these places."""
        rows = np.array([entry.row for entry in entries])
        self._rows.write(rows, {name: value[places.to(value.device)] for name, value in per_text.items()})
        pages = np.concatenate([entry.pages for entry in entries])
        counts = torch.tensor([len(entry.pages) for entry in entries])
        for name, value in paged.items():
            full = torch.arange(value.shape[1]) < counts.unsqueeze(1)
            self._pages.write(pages, {name: value[places.to(value.device)][full.to(value.device)]})

    def _forget_oldest(self, entries: OrderedDict[str, _Entry]) -> None:
        _, entry = entries.popitem(last=False)
        self._rows.give_back([entry.row])
        self._pages.give_back(entry.pages.tolist())
        self._bytes -= entry.bytes


def _paged(value: Tensor) -> Tensor:
    """(N, T, ...) -> (N, pages, PAGE, ...), zero beyond T."""
    missing = -value.shape[1] % PAGE
    padded = torch.cat([value, value.new_zeros(len(value), missing, *value.shape[2:])], dim=1)
    return padded.unflatten(1, (-1, PAGE))


class _Table:
    """Tensors with the same rows; a row that is given back is used again. Row 0 stays zero.

    All rows are there from the start: a CPU's system hands out memory when it is first written to, and growing would
    copy everything again and again.
    """

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}
        self._free: list[int] = []
        self._next = 1

    def make(self, examples: Mapping[str, Tensor], rows: int) -> None:
        """Make room for `rows` rows like those of the examples (rows, ...), unless that has been done.

        Raises:
            InputError: there is not so much memory.
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

    def take(self, n: int) -> list[int]:
        """Rows to write to."""
        again = [self._free.pop() for _ in range(min(n, len(self._free)))]
        new = range(self._next, self._next + n - len(again))
        self._next += len(new)
        return [*again, *new]

    def give_back(self, rows: list[int]) -> None:
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
