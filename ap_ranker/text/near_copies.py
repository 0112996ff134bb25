"""Near copies: questions that ask the same in the same words, but for slips, order and politeness.

One rule for all that must know whether two questions are the same one: `split`, `train`, `evaluate`, `check`,
`retrain`, `calibrate` and the owner's page. (Answers are compared as a whole: `nearly_equal.py`.)

Two questions are near copies if their words (`question_words.py`) are equal, in the same order but for the place where
they begin ("for returns, what does the label mean?"), or become equal by one change of either question:

1. a slip: two neighbouring letters exchanged, or a letter too many, in a word of at least `SLIP` letters; in scripts
   without spaces, two neighbouring characters exchanged;
2. two words written as one;
3. a word left out, of at least `DROP_ONE` words, or two words, of at least `DROP_TWO`;
4. a word, but not the last, exchanged for any other, of at least `EXCHANGE` words: so many others are equal.

No change concerns a number or a negation, so that 30 days are not 60, and what is covered is not what is not.

The time is linear: each question has one form, a hash of its words in a ring, and some hundred variants, the hashes
after each possible change. Two questions are near if the form of one is a variant of the other.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.progress import Progress, untold
from ap_ranker.text.languages import LONGEST_KEPT
from ap_ranker.text.question_words import Words, is_character, is_fixed, question_words, size
from ap_ranker.text.reading import near_key

SLIP = 4
"""Minimum number of letters of a word with a slip: shorter words become other words."""

DROP_ONE = 6
DROP_TWO = 8
EXCHANGE = 8
"""Minimum number of words of a question from which one or two words may be missing, or one be another."""

MOST_FOR_TWO = 30
"""Maximum number of words of which two may be missing: the number of such pairs grows with the square."""

FEWEST_NEIGHBOURS = 3
"""Words of a ring in which each has two different neighbours."""

TOLD = 1_000
"""Number of texts, a part of a second, after which progress is told."""

_MASK = 2**64 - 1
_MULTIPLIER = 0x9E3779B97F4A7C15
_ANY_WORD = 0x5851F42D4C957F2D

Hashes = NDArray[np.unsignedinteger[Any]]


def near_groups(texts: Sequence[str], on_progress: Progress = untold) -> NDArray[np.int64]:
    """(N,) the group of each of N texts: near copies, and near copies of these, have one number."""
    table = _FormTable.of(_counted(texts, on_progress))
    groups = _Groups(len(texts))
    forms, owners = table.first_owners()
    for rows, hashes in ((table.own_rows, table.own), (table.variant_rows, table.variants)):
        matches, place = _find(hashes, forms)
        for row, owner in zip(rows[matches].tolist(), owners[place].tolist(), strict=True):
            groups.join(owner, row)
    order = np.argsort(table.exchanges, kind="stable")
    exchanges = table.exchanges[order]
    is_same = exchanges[1:] == exchanges[:-1]  # equal ones are neighbours
    rows = table.exchange_rows[order]
    for row, copy in zip(rows[:-1][is_same].tolist(), rows[1:][is_same].tolist(), strict=True):
        groups.join(row, copy)
    return np.array([groups.number(row) for row in range(len(texts))], dtype=np.int64)


def _counted(texts: Sequence[str], on_progress: Progress) -> Iterator[str]:
    """The texts; while they are read, `on_progress` gets how many have been."""
    for row, text in enumerate(texts):
        if row % TOLD == 0:
            on_progress("looking for near copies", row, len(texts))
        yield text
    on_progress("looking for near copies", len(texts), len(texts))


def near_earlier(texts: Sequence[str]) -> dict[int, int]:
    """The position of each text that is near an earlier one -> that of the first of these."""
    table = _FormTable.of(texts)
    earliest = np.arange(len(texts), dtype=np.int64)
    own = (table.own, table.own_rows)
    variants = (table.variants, table.variant_rows)
    exchanges = table.exchanges, table.exchange_rows
    for (hashes, rows), others in ((own, variants), (variants, own), (exchanges, exchanges)):
        distinct, first = _first_rows(*others)
        matches, place = _find(hashes, distinct)
        np.minimum.at(earliest, rows[matches], first[place])
    return {row: int(first) for row, first in enumerate(earliest) if first < row}


def near_any(texts: Collection[str], others: Collection[str]) -> set[str]:
    """The texts that are near copies of one of the others, or equal to one."""
    forms = KnownForms.of(others)
    return {text for text in texts if forms.has(text)}


@dataclass(frozen=True)
class KnownForms:
    """The forms of questions that are known: hashes, sorted, by which a near copy of one of them is recognized."""

    own: Hashes
    variants: Hashes
    exchanges: Hashes

    @classmethod
    def of(cls, texts: Iterable[str]) -> KnownForms:
        """Those of these questions."""
        table = _FormTable.of(texts)
        return cls(np.unique(table.own), np.unique(table.variants), np.unique(table.exchanges))

    def has(self, text: str) -> bool:
        """Whether a question is a near copy of a known one."""
        forms = forms_of(text)
        return (
            _has_any(self.own, forms.variants)
            or _has_any(self.variants, forms.own)
            or _has_any(self.exchanges, forms.exchanges)
        )

    def joined(self, other: KnownForms) -> KnownForms:
        """These and others."""
        return KnownForms(
            np.union1d(self.own, other.own),
            np.union1d(self.variants, other.variants),
            np.union1d(self.exchanges, other.exchanges),
        )

    def short(self) -> KnownForms:
        """With 32 bits of each hash, as a file has them: they tell a copy, but give no question away."""
        return KnownForms(
            np.unique(self.own.astype(np.uint32)),
            np.unique(self.variants.astype(np.uint32)),
            np.unique(self.exchanges.astype(np.uint32)),
        )


def _has_any(sorted_hashes: Hashes, hashes: Collection[int]) -> bool:
    wanted = np.fromiter(hashes, dtype=np.uint64, count=len(hashes)).astype(sorted_hashes.dtype)
    matches, _ = _find(wanted, sorted_hashes)
    return len(matches) > 0


def _find(hashes: Hashes, distinct: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of those hashes that are among sorted distinct ones, and where there."""
    if not len(distinct):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    place = np.minimum(np.searchsorted(distinct, hashes), len(distinct) - 1)
    matches = np.flatnonzero(distinct[place] == hashes)
    return matches, place[matches]


