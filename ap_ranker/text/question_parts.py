"""Finds the questions in a text that asks several, or is a letter around one.

    text --sentences--> those that ask --"and" between two questions--> questions that each can be searched alone

A question that says too little alone, or stands on what was said before ("and what does it cost?"), is no part: the
text then stays whole, but in a letter, where the sentence before comes with it.
"""

from __future__ import annotations

from typing import NamedTuple

import regex

from ap_ranker.text.question_words import (
    MOST_CHARACTERS,
    NUMBER_SIGN,
    Words,
    asked_words,
    compared_words,
    polite_lists,
    size,
)
from ap_ranker.text.typed import (
    Kind,
    QuestionWords,
    asking_words,
    count_of,
    questions_by_language,
    read_typed,
    referring_words,
    words_beside,
)

LEAST_LETTER = 40
"""Words of a text, as `size` counts them, from which on it is a letter. The longest of the example's 565 questions, two
sentences, has 26."""

LEAST_SENTENCES = 3
"""Sentences of a letter."""

LEAST_SAID = 1.0
"""Words of a question, as `size` counts them without those that only ask, that can be searched alone."""

LEAST_JOINED = 1.5
"""The same of both questions that "and" joins: "what should I use and what should I avoid?" is one."""

MOST_PARTS = 3
"""Questions of a text that are searched."""

LONGEST_SENTENCE = 60
"""Words of a sentence that may be two questions."""

_MARKS = "?\uff1f\u061f"
_SENTENCE = regex.compile(r"[^.?!\n\u3002\uff1f\uff01\u061f\u0964]++[.?!\u3002\uff1f\uff01\u061f\u0964]*+")

_CLAUSE = regex.compile(r"[,;:]")


class QuestionParts(NamedTuple):
    """The questions of a text, and whether these are `SEVERAL` or in a `LONG` one; none of a plain `QUESTION`."""

    kind: Kind
    texts: tuple[str, ...]


WHOLE = QuestionParts(Kind.QUESTION, ())


def question_parts(text: str) -> QuestionParts:
    """The questions that a text consists of, each to be searched as one of its own."""
    if len(text) > MOST_CHARACTERS:
        return WHOLE
    words = compared_words(text)
    said = set(words)
    joining = []
    for language in questions_by_language():
        if language.joins.may_be_in(said) and language.asks.may_be_in(said):
            joining.append(language)
    is_letter = len(words) >= LEAST_LETTER and size(words) >= LEAST_LETTER
    if not (is_letter or joining or any(mark in text[:-1] for mark in _MARKS)):
        return WHOLE
    sentences = _sentences(text)
    is_letter = is_letter and len(sentences) >= LEAST_SENTENCES
    parts: list[str] = []
    for place, sentence in _asking(sentences):
        for part in _joined_questions(sentence, joining):
            is_alone = not count_of(compared_words(part), referring_words())
            if is_alone and _says_enough(part):
                parts.append(part)
            elif not is_letter:
                return WHOLE
            elif not is_alone and place:
                parts.append(f"{sentences[place - 1]} {part}")
    distinct = tuple(dict.fromkeys(parts))[:MOST_PARTS]
    if is_letter and distinct:
        return QuestionParts(Kind.LONG, distinct)
    return QuestionParts(Kind.SEVERAL, distinct) if len(distinct) > 1 else WHOLE


def _sentences(text: str) -> list[str]:
    """The sentences of a text, with their last marks; a number is not divided."""
    whole_numbers = NUMBER_SIGN.sub("\N{ONE DOT LEADER}", text)
    sentences = []
    for match in _SENTENCE.finditer(whole_numbers):
        sentence = text[match.start() : match.end()].strip()
        if sentence:
            sentences.append(sentence)
    return sentences


def _asking(sentences: list[str]) -> list[tuple[int, str]]:
    """The sentences that ask, each with its place: those with a question mark, or if none has one, by their words."""
    marked = [(place, text) for place, text in enumerate(sentences) if text.endswith(tuple(_MARKS))]
    if marked:
        return marked
    return [(place, text) for place, text in enumerate(sentences) if _begins_question(compared_words(text))]


def _begins_question(words: Words) -> bool:
    return any(language.asks.at(words) for language in questions_by_language())


def _joined_questions(sentence: str, joining: list[QuestionWords]) -> list[str]:
    """The two questions that "and" joins, or the sentence: both begin as questions of one language do."""
    pieces = sentence.split()
    if len(pieces) > LONGEST_SENTENCE:
        return [sentence]
    for language in joining:
        opening = language.joins.at(compared_words(" ".join(pieces[:2])))
        if opening and language.asks.at(compared_words(sentence), opening):  # "And how do I ...?"
            pieces = pieces[opening:]
        for place in range(1, len(pieces)):
            next_words = compared_words(" ".join(pieces[place : place + 4]))
            length = language.joins.at(next_words)
            first = " ".join(pieces[:place])
            second = " ".join(pieces[place + length :])
            is_second = length and language.asks.at(next_words, length)
            if is_second and _ends_with_question(first, language) and _are_questions(first, second):
                return [f"{first.rstrip(' ,;')}?", second]
    return [" ".join(pieces)]


def _ends_with_question(text: str, language: QuestionWords) -> bool:
    """Whether the last clause of a text begins as a question of a language does, after what is polite."""
    words = compared_words(_CLAUSE.split(text.rstrip(" ,;"))[-1])
    while length := polite_lists().polite.at(words) or polite_lists().greetings.at(words):
        words = words[length:]
    return language.asks.at(words) > 0


def _are_questions(*texts: str) -> bool:
    return all(_says_enough(text, LEAST_JOINED) for text in texts)


def _says_enough(text: str, least: float = LEAST_SAID) -> bool:
    """Whether a question can be searched alone."""
    said = words_beside(asked_words(text), asking_words())
    return size(said) >= least and read_typed(text).kind in (Kind.QUESTION, Kind.NEGATED)
