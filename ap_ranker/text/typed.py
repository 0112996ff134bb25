"""Tells what people type into a search that is no question of a FAQ: greetings, "human please", an order number.

    text --words--> all of them are of one list, or stand around its words --> that kind
                --> a word alone; a number alone; what goes on from an earlier question; what somebody does not want

The lists are in `typed_words.toml` and `polite_words.toml`, of all languages together, and a text is compared with them
alone: no model, no language told. One word that is in no list makes it a question, so that most questions are known as
such by their first words. What a search makes of it is decided in `ap_ranker.ranking.typed_rule`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

import regex

from ap_ranker.text.languages import UNSPACED
from ap_ranker.text.question_words import (
    NUMBER_SIGN,
    Phrases,
    Words,
    asked_words,
    compared_words,
    polite_lists,
    size,
    word_lists,
)
from ap_ranker.text.reading import lower, plain, without_repetition


class Kind(StrEnum):
    """What somebody has typed, or what a search has made of it."""

    QUESTION = "question"
    PERSON = "person"  # asks for somebody to talk to
    GREETING = "greeting"
    THANKS = "thanks"
    INSULT = "insult"
    INCOMPLETE = "incomplete"  # goes on from an earlier question, or is a number alone
    WORD = "word"  # one word, with which several entries have to do
    NEGATED = "negated"  # says what somebody does not want
    LANGUAGE = "language"  # a question in another language than the FAQ's
    SEVERAL = "several"  # several questions
    LONG = "long"  # a letter around one question, or around several


@dataclass(frozen=True)
class Typed:
    """The kind of a text, and the words that entries are compared with.

    `words` are the word alone, the number, or what is not wanted; `other_words` what is said beside that.
    """

    kind: Kind
    words: str = ""
    other_words: str = ""


QUESTION = Typed(Kind.QUESTION)

MOST_CHARACTERS = 1000
"""Characters of a text beyond which it is a question: nobody greets at such length."""

MOST_WORDS = 25
"""Words of a text, each character of a script without spaces as one, up to which it may be anything but a question."""

MOST_LEFT = 2
"""Words up to which a text that goes on from an earlier question says nothing alone: "and for abroad?"."""

MOST_EMPTY = 4.0
"""Words, as `size` counts them, of a question such as "how much is it?": a longer one says something by its order."""

MOST_BEFORE_END = 8
"""Characters of such a text that is known by its end."""

_CODE = regex.compile(r"#?(?:\p{Latin}{1,5}[-/._]?)?\d+(?:[-/._]?[\p{Latin}\d]+)*")
_NEITHER = regex.compile(r"[^\p{L}\p{N}]+")
_WORD_UNSPACED = regex.compile(r"[\p{Katakana}\u30fc]{2,12}|\p{Han}{1,3}")
_CLAUSE_END = regex.compile(r"[,;:.?!()\n\u3002\uff1f\uff01\uff0c\u3001\uff1a\uff1b\u061f\u060c\u0964]+")


class _Refusals(NamedTuple):
    """Words of one language: in one clause, these two kinds together say that something is not wanted."""

    wishes: frozenset[str]
    refusals: frozenset[str]


class QuestionWords(NamedTuple):
    """Words of one language that begin a question, and those that join two of them."""

    asks: Phrases
    joins: Phrases


@dataclass(frozen=True)
class _Lists:
    """The lists of all languages."""

    kinds: dict[Kind, Phrases]  # those that count first come first
    around: Phrases
    asks: Phrases
    follows: Phrases
    ends: tuple[str, ...]
    empty: Phrases
    numbers: Phrases
    but: Phrases
    unwanted: Phrases
    refusals: Sequence[_Refusals]


def _languages() -> list[dict[str, Any]]:
    return word_lists("typed_words.toml")


@cache
def _lists() -> _Lists:
    polite = polite_lists()
    greetings = polite.greetings.phrases
    polite_phrases = [*greetings, *polite.polite.phrases, *((word,) for word in polite.light)]
    asks = asking_words()
    refusals = []
    ends: list[str] = []
    for language in _languages():
        ends += language.get("follows_at_end", [])
        refusals.append(_Refusals(_words(language.get("wishes", [])), _words(language.get("refusals", []))))
    return _Lists(
        kinds={
            Kind.PERSON: Phrases(_phrases("person")),
            Kind.INSULT: Phrases(_phrases("insults")),
            Kind.THANKS: Phrases(_phrases("thanks")),
            Kind.GREETING: Phrases(greetings),
        },
        around=Phrases([*polite_phrases, *asks.phrases, *_phrases("around")]),
        asks=asks,
        follows=Phrases(_phrases("follows")),
        ends=tuple(ends),
        empty=Phrases([*polite_phrases, *asks.phrases, *_phrases("empty")]),
        numbers=Phrases([*_phrases("numbers"), *((word,) for word in polite.light)]),
        but=Phrases(_phrases("but")),
        unwanted=Phrases(_phrases("unwanted")),
        refusals=refusals,
    )


@cache
def questions_by_language() -> list[QuestionWords]:
    """The words of each language by which questions are told apart."""
    of_languages = []
    for language in _languages():
        asks = filter(None, map(compared_words, language["asks"]))
        joins = filter(None, map(compared_words, language["and"]))
        of_languages.append(QuestionWords(Phrases(asks), Phrases(joins)))
    return of_languages


@cache
def asking_words() -> Phrases:
    """What begins a question, in all languages."""
    return Phrases(_phrases("asks"))


@cache
def referring_words() -> Phrases:
    """What stands for something that was said before."""
    return Phrases(_phrases("refers"))


def _phrases(name: str) -> list[Words]:
    phrases: list[Words] = []
    for language in _languages():
        phrases += filter(None, map(compared_words, language[name]))
    return phrases


def _words(texts: Iterable[str]) -> frozenset[str]:
    words: set[str] = set()
    for text in texts:
        words.update(compared_words(text))
    return frozenset(words)


def read_typed(text: str) -> Typed:
    """What somebody has typed; a text of which nothing is known is a question."""
    if len(text) > MOST_CHARACTERS:
        return QUESTION
    text = without_repetition(text)
    words = compared_words(text)
    if not words:
        return QUESTION
    short = _read_short(text, words) if len(words) <= MOST_WORDS else None
    return short or _unwanted(text, words)


def _read_short(text: str, words: Words) -> Typed | None:
    kind = _kind_of(words)
    if kind is not None:
        return Typed(kind)
    number = _number(text)
    if number or _goes_on(text, words):
        return Typed(Kind.INCOMPLETE, number)
    word = _word_alone(text, words)
    return Typed(Kind.WORD, word) if word else None


def has_number(text: str, number: str) -> bool:
    """Whether a text has a number, however it is divided: "E-403" is E403."""
    pattern = rf"(?<!\d){regex.escape(number)}(?!\d)"
    return regex.search(pattern, _compact(text)) is not None


def _kind_of(words: Words) -> Kind | None:
    """The kind of words that are all of one list, or may stand around its words; `None` of any others."""
    lists = _lists()
    kinds: set[Kind] = set()
    place = 0
    while place < len(words):
        longest = lists.around.at(words, place)
        kind_here = None
        for kind, phrases in lists.kinds.items():
            length = phrases.at(words, place)
            if length and (length > longest or (kind_here is None and length == longest)):
                longest = length
                kind_here = kind
        if not longest:
            return None
        if kind_here is not None:
            kinds.add(kind_here)
        place += longest
    for kind in lists.kinds:
        if kind in kinds:
            return kind
    return None


def _number(text: str) -> str:
    """The number that a text is, with nothing but what numbers are called beside it; empty if it is none."""
    without_signs = plain(text)
    codes = _CODE.findall(without_signs)
    if not codes:
        return ""
    beside = compared_words(_CODE.sub(" ", without_signs))
    return _compact("".join(codes)) if is_made_of(beside, _lists().numbers) else ""


def _compact(text: str) -> str:
    return _NEITHER.sub("", lower(plain(text)))


def _goes_on(text: str, words: Words) -> bool:
    """Whether words say nothing without what was asked before."""
    lists = _lists()
    if size(words) <= MOST_EMPTY and is_made_of(words, lists.empty):
        return True
    bare = text.strip().rstrip("?!. \uff1f\uff01\u3002")
    if len(bare) <= MOST_BEFORE_END and bare.endswith(lists.ends) and not count_of(words, lists.asks):
        return True
    opening = lists.follows.at(words)
    rest = words[opening:]
    if not opening or count_of(rest, lists.asks):
        return False
    return len(words_beside(rest, lists.empty)) <= MOST_LEFT


def is_made_of(words: Words, phrases: Phrases) -> bool:
    """Whether words are phrases of a list, one after the other."""
    place = 0
    while place < len(words):
        length = phrases.at(words, place)
        if not length:
            return False
        place += length
    return True


def count_of(words: Words, phrases: Phrases) -> int:
    """The number of words that are in phrases of a list."""
    return len(words) - len(words_beside(words, phrases))


def words_beside(words: Words, phrases: Phrases) -> Words:
    """The words that are in no phrase of a list."""
    beside: list[str] = []
    place = 0
    while place < len(words):
        length = phrases.at(words, place)
        if not length:
            beside.append(words[place])
        place += length or 1
    return tuple(beside)


def _word_alone(text: str, words: Words) -> str:
    """The one word that a text consists of, without what is polite; empty if there are more."""
    bare = _NEITHER.sub("", text)
    if _WORD_UNSPACED.fullmatch(bare):
        return bare
    if len(words) > MOST_EMPTY:
        return ""
    words_asked = asked_words(text)
    if len(words_asked) != 1 or regex.match(f"[{UNSPACED}]", words_asked[0]):
        return ""
    return words_asked[0]


def _unwanted(text: str, words: Words) -> Typed:
    """What somebody does not want, and what else is said; a question if nothing is unwanted."""
    lists = _lists()
    said = set(words)
    if not (lists.unwanted.may_be_in(said) or _refuses(said)) or lists.asks.at(words):
        return QUESTION
    unwanted: list[str] = []
    other_words: list[str] = []
    for clause in _clauses(text):
        is_unwanted = count_of(clause, lists.unwanted) or _refuses(set(clause))
        (unwanted if is_unwanted else other_words).extend(clause)
    if not unwanted:
        return QUESTION
    return Typed(Kind.NEGATED, " ".join(unwanted), " ".join(other_words))


def _refuses(words: set[str]) -> bool:
    return any(words & pair.wishes and words & pair.refusals for pair in _lists().refusals)


def _clauses(text: str) -> list[Words]:
    """The clauses of a text; "but" begins another one."""
    clauses: list[Words] = []
    for part in _CLAUSE_END.split(NUMBER_SIGN.sub("", text)):
        words = compared_words(part)
        start = 0
        for place in range(1, len(words)):
            if _lists().but.at(words, place):
                clauses.append(words[start:place])
                start = place
        clauses.append(words[start:])
    return clauses