def _first_rows(hashes: Hashes, rows: NDArray[np.int32]) -> tuple[Hashes, NDArray[np.int64]]:
    """The distinct hashes, sorted, and the first row of each."""
    distinct, place = np.unique(hashes, return_inverse=True)
    first = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(first, place, rows)
    return distinct, first


@dataclass(frozen=True)
class _FormTable:
    """The forms of questions, and the row of the question of each: arrays, as a hundred thousand have ten million."""

    own: Hashes
    own_rows: NDArray[np.int32]
    variants: Hashes
    variant_rows: NDArray[np.int32]
    exchanges: Hashes
    exchange_rows: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Iterable[str]) -> _FormTable:
        own = _Column()
        variants = _Column()
        exchanges = _Column()
        for row, text in enumerate(texts):
            forms = forms_of(text)
            own.add(row, forms.own)
            variants.add(row, forms.variants)
            exchanges.add(row, forms.exchanges)
        return cls(*own.arrays(), *variants.arrays(), *exchanges.arrays())

    def first_owners(self) -> tuple[Hashes, NDArray[np.int64]]:
        """The distinct own forms, sorted, and the first question that has each."""
        return _first_rows(self.own, self.own_rows)


class _Column:
    """Hashes with the row of each, while they are collected."""

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._rows = array("i")

    def add(self, row: int, hashes: Collection[int]) -> None:
        self._hashes.extend(hashes)
        self._rows.extend([row] * len(hashes))

    def arrays(self) -> tuple[Hashes, NDArray[np.int32]]:
        return np.array(self._hashes, dtype=np.uint64), np.array(self._rows, dtype=np.int32)


class _Groups:
    """Sets of numbers that are joined (union-find)."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def number(self, row: int) -> int:
        """The smallest number of the group."""
        while self._parent[row] != row:
            self._parent[row] = self._parent[self._parent[row]]
            row = self._parent[row]
        return row

    def join(self, row: int, other_row: int) -> None:
        first, second = sorted((self.number(row), self.number(other_row)))
        self._parent[second] = first


@dataclass(frozen=True)
class Forms:
    """What a question is compared by: near ones have a form among the other's variants, or an exchange in common."""

    own: frozenset[int]
    variants: frozenset[int]
    exchanges: frozenset[int]


def forms_of(text: str) -> Forms:
    """The hashes of a question, of 64 bits; of a text that asks nothing, such as a greeting, only of all its words."""
    readings = question_words(text)
    if not readings:
        whole = frozenset([_hash(f"\n{near_key(text)}")])
        return Forms(whole, whole, frozenset())
    own: set[int] = set()
    variants: set[int] = set()
    exchanges: set[int] = set()
    for words in readings:
        ring = _Ring(words)
        own.add(ring.total)
        variants.add(ring.total)
        variants.update(ring.slips())
        variants.update(ring.turned())
        variants.update(ring.joined())
        variants.update(ring.without())
        exchanges.update(ring.exchanges())
    return Forms(frozenset(own), frozenset(variants), frozenset(exchanges))


