"""Whether two candidates are the same answer: copies with another id or meta, perhaps with a word changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ap_ranker.text.near import NEAR, SIZE, near_key


def same_answer(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two candidates are copies: each text of one is nearly that of the other.

    Args:
        one: what is matched and the answer alone, so that "No." to the same question is another answer than "Yes.".
        other: the same of another candidate.
    """
    return all(map(_is_near, one, other))


def _is_near(one: str, other: str) -> bool:
    """Whether texts are equal but for case, punctuation and white space, or near (`text/near.py`)."""
    if one == other:
        return True
    grams, others = _grams(one), _grams(other)
    return len(grams & others) >= NEAR * len(grams | others) - 1e-9


@lru_cache(maxsize=1_000)  # of a long answer 25 KB
def _grams(text: str) -> frozenset[int]:
    """The 5-grams of a text, as hashes; a shorter text is one."""
    key = near_key(text)
    return frozenset(hash(key[start : start + SIZE]) for start in range(max(1, len(key) - SIZE + 1)))
