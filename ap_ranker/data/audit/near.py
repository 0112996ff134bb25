"""Texts that are nearly the same: an exact join of character 5-grams, without comparing every text with every other.

"Near" means that of the different 5-grams of two texts, lower-cased and with one space for whatever is neither letter
nor digit, at least `NEAR` are in both (Jaccard's coefficient). Texts of fewer than five such characters have none.

Two sets that are so alike share one of their rarest members at least: the prefix filter of Bayardo, Ma & Srikant
(2007), with the bound on what is left of Xiao et al. (2008, PPJoin). Nothing is drawn or estimated:
nothing is missed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

NEAR = 0.8
SIZE = 5
_ROWS = 512
_APART = re.compile(r"[\W_]+")


def plain(text: str) -> str:
    """What is compared: lower case, one space for whatever is neither letter nor digit."""
    return _APART.sub(" ", text.casefold()).strip()


def near_pairs(texts: Sequence[str], threshold: float = NEAR) -> np.ndarray:
    """All pairs of texts that are near.

    Args:
        texts: N texts.
        threshold: Jaccard's coefficient of a pair, at least.

    Returns:
        Shape (pairs, 2): positions in `texts`, the smaller first, in order.
    """
    grams = _grams([plain(text) for text in texts])
    sizes = np.diff(grams.indptr)
    order = np.argsort(sizes, kind="stable")[
        np.count_nonzero(sizes == 0) :
    ]  # short texts first, those without grams out
    grams, sizes = grams[order], sizes[order]
    # Half as long again as it must be: fewer pairs that are not near pass the bound, which halves the time.
    lengths = np.minimum(sizes, (sizes - np.ceil(threshold * sizes - 1e-9).astype(np.int64) + 1) * 3 // 2)
    last = grams.indices[grams.indptr[:-1] + lengths - 1] if len(order) else lengths
    prefixes = _prefixes(grams, lengths)
    found = []
    for start in range(0, len(order), _ROWS):
        end = min(start + _ROWS, len(order))
        low = int(np.searchsorted(sizes, threshold * sizes[start] - 1e-9))
        common = (prefixes[start:end] @ prefixes[low:end].T).tocoo()
        longer, shorter, count = common.row + start, common.col + low, common.data
        needed = np.ceil(threshold / (1 + threshold) * (sizes[longer] + sizes[shorter]) - 1e-9)
        first = np.where(last[longer] < last[shorter], longer, shorter)  # whose prefix ends first
        kept = (shorter < longer) & (count + sizes[first] - lengths[first] >= needed)
        longer, shorter, needed = longer[kept], shorter[kept], needed[kept]
        for part in range(0, len(longer), _ROWS):
            rows = slice(part, part + _ROWS)
            both = np.asarray(grams[longer[rows]].multiply(grams[shorter[rows]]).sum(axis=1)).ravel()
            near = both >= needed[rows]
            found.append(np.stack([order[longer[rows][near]], order[shorter[rows][near]]], axis=1))
    pairs = np.sort(np.concatenate(found), axis=1) if found else np.empty((0, 2), dtype=np.int64)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def near_groups(texts: Sequence[str]) -> np.ndarray:
    """(N,) the group of each of N texts: texts that are the same or near are in one, and so are those near to these."""
    keys = [plain(text) or text.casefold() for text in texts]
    different = list(dict.fromkeys(keys))
    row_of = {key: row for row, key in enumerate(different)}
    pairs = near_pairs(different)
    links = sparse.coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(different),) * 2)
    group_of = connected_components(links, directed=False)[1]
    return np.array([group_of[row_of[key]] for key in keys], dtype=np.int64)


def near_any(texts: Collection[str], others: Collection[str]) -> set[str]:
    """Those of the texts that are the same as one of the others, or near to it."""
    keys = {text: plain(text) or text.casefold() for text in (*texts, *others)}
    wanted = {keys[other] for other in others}
    different = list(dict.fromkeys(keys.values()))
    near = set(wanted)
    for pair in near_pairs(different):
        one, other = different[pair[0]], different[pair[1]]
        if one in wanted or other in wanted:
            near |= {one, other}
    return {text for text in texts if keys[text] in near}


def _grams(texts: Sequence[str]) -> sparse.csr_matrix:
    """Shape (N, grams): which text has which 5-gram; the columns from rare to frequent, in order in each row."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    windows = np.maximum(lengths - SIZE + 1, 0)
    begins = np.cumsum(lengths) - lengths
    place = np.arange(windows.sum()) + np.repeat(begins - (np.cumsum(windows) - windows), windows)
    used = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.uint64)
    used[codes] = 1
    letters = (np.cumsum(used, dtype=np.uint64) - used)[codes]
    base = used.sum(dtype=np.uint64)  # exact up to 7,131 different characters; with more, 64 bits of a hash
    number = np.zeros(len(place), dtype=np.uint64)
    for step in range(SIZE):
        number = number * base + letters[place + step]
    different, column = np.unique(number, return_inverse=True)
    rank = np.empty(len(different), dtype=np.int32)
    rank[np.argsort(np.bincount(column, minlength=len(rank)), kind="stable")] = np.arange(len(rank))
    starts = np.concatenate([[0], np.cumsum(windows)])
    ones = np.ones(len(column), dtype=np.int32)
    matrix = sparse.csr_matrix((ones, rank[column], starts), shape=(len(texts), max(len(rank), 1)))
    matrix.sum_duplicates()  # sorts each row, too
    matrix.data[:] = 1  # a gram that stands twice in a text is one member of its set
    return matrix


def _prefixes(grams: sparse.csr_matrix, lengths: np.ndarray) -> sparse.csr_matrix:
    """The first `lengths` members of each row."""
    within = np.arange(grams.nnz) - np.repeat(grams.indptr[:-1], np.diff(grams.indptr))
    kept = within < np.repeat(lengths, np.diff(grams.indptr))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix((grams.data[kept], grams.indices[kept], ends), shape=grams.shape)