class _Ring:
    """Words in a ring, hashed by their pairs of neighbours: the sum is the same wherever the ring begins."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.hashes = [_hash(word) for word in words]
        self.free = [place for place, word in enumerate(words) if not is_fixed(word)]
        self.size = size(words)
        self.total = _sum_of_pairs(self.hashes)

    def slips(self) -> Iterator[int]:
        """After a slip in a word."""
        for place in self.free:
            word = self.words[place]
            slips = _slips(word) if SLIP <= len(word) <= LONGEST_KEPT else []  # what is longer is no word
            if len(self.words) < FEWEST_NEIGHBOURS:
                for slip in slips:
                    yield self._changed(place, 1, [slip])
                continue
            # As `_changed`, with what is the same for all slips of a word computed once.
            before = self.hashes[place - 1]
            own = self.hashes[place]
            after = self.hashes[(place + 1) % len(self.hashes)]
            others = self.total - _pair(before, own) - _pair(own, after)
            yield from [(others + _pair(before, slip) + _pair(slip, after)) & _MASK for slip in slips]

    def turned(self) -> Iterator[int]:
        """With two neighbouring characters exchanged, in scripts without spaces, where each is a word."""
        for place in range(len(self.words) - 1):
            if is_character(self.words[place]) and is_character(self.words[place + 1]):
                yield self._changed(place, 2, [self.hashes[place + 1], self.hashes[place]])

    def joined(self) -> Iterator[int]:
        """With two neighbouring words as one."""
        for place in range(len(self.words) - 1):
            yield self._changed(place, 2, [_hash(self.words[place] + self.words[place + 1])])

    def without(self) -> Iterator[int]:
        """Without one word, or two."""
        if self.size >= DROP_ONE:
            for place in self.free:
                yield self._changed(place, 1, [])
        if self.size >= DROP_TWO and len(self.words) <= MOST_FOR_TWO:
            for left_out in combinations(self.free, 2):
                yield _sum_of_pairs([word_hash for place, word_hash in enumerate(self.hashes) if place not in left_out])

    def exchanges(self) -> Iterator[int]:
        """With any word in the place of one, but the last, which most often is what is asked about."""
        if self.size >= EXCHANGE:
            for place in self.free:
                if place < len(self.words) - 1:
                    yield self._changed(place, 1, [_ANY_WORD])

    def _changed(self, place: int, count: int, new: list[int]) -> int:
        """The sum with so many words from a place exchanged for new ones."""
        if len(self.hashes) < count + FEWEST_NEIGHBOURS - 1:
            return _sum_of_pairs([*self.hashes[:place], *new, *self.hashes[place + count :]])
        before = self.hashes[place - 1]
        after = self.hashes[(place + count) % len(self.hashes)]
        old = [before, *self.hashes[place : place + count], after]
        return (self.total - _chain(old) + _chain([before, *new, after])) & _MASK


def _sum_of_pairs(hashes: Sequence[int]) -> int:
    return _chain([*hashes, hashes[0]]) if hashes else 0


def _chain(hashes: Sequence[int]) -> int:
    """The sum of the hashes of all pairs of neighbours."""
    return sum(map(_pair, hashes[:-1], hashes[1:])) & _MASK


def _pair(word_hash: int, next_hash: int) -> int:
    mixed = (word_hash * _MULTIPLIER ^ (next_hash << 1)) & _MASK
    mixed = (mixed ^ mixed >> 29) * _MULTIPLIER & _MASK
    return mixed ^ mixed >> 32


def _hash(word: str) -> int:
    if len(word) <= LONGEST_KEPT:
        return _kept_hash(word)
    return _kept_hash.__wrapped__(word)


@lru_cache(maxsize=2**17)
def _kept_hash(word: str) -> int:
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@lru_cache(maxsize=2**15)
def _slips(word: str) -> list[int]:
    """The hashes of a word with a letter less, but the first, and with two neighbouring letters exchanged."""
    slips: set[str] = set()
    for place in range(1, len(word)):
        before = word[:place]
        after = word[place + 1 :]
        if len(word) > SLIP:
            slips.add(before + after)
        if after:
            slips.add(before + after[0] + word[place] + after[1:])
    slips.discard(word)
    return list(map(_hash, sorted(slips)))
