"""Questions that are known wordings of an entry, word for word: their answer needs no model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from ap_ranker.text.keys import question_key

_key = lru_cache(maxsize=50_000)(question_key)  # every question is compared with the same wordings


def is_exact_match(question: str, wordings: Sequence[Iterable[str]]) -> list[bool]:
    """Whether a question is a known wording of each of N entries, whatever its case, white space, final punctuation.

    Args:
        question: the question of the user.
        wordings: the stored question and the known wordings of each entry.
    """
    asked = question_key(question)
    return [bool(asked) and any(_key(text) == asked for text in texts) for texts in wordings]
