"""Parts of questions for cross-fitting: each part is measured by what was fitted to the others.

Near copies stay in one part, so that no question is measured by a fit to its own copy.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ap_ranker.text.near_copies import near_groups

PARTS = 5
"""Number of parts: a fit to four fifths of the questions is hardly worse than one to all."""


def parts_of(texts: Sequence[str], count: int = PARTS, seed: int = 0) -> list[NDArray[np.int64]]:
    """Rows of the questions in each part, ascending; none if all questions are near copies of each other.

    The groups of near copies are drawn at random, and each goes into the smallest part.
    """
    rows_of: defaultdict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(near_groups(texts).tolist()):
        rows_of[group].append(row)
    groups = list(rows_of.values())
    if len(groups) < 2:
        return []
    random.Random(seed).shuffle(groups)
    groups.sort(key=len, reverse=True)
    parts: list[list[int]] = [[] for _ in range(min(count, len(groups)))]
    for group in groups:
        min(parts, key=len).extend(group)
    return [np.array(sorted(part), dtype=np.int64) for part in parts]


def others(part: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """The rows that are not in a part."""
    return np.setdiff1d(np.arange(total), part)
