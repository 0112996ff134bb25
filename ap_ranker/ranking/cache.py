"""What is kept of encoded texts in memory: states of answers, up to a number of bytes, and of the last questions."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ap_ranker.models.base import States
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype

CACHE_BYTES = 256 * 10**6
"""Maximum size of a cache of answers for which nobody names one."""

OVERHEAD = 600
"""Bytes of a text and of each of its tensors in addition to their content."""

LAST_QUESTIONS = 128
"""Number of questions whose states are kept: those that a server works on at one time."""

TOGETHER = 32
"""Maximum number of questions encoded, or searched, at once: with more, each would take longer."""


@dataclass(frozen=True)
class CacheInfo:
    """Statistics of a cache: texts found and not found, texts that it holds now, and their size.

    `encoded` are the texts that were encoded for it, `fetched` those whose states came with documents.
    """

    hits: int
    misses: int
    entries: int
    bytes: int
    encoded: int
    fetched: int


class EncodingCache:
    """States of one checkpoint by text, on its device; the least recently used text is evicted first. Thread-safe.

    States, texts and entries together have `max_bytes`. All states are converted to `dtype`; `None`: the ranker's.
    """

    def __init__(self, max_bytes: int, dtype: StateDtype | None = None) -> None:
        self.max_bytes = max_bytes
        self.dtype = dtype
        self._entries: OrderedDict[str, QuantizedStates] = OrderedDict()
        self._bytes = self._hits = self._misses = self._encoded = self._fetched = 0
        self._lock = threading.Condition()  # which tells when an encoding has ended
        self._encoding: set[str] = set()  # texts that a thread is encoding

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy begins empty, with the same limit and dtype."""
        return EncodingCache, (self.max_bytes, self.dtype)

    def count(self, texts: Sequence[str]) -> int:
        """The number of texts that are in the cache; unlike `find`, this does not count as a use."""
        return len(texts) - len(self.lacking(texts))

    def lacking(self, texts: Sequence[str]) -> list[int]:
        """The indices of texts that are not in the cache; no use of it either."""
        with self._lock:
            return [index for index, text in enumerate(texts) if text not in self._entries]

    def clear(self) -> None:
        """Forget all states; what was counted stays."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def find(self, texts: Sequence[str]) -> dict[int, QuantizedStates]:
        """The states of those of the texts that are in the cache, each alone, by their indices."""
        with self._lock:
            cached = {index: self._entries[text] for index, text in enumerate(texts) if text in self._entries}
            for index in cached:
                self._entries.move_to_end(texts[index])
            self._hits += len(cached)
            self._misses += len(texts) - len(cached)
        return cached

    def put(self, texts: Sequence[str], states: QuantizedStates) -> None:
        """Add the states of these texts, and evict others if there is no room."""
        device = next(iter(states.tensors().values())).device
        for text, entry in zip(texts, states.converted(self.dtype or StateDtype.float32, device).split(), strict=True):
            size = _size(text, entry)
            with self._lock:
                if text in self._entries or size > self.max_bytes:
                    continue
                self._entries[text] = entry
                self._bytes += size
                while self._bytes > self.max_bytes:
                    self._bytes -= _size(*self._entries.popitem(last=False))

    def put_fetched(self, texts: Sequence[str], states: QuantizedStates) -> None:
        """As `put`, of states that came with documents."""
        with self._lock:
            self._fetched += len(texts)
        self.put(texts, states)

    def encoded_once(
        self, texts: Sequence[str], encode: Callable[[list[int]], States]
    ) -> list[tuple[list[int], QuantizedStates]]:
        """The states of distinct texts in parts, each with the indices of its texts; `encode` those not cached.

        Of several threads that need a text, one encodes it: the others then find it, or encode it if that failed.
        """
        with self._lock:
            while not self._encoding.isdisjoint(texts):
                self._lock.wait()
            cached = {index: self._entries[text] for index, text in enumerate(texts) if text in self._entries}
            new = [index for index in range(len(texts)) if index not in cached]
            claimed = {texts[index] for index in new}
            self._encoding |= claimed
        parts = []
        if cached:
            parts = [([*cached], QuantizedStates.joined([*cached.values()]))]
        try:
            if new:
                encoded = QuantizedStates.quantize(encode(new), self.dtype or StateDtype.float32)
                self.put([texts[index] for index in new], encoded)
                with self._lock:
                    self._encoded += len(new)
                parts.append((new, encoded))
        finally:
            with self._lock:
                self._encoding -= claimed
                self._lock.notify_all()
        return parts

    def info(self) -> CacheInfo:
        """What it has counted so far."""
        with self._lock:
            return CacheInfo(
                self._hits,
                self._misses,
                entries=len(self._entries),
                bytes=self._bytes,
                encoded=self._encoded,
                fetched=self._fetched,
            )


def _size(text: str, states: QuantizedStates) -> int:
    return states.nbytes + sys.getsizeof(text) + OVERHEAD * (1 + len(states.tensors()))


class _Together:
    """The states of questions that were encoded together, which stay in one piece."""

    def __init__(self, states: States) -> None:
        self.states = states

    @cached_property
    def lengths(self) -> list[int]:
        """The number of each question's tokens, for which a GPU has to be waited for."""
        lengths: list[int] = self.states.mask.sum(dim=1).tolist()
        return lengths


