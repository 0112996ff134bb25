"""Reads a word that a vocabulary lacks as the known word, or the two, that it most likely is.

The first of these that there is:

1. another ending: the longest known word that it begins with, of four letters or more, up to three letters shorter
   ("rusting": "rust");
2. a typing error in a word of five letters or more: the known word with the same first letter at a distance of one
   change, of two from eight letters on ("langauges": "languages"). Of several it is the closest, then the most
   frequent. A change is a letter too many, too few or another one, or two neighbours exchanged: the distance of
   Damerau (1964), as optimal string alignment;
3. a compound: two known words of three letters or more, the first as long as possible ("headlamp": "head", "lamp").

Only words of letters are read so; "12v" and "a4-1200" stay unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from rapidfuzz import process
from rapidfuzz.distance import OSA

LETTERS, PART = 4, 3
"""Minimum number of letters of a known word, and of each part of a compound: shorter ones are like too many others."""

ENDING = 3
"""Maximum number of letters of an ending."""

LONG = 8
"""Number of letters from which a word may have two changes."""

LONGEST = 50
"""Maximum number of letters of a word that is read so: longer ones are no words, and would take long."""

KEPT = 10_000
"""Number of words whose neighbours are kept, as users repeat them."""


class NearestWords:
    """The known words that unknown ones are read as.

    Args:
        words: the vocabulary, most frequent first.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = dict.fromkeys(words)  # a set that keeps their order
        self._found: dict[str, tuple[str, ...]] = {}

    def read(self, word: str) -> tuple[str, ...]:
        """One or two known words; none if no known word is near."""
        if not (LETTERS < len(word) <= LONGEST and word.isalpha()):
            return ()
        found = self._found.get(word)
        if found is None:
            found = self._read(word)
            if len(self._found) >= KEPT:
                self._found.clear()
            self._found[word] = found
        return found

    def _read(self, word: str) -> tuple[str, ...]:
        beginnings = (word[:end] for end in range(len(word) - 1, max(LETTERS, len(word) - ENDING) - 1, -1))
        if known := next(filter(self._words.__contains__, beginnings), None):
            return (known,)
        changes = 1 if len(word) < LONG else 2
        near = process.extract(
            word, self._by_letter.get(word[0], ()), scorer=OSA.distance, score_cutoff=changes, limit=None
        )
        if near:
            return (min(near, key=lambda found: (found[1], found[2]))[0],)  # the distance, then the place in the list
        parts = ((word[:end], word[end:]) for end in range(len(word) - PART, PART - 1, -1))
        return next((pair for pair in parts if self._words.keys() >= set(pair)), ())

    @cached_property
    def _by_letter(self) -> dict[str, list[str]]:
        """The words that a misspelt one may be, by their first letter, most frequent first."""
        by_letter = defaultdict(list)
        for word in self._words:
            if word.isalpha() and len(word) >= LETTERS:
                by_letter[word[0]].append(word)
        return dict(by_letter)
