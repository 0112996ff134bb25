"""Reads a word that a vocabulary lacks as the known word, or the two, that it most likely is.

The first of these that there is:

1. the same without accents and by any keyboard (`fold`): the most frequent one ("sifre": "şifre", "grosse": "größe");
2. another ending: the longest known word that it begins with, of four letters or more, up to three letters shorter
   ("rusting": "rust");
3. a typing error in a word of five letters or more: the known word with the same first letter at a distance of one
   change, of two from eight letters on ("langauges": "languages"); accents are no changes. Of several it is the
   closest, then the most frequent. A change is a letter too many, too few or another one, or two neighbours
   exchanged: the distance of Damerau (1964), as optimal string alignment;
4. a compound: two known words of three letters or more, the first as long as possible ("headlamp": "head", "lamp").

Only words of letters and their marks are read so; "12v" and "a4-1200" stay unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any

import regex
from rapidfuzz import process
from rapidfuzz.distance import OSA

from ap_ranker.text.reading import fold

LETTERS = 4
"""Minimum number of letters of a known word: shorter ones are like too many others."""

PART = 3
"""The same of each part of a compound."""

ENDING = 3
"""Maximum number of letters of an ending."""

LONG = 8
"""Number of letters from which a word may have two changes."""

LONGEST = 50
"""Maximum number of letters of a word, as of real ones."""

KEPT = 10_000  # number of words whose neighbours are kept, as users repeat them

_VIRAMA = regex.compile(r"\p{Indic_Syllabic_Category=Virama}")
_LETTERS = regex.compile(r"\p{L}[\p{L}\p{M}]*")


class NearestWords:
    """The known words that unknown ones are read as; of a vocabulary, most frequent words first."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = dict.fromkeys(words)  # a set that keeps their order
        self._kept_nearest = lru_cache(KEPT)(self._nearest)

    def __reduce__(self) -> tuple[Any, ...]:
        return NearestWords, (tuple(self._words),)

    def read(self, word: str) -> tuple[str, ...]:
        """One or two known words; none if no known word is near."""
        if LETTERS < len(word) <= LONGEST and _is_word(word):
            return self._kept_nearest(word)
        return ()

    def _nearest(self, word: str) -> tuple[str, ...]:
        """As `read`, by the rules above, in their order."""
        folded = _folded(word)
        same_letters = self._by_folded.get(folded)
        if same_letters:
            return (same_letters,)
        shortest = max(LETTERS, len(word) - ENDING)
        for end in range(len(word) - 1, shortest - 1, -1):
            if word[:end] in self._words:
                return (word[:end],)
        changes = 1 if len(word) < LONG else 2
        same_first_letter = self._by_letter.get(folded[:1], [])
        near = process.extractOne(folded, same_first_letter, scorer=OSA.distance, score_cutoff=changes)
        if near:  # the first of equals
            return (self._by_folded[near[0]],)
        for end in range(len(word) - PART, PART - 1, -1):
            first = word[:end]
            second = word[end:]
            if first in self._words and second in self._words:
                return first, second
        return ()

    @cached_property
    def _by_folded(self) -> dict[str, str]:
        """The words that an unknown one may be, by what is left of them without accents; the most frequent of each."""
        by_folded: dict[str, str] = {}
        for word in self._words:
            if len(word) >= LETTERS and _is_word(word):
                by_folded.setdefault(_folded(word), word)
        return by_folded

    @cached_property
    def _by_letter(self) -> dict[str, list[str]]:
        """The same without accents by their first letter, most frequent first."""
        by_letter = defaultdict(list)
        for folded in self._by_folded:
            by_letter[folded[:1]].append(folded)
        return dict(by_letter)


def _folded(word: str) -> str:
    """Without accents, and without the sign that joins two Indic consonants, which is typed and lost with one."""
    return _VIRAMA.sub("", fold(word))


def _is_word(word: str) -> bool:
    return word.isalpha() or _LETTERS.fullmatch(word) is not None