class _Place(NamedTuple):
    """Where a question's states are."""

    together: _Together
    row: int


def _states_of(places: Sequence[_Place]) -> States:
    """The states of questions, padded to the longest: of those that were encoded together, nothing is copied."""
    together = places[0].together
    first = together.states
    rows = [place.row for place in places]
    if any(place.together is not together for place in places):
        return States.stack([_states_of([place]) for place in places])
    if rows == list(range(len(first.mask))):
        return first
    chosen: slice | Tensor = slice(rows[0], rows[0] + len(rows))
    if rows != list(range(rows[0], rows[0] + len(rows))):
        chosen = torch.tensor(rows, device=first.mask.device)
    longest = max(together.lengths[row] for row in rows)
    return first.map(lambda value: value[:, :longest][chosen], lambda value: value[chosen])


class QuestionStates:
    """The states of the last questions, so that a retriever's question is not encoded again by the ranker.

    One thread encodes at a time. Questions that arrive meanwhile are then encoded together, which takes a transformer
    little more than half of the time that it takes for one after the other; none of them waits for a fixed time.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Place] = OrderedDict()
        self._waiting: dict[str, None] = {}
        self._lock = threading.Lock()
        self._encoding = threading.Lock()

    def get(self, question: str, encode: Callable[[list[str]], States]) -> States:
        """The states of a question, which `encode` computes unless it is one of the last."""
        return self.get_all([question], encode)

    def get_all(self, questions: Sequence[str], encode: Callable[[list[str]], States]) -> States:
        """The states of B questions, at most `TOGETHER` of them, as `get`; those that are new are encoded together."""
        with self._lock:
            if self._knows(questions):
                for question in questions:
                    self._known.move_to_end(question)
                return _states_of(list(map(self._known.__getitem__, questions)))
            self._waiting |= dict.fromkeys(question for question in questions if question not in self._known)
        with self._encoding:
            while not self._knows(questions):  # a thread that had the lock before may have encoded them
                self._encode_waiting(questions, encode)
            return _states_of(list(map(self._known.__getitem__, questions)))

    def encode_ahead(self, questions: Iterable[str], encode: Callable[[list[str]], States]) -> None:
        """Encode questions together that `get` is about to be asked for, `TOGETHER` of them at most.

        If one of them cannot be encoded, none is: `get` raises what is wrong with it, when it is asked for.
        """
        with self._encoding, suppress(Exception):
            self._encode_waiting(questions, encode)

    def _knows(self, questions: Sequence[str]) -> bool:
        return self._known.keys() >= set(questions)

    def _encode_waiting(self, questions: Iterable[str], encode: Callable[[list[str]], States]) -> None:
        """Encode these questions with those of threads that wait; alone, if one of all cannot be encoded.

        What is wrong with a question is then raised in the thread that asked it.
        """
        questions = list(questions)
        with self._lock:
            self._waiting |= dict.fromkeys(question for question in questions if question not in self._known)
            together = list(islice(self._waiting, TOGETHER))
            for question in together:
                del self._waiting[question]
        if together:
            try:
                states = encode(together)
            except Exception:
                own_questions = [question for question in together if question in questions]
                if len(own_questions) in (0, len(together)):
                    raise
                with self._lock:
                    left = dict.fromkeys(question for question in together if question not in own_questions)
                    self._waiting = left | self._waiting
                together = own_questions
                states = encode(together)
            encoded = _Together(states)
            with self._lock:
                for row, question in enumerate(together):
                    self._known[question] = _Place(encoded, row)
                while len(self._known) > LAST_QUESTIONS:
                    self._known.popitem(last=False)
