"""The words by which questions are compared: what is asked, without greetings, thanks, signatures and light words.

    text --clauses--> words of each --greeting, signature, polite words--> what is asked --light words--> words

The lists are in `polite_words.toml`, for each language of the search page; all of them are read together, since a few
words do not tell their language. A text of another language only keeps more words, and is compared more strictly.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import regex

from ap_ranker.text.languages import LONGEST_KEPT, UNSPACED
from ap_ranker.text.reading import fold, look_alike, lower, plain

Words = tuple[str, ...]

MOST_NAMES = 4
"""Words after a greeting, up to the next comma, that are a name: "Dear Fjordline customer service"."""

MOST_BELOW = 6
"""Words that may follow a closing on the same line, such as a name: "Best regards, Anna"."""

LEAST_SHARE = 0.5
"""Share of a text's words that one of its sentences must have to stand for the text."""

LEAST_SENTENCE = 5
"""Minimum number of words of such a sentence."""

MOST_CHARACTERS = 10_000
"""Characters of a text that are read."""

LONGEST_ARTICLE = 2
"""Letters before an apostrophe that are a word of their own, as in "l'eau"; "don't" is one word."""

_CLAUSE = regex.compile(
    r"[,;:.?!()\[\]|\n\u3002\uff1f\uff01\uff0c\u3001\uff1a\uff1b\u061f\u060c\u0964]+|(?<=\s)[-\u2013\u2014]+(?=\s)"
)
_SENTENCE_END = regex.compile(r"[;:.?!|\n\u3002\uff1f\uff01\uff1a\uff1b\u061f\u0964\[\]]|(?<=\s)[-\u2013\u2014]+(?=\s)")
NUMBER_SIGN = regex.compile(r"(?<=\d)[.,:](?=\d)")
"""What stands within a number: 1.5 and 8:30 are one word."""

_NAME_BELOW = regex.compile(
    r"(?<=[.?!\u3002\uff1f\uff01])[ \t]*+\n\s*+(?:[-\u2013\u2014]++\s*+)?+"
    r"\p{Lu}[\p{L}.'\u2019-]*+(?:[ \t]++\p{Lu}[\p{L}.'\u2019-]*+){0,2}[ \t]*$"
)
_LINE_BELOW = regex.compile(r"\n[-_]{2,}[ \t]*(?:\n.*)?$", regex.DOTALL)
_SHORTENED = regex.compile(r"^(\p{L}+)'(?:s|m|re|ve|ll|d)$")
_TOKEN = regex.compile(rf"[{UNSPACED}]\p{{M}}*|[\p{{L}}\p{{N}}\p{{M}}'--[{UNSPACED}]]+[+#]*", regex.V1)
_UNSPACED = regex.compile(rf"[{UNSPACED}]")
_HAN = regex.compile(r"\p{Han}")


class Phrases:
    """Groups of words, to be found at a place of a text."""

    def __init__(self, phrases: Iterable[Words]) -> None:
        self.phrases = list(phrases)
        self._by_first: defaultdict[str, set[Words]] = defaultdict(set)
        self._by_last: defaultdict[str, set[Words]] = defaultdict(set)
        for phrase in self.phrases:
            self._by_first[phrase[0]].add(phrase)
            self._by_last[phrase[-1]].add(phrase)

    def may_be_in(self, words: Set[str]) -> bool:
        """Whether one of the words begins a phrase; if none does, no phrase is in a text of these words."""
        return not self._by_first.keys().isdisjoint(words)

    def at(self, words: Sequence[str], start: int = 0) -> int:
        """Number of words of the longest phrase that begins at this place."""
        if start >= len(words):
            return 0
        longest = 0
        for phrase in self._by_first.get(words[start], ()):
            if len(phrase) > longest and tuple(words[start : start + len(phrase)]) == phrase:
                longest = len(phrase)
        return longest

    def at_end(self, words: Sequence[str]) -> int:
        """Number of words of the longest phrase that the words end with."""
        if not words:
            return 0
        longest = 0
        for phrase in self._by_last.get(words[-1], ()):
            if len(phrase) > longest and tuple(words[-len(phrase) :]) == phrase:
                longest = len(phrase)
        return longest


@dataclass(frozen=True)
class PoliteLists:
    """The lists of all languages, as words."""

    greetings: Phrases
    polite: Phrases
    closings: Phrases
    subjects: Phrases
    light: frozenset[str]
    negations: frozenset[str]


@cache
def word_lists(file: str) -> list[dict[str, Any]]:
    """The lists of words of each language in a file beside this one."""
    path = Path(__file__).with_name(file)
    return list(tomllib.loads(path.read_text(encoding="utf-8")).values())


def _languages() -> list[dict[str, Any]]:
    return word_lists("polite_words.toml")


@cache
def _same() -> dict[str, str]:
    """Another way to write a word -> the word."""
    same: dict[str, str] = {}
    for language in _languages():
        same.update(language.get("same", {}))
    return same


@cache
def _spellings() -> list[tuple[regex.Pattern[str], str]]:
    """Endings that are written in two ways, and the one of these that is compared."""
    spellings: list[tuple[regex.Pattern[str], str]] = []
    for language in _languages():
        for pattern, spelling in language.get("spellings", []):
            spellings.append((regex.compile(pattern), spelling))
    return spellings


@cache
def polite_lists() -> PoliteLists:
    """The lists of `polite_words.toml`, of all languages together."""

    def read(name: str) -> list[Words]:
        phrases: list[Words] = []
        for language in _languages():
            phrases += filter(None, map(compared_words, language[name]))
        return phrases

    def last_words(name: str) -> frozenset[str]:
        return frozenset(words[-1] for words in read(name))

    return PoliteLists(
        greetings=Phrases(read("greetings")),
        polite=Phrases(read("polite")),
        closings=Phrases(read("closings")),
        subjects=Phrases(read("subjects")),
        light=last_words("light"),
        negations=last_words("negations"),
    )


