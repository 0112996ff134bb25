"""Nearly equal texts, such as answers: an exact similarity join on character 5-grams, not all texts with all others.

What nearly equal is, `nearly_equal` of `reading.py` says; texts shorter than five characters have no 5-grams here.
Questions are compared by another rule: `near_copies.py`.

Two sets that are so similar share at least one of their rarest members: the prefix filter of Bayardo, Ma & Srikant
(2007), with the bound on the remaining members of Xiao et al. (2008, PPJoin). The join is exact, not sampled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ap_ranker.errors import extra_for
from ap_ranker.text.reading import NEAR, SIZE, bare, near_key

with extra_for("Training and measuring need", "train"):
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

_BATCH = 512


def nearly_equal_pairs(texts: Sequence[str], threshold: float = NEAR) -> np.ndarray:
    """(pairs, 2) positions of all texts that are nearly equal, the smaller one first, sorted."""
    grams = _grams([bare(text) for text in texts])
    sizes = np.diff(grams.indptr)
    order = np.argsort(sizes, kind="stable")[np.count_nonzero(sizes == 0) :]  # shortest first, without empty sets
    grams, sizes = grams[order], sizes[order]
    # Prefixes half as long again as needed: fewer pairs that are not near pass the bound, which halves the time.
    lengths = np.minimum(sizes, (sizes - np.ceil(threshold * sizes - 1e-9).astype(np.int64) + 1) * 3 // 2)
    last = grams.indices[grams.indptr[:-1] + lengths - 1] if len(order) else lengths
    prefixes = _prefixes(grams, lengths)
    batches = []
    for start in range(0, len(order), _BATCH):
        end = min(start + _BATCH, len(order))
        low = int(np.searchsorted(sizes, threshold * sizes[start] - 1e-9))
        common = (prefixes[start:end] @ prefixes[low:end].T).tocoo()
        longer, shorter, count = common.row + start, common.col + low, common.data
        needed = np.ceil(threshold / (1 + threshold) * (sizes[longer] + sizes[shorter]) - 1e-9)
        first = np.where(last[longer] < last[shorter], longer, shorter)  # the one whose prefix ends first
        kept = (shorter < longer) & (count + sizes[first] - lengths[first] >= needed)
        longer, shorter, needed = longer[kept], shorter[kept], needed[kept]
        for part in range(0, len(longer), _BATCH):
            rows = slice(part, part + _BATCH)
            both = np.asarray(grams[longer[rows]].multiply(grams[shorter[rows]]).sum(axis=1)).ravel()
            near = both >= needed[rows]
            batches.append(np.stack([order[longer[rows][near]], order[shorter[rows][near]]], axis=1))
    pairs = np.sort(np.concatenate(batches), axis=1) if batches else np.empty((0, 2), dtype=np.int64)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def nearly_equal_groups(texts: Sequence[str]) -> np.ndarray:
    """(N,) the group of each of N texts: the connected components of equal and nearly equal texts."""
    keys = [near_key(text) for text in texts]
    distinct = list(dict.fromkeys(keys))
    row_of = {key: row for row, key in enumerate(distinct)}
    pairs = nearly_equal_pairs(distinct)
    links = sparse.coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(distinct),) * 2)
    group_of = connected_components(links, directed=False)[1]
    return np.array([group_of[row_of[key]] for key in keys], dtype=np.int64)


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
