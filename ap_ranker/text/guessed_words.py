"""Reads words that no text has as known ones: several that were run together, and one without its vowels.

Only a word that would find nothing is read so: "howdoicancelmyorder", "cncl my ordr". BM25 asks for what was meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable

import regex

LEAST_RUN = 8
LONGEST_RUN = 50
"""Letters of a word that may be several ones, from the first number to the second."""

LONGEST_PIECE = 20

LEAST_PIECE = 4
"""Minimum number of letters of the longest piece, and of both of two pieces: shorter words are in too many others."""

LEAST_LIGHT = 3
"""Minimum number of letters of a light word that is a piece without being known."""

LETTERS_ALONE = frozenset("aioy")
"""Words of one letter, in some language."""

LEAST_CONSONANTS = 3
"""Minimum number of letters of a word without its vowels."""

MOST_MEANT = 3
"""Known words up to which a word without vowels may be any of them; more would be a guess."""

_VOWELS = regex.compile(r"(?<=.)[aeiouy]")
_AGAIN = regex.compile(r"(.)\1+")
_WITHOUT_VOWELS = regex.compile(r"[a-z][b-df-hj-np-tv-z]*y?[b-df-hj-np-tv-z]*")
_ENDINGS = ("", "ng", "s", "d", "r", "nt")
"""What is left of "-ing", "-s", "-ed", "-er": a stem lacks it."""


def pieces_of(word: str, is_known: Callable[[str], bool], light: Container[str] = ()) -> list[str]:
    """The fewest known words that a word consists of, from one end to the other; none if it does not.

    `light` words may be pieces, too, without being known. A word of one letter counts as two.
    """
    length = len(word)
    if not LEAST_RUN <= length <= LONGEST_RUN or not word.isalpha():
        return []
    # For the word's beginning of each length: the lowest cost of pieces, and these; `None` if there are none.
    best: list[tuple[int, list[str]] | None] = [(0, []), *[None] * length]
    for end in range(1, length + 1):
        for start in range(max(0, end - LONGEST_PIECE), end):
            before = best[start]
            piece = word[start:end]
            is_letter = len(piece) == 1
            if before is None or (is_letter and piece not in LETTERS_ALONE):
                continue
            cost_before, pieces_before = before
            cost = cost_before + (2 if is_letter else 1)
            current = best[end]
            is_light = len(piece) >= LEAST_LIGHT and piece in light
            if (current is None or cost < current[0]) and (is_light or is_known(piece)):
                best[end] = cost, [*pieces_before, piece]
    whole = best[length]
    if whole is None:
        return []
    _, pieces = whole
    is_short = len(pieces) < 2 or (len(pieces) == 2 and min(map(len, pieces)) < LEAST_PIECE)
    says_something = any(len(piece) >= LEAST_PIECE and piece not in light and is_known(piece) for piece in pieces)
    return pieces if says_something and not is_short else []


class Consonants:
    """Known words by their first letter and the consonants behind it."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words: defaultdict[str, list[str]] = defaultdict(list)
        for word in words:
            if word.isascii() and word.isalpha():
                self._words[_consonants(word)].append(word)

    def meant(self, word: str) -> list[str]:
        """The known words of which a word may be the consonants; none if it has vowels, or is any of too many."""
        if len(word) < LEAST_CONSONANTS or not _WITHOUT_VOWELS.fullmatch(word):
            return []
        consonants = _consonants(word)
        for ending in _ENDINGS:
            if not consonants.endswith(ending):
                continue
            stem = consonants.removesuffix(ending)
            if len(stem) < LEAST_CONSONANTS:
                continue
            candidates: list[str] = []
            for known_word in self._words.get(stem, ()):
                if len(known_word) > len(stem):
                    candidates.append(known_word)
                if len(candidates) > MOST_MEANT:  # any of too many
                    return []
            if candidates:
                return candidates
        return []


def _consonants(word: str) -> str:
    return _AGAIN.sub(r"\1", _VOWELS.sub("", word))
