"""Synonyms: other words for what users ask, one group per line of a file.

SAP = payroll system = personnel portal     each is searched as the others, too
lift => elevator                            a question with the left words is searched with the right ones, too
# a comment
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, islice, product
from pathlib import Path

from ap_ranker.errors import InputError, one_line
from ap_ranker.safe_open import decode, open_file
from ap_ranker.text.languages import stem
from ap_ranker.text.reading import joined_words, look_alike, surface_words

MOST = 16  # maximum number of forms in which a question is searched: each takes as long as the question itself

Words = tuple[str, ...]


@dataclass(frozen=True)
class SearchedForm:
    """A question as it is searched, with what was asked and what is searched in its place, if anything."""

    text: str
    replaced: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Synonyms:
    """The synonyms of a file, for the stemmer of a language: words as they are compared -> `others`, searched, too.

    `lengths` are the numbers of words of synonyms, the largest first.
    """

    others: dict[Words, tuple[Words, ...]]
    lengths: tuple[int, ...]
    language: str | None

    @cached_property
    def _known_words(self) -> frozenset[str]:
        """All words that synonyms are asked by."""
        return frozenset(chain.from_iterable(self.others))

    def forms(self, question: str) -> list[str]:
        """The texts of `searched`."""
        return [form.text for form in self.searched(question)]

    def searched(self, question: str) -> list[SearchedForm]:
        """The question; then with each of its synonyms replaced, one at a time; then two at a time, and so on."""
        words = tuple(_read(question, self.language, self._known_words))
        keys = _keys(words, self.language)
        places: list[tuple[int, int, tuple[Words, ...]]] = []
        start = 0
        while start < len(words):
            length = self._longest_at(start, keys)
            if length:
                places.append((start, length, self.others[keys[start : start + length]]))
            start += length or 1
        return [SearchedForm(question), *islice(_replaced(words, places), MOST - 1)]

    def _longest_at(self, start: int, keys: Words) -> int:
        """The number of words of the longest synonym that begins at this place; 0 if none does."""
        for length in self.lengths:
            if start + length <= len(keys) and keys[start : start + length] in self.others:
                return length
        return 0


def _replaced(words: Words, places: Sequence[tuple[int, int, tuple[Words, ...]]]) -> Iterator[SearchedForm]:
    """The forms with one place replaced, then with two, and so on: each with every synonym of its places."""
    for count in range(1, len(places) + 1):
        for chosen in combinations(places, count):
            synonyms = [replacements for _, _, replacements in chosen]
            for replacements in product(*synonyms):
                form = list(words)
                replaced: list[tuple[str, str]] = []
                # From the end, so that the places before stay where they are.
                for (start, length, _), replacement in zip(reversed(chosen), reversed(replacements), strict=True):
                    replaced.append((" ".join(words[start : start + length]), " ".join(replacement)))
                    form[start : start + length] = replacement
                yield SearchedForm(" ".join(form), tuple(replaced))


def _keys(words: Words, language: str | None) -> Words:
    """Words as they are compared."""
    alike = tuple(map(look_alike, words))
    if language is None:
        return alike
    return tuple(stem(word, language) for word in alike)


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
    synonyms = {key: tuple(searched) for key, searched in others.items()}
    return Synonyms(synonyms, lengths, language)


def _read(text: str, language: str | None, vocabulary: Container[str] | None = None) -> list[str]:
    """The words of a text; one of several parts ("e-mail", "U.S.A.") joined, if the `vocabulary` has that word."""
    words: list[str] = []
    for written in text.split():
        parts = surface_words(written)
        joined = "".join(parts)
        is_one_word = len(parts) > 1 and len(joined_words(written)) == 1 and len(surface_words(joined)) == 1
        if is_one_word and (vocabulary is None or _keys((joined,), language)[0] in vocabulary):
            words.append(joined)
        else:
            words += parts
    return words


def _pairs(text: str, language: str | None, place: str) -> Iterator[tuple[Words, list[Words]]]:
    """What is asked, as it is compared, and what is searched in its place, of one line: of many words the first."""
    one_way = "=>" in text
    terms = text.split("=>" if one_way else "=")
    searched_words = [tuple(surface_words(term)) for term in terms]
    if len(terms) < 2 or (one_way and len(terms) > 2) or not all(searched_words):
        raise InputError(
            f"{place}: expected words = other words, or words => other words; found {one_line(repr(text), 80)}."
        )
    keys = [_keys(words, language) for words in searched_words]
    asked: dict[Words, None] = {}
    n_asked = 1 if one_way else len(terms)
    for term, key in zip(terms[:n_asked], keys[:n_asked], strict=True):
        asked[key] = None
        asked[_keys(tuple(_read(term, language)), language)] = None
    for key in asked:
        searched: list[Words] = []
        for words, other_key in zip(searched_words, keys, strict=True):
            if other_key != key:
                searched.append(words)
            if len(searched) == MOST:
                break
        if searched:
            yield key, searched
