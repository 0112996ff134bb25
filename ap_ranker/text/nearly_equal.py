"""Nearly equal texts, such as answers: an exact similarity join on character 5-grams, not all texts with all others.

What nearly equal is, `nearly_equal` of `reading.py` says; texts shorter than five characters have no 5-grams here.
Questions are compared by another rule: `near_copies.py`.

Two sets that are so similar share at least one of their rarest members: the prefix filter of Bayardo, Ma & Srikant
(2007), with the bound on the remaining members of Xiao et al. (2008, PPJoin). The join is exact, not sampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ap_ranker.errors import extra_for
from ap_ranker.text.reading import NEAR, SIZE, bare, near_key

with extra_for("Training and measuring need", "train"):
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

_ROWS = 512
_WORK = 2_000_000
"""Maximum number of texts, and of members of their sets, that are compared at once: more would take gigabytes."""

_ROUNDS = 4


@dataclass(frozen=True)
class _Sets:
    """The 5-grams of texts that have any, the smallest set first.

    `grams` (N, grams) has a 1 for each member, from rare to frequent; `prefixes` the rarest members of each set, of
    which two sets that are near share one, and `last` the last of these; `order` the positions of the texts.
    """

    grams: sparse.csr_matrix
    sizes: np.ndarray
    prefixes: sparse.csr_matrix
    lengths: np.ndarray  # of the prefixes
    last: np.ndarray
    order: np.ndarray
    threshold: float

    @classmethod
    def of(cls, texts: Sequence[str], threshold: float) -> _Sets:
        grams = _grams([bare(text) for text in texts])
        sizes = np.diff(grams.indptr)
        order = np.argsort(sizes, kind="stable")[np.count_nonzero(sizes == 0) :]  # without empty sets
        grams = grams[order]
        sizes = sizes[order]
        # Half as long again as needed: fewer pairs that are not near pass the bound, which halves the time.
        needed = sizes - np.ceil(threshold * sizes - 1e-9).astype(np.int64) + 1
        lengths = np.minimum(sizes, needed * 3 // 2)
        last = grams.indices[grams.indptr[:-1] + lengths - 1] if len(order) else lengths
        return cls(
            grams,
            sizes,
            prefixes=_prefixes(grams, lengths),
            lengths=lengths,
            last=last,
            order=order,
            threshold=threshold,
        )

    def selected(self, rows: np.ndarray) -> _Sets:
        """Some of the sets, in their order."""
        return _Sets(
            grams=self.grams[rows],
            sizes=self.sizes[rows],
            prefixes=self.prefixes[rows],
            lengths=self.lengths[rows],
            last=self.last[rows],
            order=self.order[rows],
            threshold=self.threshold,
        )

    def needed(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """(P,) the number of members that each of P pairs must share to be near."""
        return np.ceil(self.threshold / (1 + self.threshold) * (self.sizes[some] + self.sizes[others]) - 1e-9)

    def candidates(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs that may be near, in parts: the rows of the larger set and of the smaller one."""
        frequency = np.bincount(self.prefixes.indices, minlength=self.prefixes.shape[1])
        for start, end in _parts(self.prefixes @ frequency):
            low = int(np.searchsorted(self.sizes, self.threshold * self.sizes[start] - 1e-9))
            common = (self.prefixes[start:end] @ self.prefixes[low:end].T).tocoo()
            longer = common.row + start
            shorter = common.col + low
            count = common.data
            first = np.where(self.last[longer] < self.last[shorter], longer, shorter)  # the one whose prefix ends first
            enough = count + self.sizes[first] - self.lengths[first] >= self.needed(longer, shorter)
            kept = (shorter < longer) & enough
            yield longer[kept], shorter[kept]

    def are_near(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """(P,) whether the sets of each of P pairs are near."""
        near = np.zeros(len(some), dtype=bool)
        for start, end in _parts(self.sizes[some] + self.sizes[others]):
            shared = self.grams[some[start:end]].multiply(self.grams[others[start:end]]).sum(axis=1)
            near[start:end] = np.asarray(shared).ravel() >= self.needed(some[start:end], others[start:end])
        return near


def _parts(work: np.ndarray) -> Iterator[tuple[int, int]]:
    """The starts and ends of parts of (N,) rows, each with as much work as is done at once."""
    total = np.cumsum(work)
    start = 0
    while start < len(work):
        before = total[start - 1] if start else 0
        end = int(np.searchsorted(total, before + _WORK, side="right"))
        end = min(max(end, start + 1), start + _ROWS)
        yield start, end
        start = end


def _near(texts: Sequence[str], threshold: float = NEAR) -> Iterator[np.ndarray]:
    """All pairs of positions of texts that are near, the smaller position first, in parts."""
    sets = _Sets.of(texts, threshold)
    for longer, shorter in sets.candidates():
        near = sets.are_near(longer, shorter)
        yield np.sort(np.stack([sets.order[longer[near]], sets.order[shorter[near]]], axis=1), axis=1)


def nearly_equal_pairs(texts: Sequence[str], threshold: float = NEAR) -> np.ndarray:
    """(pairs, 2) positions of all texts that are near, the smaller one first, sorted."""
    pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *_near(texts, threshold)])
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def nearly_equal_groups(texts: Sequence[str]) -> np.ndarray:
    """(N,) the group of each of N texts: the connected components of equal and near texts.

    Of thousands of texts that are all near, not all pairs are compared: neighbours in the alphabet are joined first,
    and then only texts that may be near one of another group.
    """
    keys = [near_key(text) for text in texts]
    distinct = list(dict.fromkeys(keys))
    row_of = {key: row for row, key in enumerate(distinct)}
    sets = _Sets.of(distinct, NEAR)
    groups = _Groups(len(sets.order))
    reversed_keys = [key[::-1] for key in distinct]  # texts that differ at their beginning are neighbours by their end
    for ordered in (_sorted_rows(sets, distinct), _sorted_rows(sets, reversed_keys)):
        groups.join_near(sets, ordered[1:], ordered[:-1])
    open_rows = np.flatnonzero(_meets_others(sets, groups.labels()))
    rest = sets.selected(open_rows)
    for longer, shorter in rest.candidates():
        groups.join_near(sets, open_rows[longer], open_rows[shorter])
    group_of = np.arange(len(distinct)) + len(sets.order)  # a text without 5-grams is alone
    group_of[sets.order] = groups.labels()
    number_of: dict[int, int] = {}  # group -> its number, in the order of the texts
    numbers: list[int] = []
    for key in keys:
        group = int(group_of[row_of[key]])
        numbers.append(number_of.setdefault(group, len(number_of)))
    return np.array(numbers, dtype=np.int64)


