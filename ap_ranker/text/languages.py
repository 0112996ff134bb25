"""What depends on a language: stemmers, and what words are where there are no spaces between them.

Snowball's stemmers map the forms of a word ("parcel", "parcels") to one stem. The library that finds the words of Thai,
the extra `thai`, gets runs of Thai only, as it would split words of others at their accents.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

import regex

from ap_ranker.errors import InputError, check_known, extra_for

UNSPACED = r"\p{Han}\p{Bopomofo}\p{Hiragana}\p{Katakana}\u30fc\u3005\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts without spaces between words, and the signs that prolong or repeat their characters, for a set of `regex`."""

LONGEST_RUN = 500
"""Characters that the library gets at once: its time grows with the square."""

THAI = "thai"
"""The language whose words BM25 reads. Not Chinese, Japanese and Korean: there, words found no more than pairs do."""

CHARACTER = regex.compile(r"\X")
_CHINESE = regex.compile(r"\p{Han}")
_THAI_RUN = regex.compile(rf"(?P<thai>\p{{Thai}}{{1,{LONGEST_RUN}}})|\P{{Thai}}+")


def unspaced_words(run: str, language: str | None) -> Iterator[tuple[tuple[str, ...], ...]]:
    """The words of a run, as `read_words` returns them: of Thai, each whole or as its pairs; pairs elsewhere."""
    parts = thai_words(run) if language == THAI else [(run, False)]
    for part, is_word in parts:
        if is_word:
            terms = tuple(_singles_and_pairs(part))
            yield tuple(dict.fromkeys([(part,), terms]))
        else:
            for term in _singles_and_pairs(part):
                yield ((term,),)


def _singles_and_pairs(run: str) -> Iterator[str]:
    characters = CHARACTER.findall(run)
    for i, character in enumerate(characters):
        if _CHINESE.match(character) or len(characters) == 1:
            yield character
        if i:
            yield characters[i - 1] + character


def pairs(run: str) -> list[str]:
    """All pairs of neighbouring letters, in order; a single letter alone."""
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


def thai_words(run: str) -> list[tuple[str, bool]]:
    """The words of a run, and what lies between runs of Thai; whether each is a word."""
    cut = _thai_library()
    parts: list[tuple[str, bool]] = []
    for match in _THAI_RUN.finditer(run):
        if match["thai"]:
            parts += [(word, True) for word in cut(match[0]) if word]
        elif match[0]:
            parts.append((match[0], False))
    return parts


@cache
def _thai_library() -> Callable[[str], list[str]]:
    """What splits a run into words, which together are the run; InputError if the package is not installed."""
    os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")  # it would make a folder in the user's home, which may be none
    with extra_for("The language thai needs", "thai"):
        from pythainlp.tokenize import newmm

    return newmm.segment


WITHOUT_STEMMER = ("chinese", "japanese", "korean")
"""Languages whose words BM25 needs no stemmer for."""


def is_language(language: object) -> bool:
    """Whether there is a stemmer for a language, or it is Thai."""
    return language in _languages()


def check_language(language: object) -> None:
    """Raise InputError if a language is none of these, or what reads Thai is not installed; `None` is fine."""
    if str(language).casefold() in WITHOUT_STEMMER:
        raise InputError(
            f"Expected no language for Chinese, Japanese and Korean, found {language!r}. Leave it out, or write null."
        )
    if language is not None:
        check_known("language", language, _languages())
    if language == THAI:
        _thai_library()


def _languages() -> list[str]:
    import snowballstemmer  # on use: loading its 36 languages takes 40 ms

    return sorted([*snowballstemmer.algorithms(), THAI])


LONGEST_KEPT = 50
"""Characters up to which what was read of a word is kept, as most words come again: long ones would fill the memory."""


def stem(word: str, language: str) -> str:
    """The stem of a lower-cased word; `language` is one that passes `check_language`. A Thai word is its stem."""
    if language == THAI:
        return word
    if len(word) <= LONGEST_KEPT:
        return _stem(word, language)
    return _stem.__wrapped__(word, language)


@lru_cache(maxsize=2**17)  # InsuranceQA's 2.8 million words are 22,858 different ones: two seconds instead of a minute
def _stem(word: str, language: str) -> str:
    import snowballstemmer

    # A stemmer of its own for each word: it keeps the word while it works, and threads may call this at once.
    return snowballstemmer.stemmer(language).stemWord(word) or word
