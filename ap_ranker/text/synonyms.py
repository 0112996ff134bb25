"""Synonyms: other words for what users ask, one group per line of a file.

SAP = payroll system = personnel portal     each is searched as the others, too
lift => elevator                            a question with the left words is searched with the right ones, too
# a comment
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ap_ranker.errors import InputError, one_line
from ap_ranker.safe_open import decode, open_file
from ap_ranker.text.languages import stem
from ap_ranker.text.reading import look_alike, surface_words

MOST = 16  # maximum number of forms in which a question is searched: each takes as long as the question itself

Words = tuple[str, ...]


@dataclass(frozen=True)
class Synonyms:
    """The synonyms of a file, for the stemmer of a language: words as they are compared -> `others`, searched, too.

    `lengths` are the numbers of words of synonyms, the largest first.
    """

    others: dict[Words, tuple[Words, ...]]
    lengths: tuple[int, ...]
    language: str | None

    def forms(self, question: str) -> list[str]:
        """The question; then with each of its synonyms replaced, one at a time; then with all of them replaced."""
        words = tuple(surface_words(question))
        keys = _keys(words, self.language)
        places: list[tuple[int, int, tuple[Words, ...]]] = []
        i = 0
        while i < len(words):
            fitting = (length for length in self.lengths if i + length <= len(words))
            length = next((length for length in fitting if keys[i : i + length] in self.others), 0)
            if length:
                places.append((i, length, self.others[keys[i : i + length]]))
            i += length or 1
        return [question, *islice(_replaced(words, places), MOST - 1)]


def _replaced(words: Words, places: Sequence[tuple[int, int, tuple[Words, ...]]]) -> Iterator[str]:
    for start, length, others in places:
        for other in others:
            yield " ".join((*words[:start], *other, *words[start + length :]))
    if len(places) > 1:
        everywhere = list(words)
        for start, length, others in reversed(places):
            everywhere[start : start + length] = others[0]
        yield " ".join(everywhere)


def _keys(words: Words, language: str | None) -> Words:
    alike = tuple(map(look_alike, words))
    return alike if language is None else tuple(stem(word, language) for word in alike)


def read_synonyms(path: str | Path, language: str | None = None) -> Synonyms:
    """Read a file of synonyms, UTF-8 text, to be compared by the stems of a language or as whole words."""
    path = Path(path)
    with open_file(path) as file:
        content = file.read()
    others: dict[Words, dict[Words, None]] = {}
    for number, line in enumerate(decode(content, path).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        for key, searched in _pairs(text, language, f"{path}, line {number}"):
            others.setdefault(key, {}).update(dict.fromkeys(searched))
    lengths = tuple(sorted({len(key) for key in others}, reverse=True))
    return Synonyms({key: tuple(each) for key, each in others.items()}, lengths, language)


def _pairs(text: str, language: str | None, place: str) -> Iterator[tuple[Words, list[Words]]]:
    """What is asked, as it is compared, and what is searched in its place, of one line: of many words the first."""
    one_way = "=>" in text
    parts = [tuple(surface_words(part)) for part in re.split("=>" if one_way else "=", text)]
    if len(parts) < 2 or (one_way and len(parts) > 2) or not all(parts):
        raise InputError(
            f"{place}: expected words = other words, or words => other words; found {one_line(repr(text), 80)}."
        )
    keys = [_keys(part, language) for part in parts]
    for key in dict.fromkeys(keys[:1] if one_way else keys):
        others = (part for part, other in zip(parts, keys, strict=True) if other != key)
        if searched := list(islice(others, MOST)):
            yield key, searched