class _Groups:
    """Groups of N rows, at first of one each."""

    def __init__(self, size: int) -> None:
        self._labels = np.arange(size)

    def labels(self) -> np.ndarray:
        """(N,) the group of each row."""
        return self._labels

    def join_near(self, sets: _Sets, some: np.ndarray, others: np.ndarray) -> None:
        """Join the groups of those of (P,) pairs of rows that are near; pairs within a group are not compared."""
        for _ in range(_ROUNDS):
            apart = self._labels[some] != self._labels[others]
            some = some[apart]
            others = others[apart]
            # Of a row and another group, one pair at a time: if it is near, the others need not be compared.
            _, first = np.unique(some * len(self._labels) + self._labels[others], return_index=True)
            near = sets.are_near(some[first], others[first])
            self._join(some[first][near], others[first][near])
            some = np.delete(some, first)
            others = np.delete(others, first)
        near = sets.are_near(some, others)
        self._join(some[near], others[near])

    def _join(self, some: np.ndarray, others: np.ndarray) -> None:
        size = len(self._labels)
        ends = self._labels[some], self._labels[others]
        links = sparse.coo_matrix((np.ones(len(some)), ends), shape=(size, size))
        self._labels = connected_components(links, directed=False)[1][self._labels]


def _sorted_rows(sets: _Sets, keys: Sequence[str]) -> np.ndarray:
    """The rows in the order of their texts' keys."""
    rows = sorted(range(len(sets.order)), key=lambda row: keys[int(sets.order[row])])
    return np.array(rows, dtype=np.int64)


def _meets_others(sets: _Sets, labels: np.ndarray) -> np.ndarray:
    """(N,) whether a row shares a member of its prefix with a row of another group."""
    groups, label = np.unique(labels, return_inverse=True)
    if len(groups) * 2 > len(labels):  # it would take as long as to compare all
        return np.ones(len(labels), dtype=bool)
    ones = np.ones(len(labels), dtype=np.int32)
    members = sparse.csr_matrix((ones, (np.arange(len(labels)), label)), shape=(len(labels), len(groups)))
    of_group = sets.prefixes.T @ members  # (grams, groups)
    n_groups = np.diff(of_group.tocsr().indptr)
    return sets.prefixes @ (n_groups > 1).astype(np.int32) > 0


def _grams(texts: Sequence[str]) -> sparse.csr_matrix:
    """(N, grams) sparse, 1 where a text has a 5-gram; columns from rare to frequent, sorted within each row."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    windows = np.maximum(lengths - SIZE + 1, 0)
    begins = np.cumsum(lengths) - lengths
    position = np.arange(windows.sum()) + np.repeat(begins - (np.cumsum(windows) - windows), windows)
    used = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.uint64)
    used[codes] = 1
    letters = (np.cumsum(used, dtype=np.uint64) - used)[codes]
    base = used.sum(dtype=np.uint64)  # exact up to 7,131 distinct characters, a 64-bit hash beyond
    code = np.zeros(len(position), dtype=np.uint64)
    for step in range(SIZE):
        code = code * base + letters[position + step]
    distinct, column = np.unique(code, return_inverse=True)
    rank = np.empty(len(distinct), dtype=np.int32)
    rank[np.argsort(np.bincount(column, minlength=len(rank)), kind="stable")] = np.arange(len(rank))
    starts = np.concatenate([[0], np.cumsum(windows)])
    ones = np.ones(len(column), dtype=np.int32)
    matrix = sparse.csr_matrix((ones, rank[column], starts), shape=(len(texts), max(len(rank), 1)))
    matrix.sum_duplicates()  # also sorts each row
    matrix.data[:] = 1  # a repeated gram is one member of the set
    return matrix


def _prefixes(grams: sparse.csr_matrix, lengths: np.ndarray) -> sparse.csr_matrix:
    within = np.arange(grams.nnz) - np.repeat(grams.indptr[:-1], np.diff(grams.indptr))
    kept = within < np.repeat(lengths, np.diff(grams.indptr))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix((grams.data[kept], grams.indices[kept], ends), shape=grams.shape)