def is_fixed(word: str) -> bool:
    """Whether a copy has this word, too: a number, or one that turns a question into its opposite."""
    return word in polite_lists().negations or any(map(str.isdecimal, word))


def is_character(word: str) -> bool:
    """Whether a word is a character of a script without spaces."""
    return bool(_UNSPACED.match(word))


def size(words: Sequence[str]) -> float:
    """How much words say, in words of a script with spaces: one character of another says less."""
    total = 0.0
    for word in words:
        if not is_character(word):
            total += 1.0
        elif _HAN.match(word):
            total += 0.5
        else:
            total += 0.3
    return total


def question_words(text: str) -> list[Words]:
    """What a text asks, as words; also by a sentence alone that is most of it. Empty if there are no words."""
    text = text[:MOST_CHARACTERS].strip()
    readings = [words for words in _sentences(text) if words]
    spelled = [tuple(map(_spelled, words)) for words in readings]
    return list(dict.fromkeys([*readings, *spelled]))  # as it is, too: a slip may hide that there is another spelling


def asked_words(text: str) -> Words:
    """The words of what a whole text asks; none if it asks nothing."""
    return next(iter(question_words(text)), ())


def _sentences(text: str) -> Iterator[Words]:
    """The words of the whole text, and of each sentence that is most of it."""
    whole = _asked_by(text)
    yield whole
    least = max(LEAST_SENTENCE, LEAST_SHARE * size(whole))
    if size(whole) < LEAST_SENTENCE or not _SENTENCE_END.search(text[:-1]):
        return
    for sentence in _SENTENCE_END.split(NUMBER_SIGN.sub("", text)):
        words = _asked_by(sentence)
        if size(words) >= least:
            yield words


def _asked_by(text: str) -> Words:
    """The words of a text without those that ask nothing; of a text of nothing else, none."""
    lists = polite_lists()
    text = _NAME_BELOW.sub("", _LINE_BELOW.sub("", text.strip()))
    clauses: list[list[str]] = []
    for clause_text in _CLAUSE.split(NUMBER_SIGN.sub("", plain(text))):
        words = compared_words(clause_text)
        if words:
            clauses.append(list(words))
    clauses = _without_signature(_without_greeting(clauses))
    asked: list[str] = []
    for clause in clauses:
        asked += [word for word in _without_polite(clause) if word not in lists.light]
    return tuple(asked)


def _without_greeting(clauses: list[list[str]]) -> list[list[str]]:
    """Without subjects' "Re:" and a greeting with its name, and also without a greeting that no comma ends."""
    lists = polite_lists()
    while len(clauses) > 1:
        first = clauses[0]
        greeting = lists.greetings.at(first)
        is_subject = lists.subjects.at(first) == len(first)
        is_greeting = greeting > 0 and len(first) - greeting <= MOST_NAMES
        if not (is_subject or is_greeting):
            break
        clauses = clauses[1:]
    if clauses:
        greeting = lists.greetings.at(clauses[0])
        clauses = [clauses[0][greeting:], *clauses[1:]]
    return clauses


def _without_signature(clauses: list[list[str]]) -> list[list[str]]:
    """Without a closing, such as "best regards", and the name below it."""
    lists = polite_lists()
    for place, clause in enumerate(clauses):
        closing = lists.closings.at(clause)
        if not (place and closing) or len(clause) - closing > MOST_BELOW:
            continue
        below = len(clause) - closing + sum(map(len, clauses[place + 1 :]))
        most = 2 * MOST_BELOW
        if closing == 1 or lists.polite.at(clause):  # thanks may be a part of the text
            most = min(most, sum(map(len, clauses[:place])))
        if below <= most:
            return clauses[:place]
    if clauses:
        last = clauses[-1]
        for start in range(max(1, len(last) - MOST_BELOW), len(last)):
            if lists.closings.at(last, start) > 1:  # of one word, it may be a part of the question
                return [*clauses[:-1], last[:start]]
    return clauses


def _without_polite(clause: list[str]) -> list[str]:
    """Without the polite words that it begins and ends with."""
    polite = polite_lists().polite
    while length := polite.at(clause):
        clause = clause[length:]
    while length := polite.at_end(clause):
        clause = clause[:-length]
    return clause


def compared_words(text: str) -> Words:
    """The words of a clause: in lower case, without accents, apostrophes and what is short for "is"."""
    words: list[str] = []
    for token in _TOKEN.findall(lower(plain(text))):
        words += _words_of(token)
    return tuple(words)


def _words_of(token: str) -> Words:
    if len(token) <= LONGEST_KEPT:
        return _kept_words(token)
    return _kept_words.__wrapped__(token)


@lru_cache(maxsize=2**16)
def _kept_words(token: str) -> Words:
    word = fold(look_alike(token.strip("'")))
    shortened = _SHORTENED.match(word)
    if shortened:
        word = shortened[1]
    parts = [word]
    article, apostrophe, rest = word.partition("'")
    if apostrophe and len(article) <= LONGEST_ARTICLE:
        parts = [article, rest]
    same = _same()
    words: list[str] = []
    for part in parts:
        bare = part.replace("'", "")
        if bare:
            words.append(same.get(bare, bare))
    return tuple(words)


def _spelled(word: str) -> str:
    """A word in the one of its spellings that is compared; what is longer than any word stays as it is."""
    if len(word) <= LONGEST_KEPT:
        return _kept_spelling(word)
    return word


@lru_cache(maxsize=2**16)
def _kept_spelling(word: str) -> str:
    for pattern, spelling in _spellings():
        word = pattern.sub(spelling, word)
    return word
