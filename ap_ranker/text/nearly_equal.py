"""Whether two texts are nearly equal: the Jaccard index of their sets of character 5-grams is at least `NEAR`.

Of a text only its words count, in lower case, with one space between them (`bare`). Among many texts, `near_copies.py`
finds all such pairs without comparing every two of them; that needs SciPy, and two texts alone do not.
"""

from __future__ import annotations

from functools import lru_cache

from ap_ranker.text.reading import bare

NEAR = 0.8
SIZE = 5


def near_key(text: str) -> str:
    """A form that is equal for texts with the same words; of a text without words, the text in lower case."""
    return bare(text) or text.casefold()


def nearly_equal(one: str, other: str) -> bool:
    """Whether texts are equal but for case, punctuation and white space, or near."""
    if one == other:
        return True
    grams, others = _grams(one), _grams(other)
    return len(grams & others) >= NEAR * len(grams | others) - 1e-9


@lru_cache(maxsize=1_000)  # of a long answer 25 KB
def _grams(text: str) -> frozenset[int]:
    """The 5-grams of a text, as hashes; a shorter text is one."""
    key = near_key(text)
    return frozenset(hash(key[start : start + SIZE]) for start in range(max(1, len(key) - SIZE + 1)))
