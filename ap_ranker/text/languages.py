"""What depends on a language: stemmers, and libraries that find the words of those without spaces between them.

Snowball's stemmers map the forms of a word ("parcel", "parcels") to one stem. Each library that finds words is an
extra; it gets the runs of its own scripts only, as it would split words of others at their accents.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock

import regex

from ap_ranker.errors import check_known, extra_for

Cut = Callable[[str], Iterable[str]]  # splits a run of characters into words, which together are the run

UNSPACED = r"\p{Han}\p{Bopomofo}\p{Hiragana}\p{Katakana}\u30fc\u3005\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts without spaces between words, and the signs that prolong or repeat their characters, for a set of `regex`."""

LONGEST_RUN = 500
"""Characters that a library gets at once: sudachipy refuses over 16,000, pythainlp's time grows with the square."""

_lock = Lock()  # sudachipy refuses two threads at once; the others are no faster with two


@dataclass(frozen=True)
class Library:
    """What splits a language's words: its extra, the characters that it gets, for a set of `regex`, and its import."""

    extra: str
    scripts: str
    load: Callable[[], Cut]


@dataclass(frozen=True)
class Segmenter:
    """Splits texts into words, by the library of that name; as small as its name where it is copied or pickled."""

    name: str

    def __call__(self, text: str) -> str:
        """The text with spaces around each word, and around the characters of other scripts without spaces."""
        return _runs(self.name, rf"|(?=[{UNSPACED}])\X").sub(
            lambda run: f" {' '.join(self._cut(run[0])) if run['own'] else run[0]} ", text
        )

    def words(self, run: str) -> list[tuple[str, bool]]:
        """The words of a run, and what lies between runs of the library's scripts; whether each is a word."""
        found = _runs(self.name, rf"|[^{SEGMENTERS[self.name].scripts}]+").finditer(run)
        return [(part, bool(one["own"])) for one in found for part in (self._cut(one[0]) if one["own"] else [one[0]])]

    def _cut(self, run: str) -> list[str]:
        with _lock:
            return [word for word in _loaded(self.name)(run) if word]


def find_segmenter(name: str | None) -> Segmenter | None:
    """Look up a segmenter by its name; InputError if it does not exist, or its package is not installed."""
    if name is None:
        return None
    check_known("segmenter", name, SEGMENTERS)
    with extra_for(f"The segmenter {name} needs", SEGMENTERS[name].extra):
        _loaded(name)
    return Segmenter(name)


def bm25_segmenter(language: str | None) -> Segmenter | None:
    """The segmenter of a language that BM25 reads as words; `None` for others."""
    return find_segmenter(BM25_SEGMENTERS.get(language)) if language else None


@cache
def _loaded(name: str) -> Cut:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated imports and string escapes in the libraries themselves
        return SEGMENTERS[name].load()


@cache
def _runs(name: str, others: str) -> regex.Pattern[str]:
    return regex.compile(rf"(?P<own>[{SEGMENTERS[name].scripts}]{{1,{LONGEST_RUN}}}){others}")


def _jieba() -> Cut:
    import jieba

    jieba.setLogLevel(logging.WARNING)  # it logs the loading of its dictionary to stderr
    return jieba.cut


def _pythainlp() -> Cut:
    os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")  # it would make a folder in the user's home, which may be none
    from pythainlp.tokenize import newmm

    return newmm.segment


def _sudachipy() -> Cut:
    import sudachipy

    tokenizer = sudachipy.Dictionary(dict="small").tokenizer(mode=sudachipy.SplitMode.A)  # A: the shortest words
    return lambda run: (word.surface() for word in tokenizer.tokenize(run))


def _kiwipiepy() -> Cut:
    import kiwipiepy

    # Its list of terms of several words takes 200 MB, and it gets single words.
    kiwi = kiwipiepy.Kiwi(num_workers=1, load_multi_dict=False)

    def cut(run: str) -> Iterable[str]:
        starts = sorted({0, *(part.start for part in kiwi.tokenize(run))})  # 했어요 is 했|어요: 했 is two parts in one
        return (run[start:end] for start, end in zip(starts, [*starts[1:], len(run)], strict=True))

    return cut


SEGMENTERS = {
    "jieba": Library(
        "chinese",
        "\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f",
        _jieba,
    ),
    "pythainlp": Library("thai", r"\p{Thai}", _pythainlp),
    "sudachipy": Library("japanese", r"\p{Han}\p{Hiragana}\p{Katakana}\u30fc\u3005", _sudachipy),
    "kiwipiepy": Library("korean", r"\p{Hangul}", _kiwipiepy),
}
"""Segmenters by name, which is that of the package."""

BM25_SEGMENTERS = {"thai": "pythainlp"}
"""Language of BM25 -> its segmenter. Not Chinese, Japanese and Korean: there, words found no more than pairs do."""


def is_language(language: object) -> bool:
    """Whether there is a stemmer for a language, or a segmenter that BM25 uses."""
    return language in _languages()


def check_language(language: object) -> None:
    """Raise InputError if a language has neither, or its segmenter's package is not installed; `None` is fine."""
    if language is not None:
        check_known("language, which is null for Chinese, Japanese and Korean,", language, _languages())
        bm25_segmenter(str(language))


def _languages() -> list[str]:
    import snowballstemmer  # on use: loading its 36 languages takes 40 ms

    return sorted([*snowballstemmer.algorithms(), *BM25_SEGMENTERS])


@lru_cache(maxsize=2**17)  # InsuranceQA's 2.8 million words are 22,858 different ones: two seconds instead of a minute
def stem(word: str, language: str) -> str:
    """The stem of a lower-cased word; `language` is one that passes `check_language`. A Thai word is its stem."""
    import snowballstemmer

    if language in BM25_SEGMENTERS:
        return word
    # A stemmer of its own for each word: it keeps the word while it works, and threads may call this at once.
    return snowballstemmer.stemmer(language).stemWord(word) or word
