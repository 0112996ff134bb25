"""Which questions are the same, word for word: known wordings, the log and the owner's desk ask here."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import chain

import regex

from ap_ranker.text.reading import SOFT, TURKISH, look_alike, lower, softly_plain

_JOINED_IN_KEYS = regex.compile(rf"(?<=[\p{{L}}\p{{M}}])['`.\-{SOFT}]+(?=\p{{L}})")
_FACES = "\u2639\u263a\u2763\u2764\u270a-\u270d\U0001f440-\U0001f450\U0001f48b-\U0001f49f\U0001f600-\U0001f64f"
_FACES += "\U0001f90c-\U0001f93a\U0001f970-\U0001f97a\U0001fae0-\U0001faf8"
_KEPT = regex.compile(
    rf"[\p{{L}}\p{{N}}\p{{M}}]+(?:(?<=\p{{L}})[+#]+(?!\p{{L}}))?"  # a word
    rf"|(?<![^\s(])(?:-(?=\d)|\.(?=\p{{L}}))"  # -5, .NET
    rf"|[[\p{{S}}@#%&‰]--[{_FACES}]]",
    regex.V1,
)
_RAISED = regex.compile(r"(?<=\d)(?=[²³¹⁰-⁹])")
_LETTERS_OF_WORD = regex.compile(r"\w+")


def question_key(text: str) -> str:
    """A form that is equal for questions that are the same word for word, whatever keyboard they were typed on.

    Case, white space, punctuation, invisible characters, emoji of faces and hands, and vowel signs that only some
    keyboards write do not count; letters with their accents, digits and signs do.
    """
    apart = _RAISED.sub(" ", text)
    lowered = look_alike(lower(softly_plain(apart)).casefold())
    if "ı" in lowered:
        lowered = _LETTERS_OF_WORD.sub(_dotted, lowered)
    joined = _JOINED_IN_KEYS.sub("", lowered).replace(SOFT, "")
    return " ".join(_KEPT.findall(joined)) or " ".join(lowered.split())


_CAPITAL_I = regex.compile(r"\b(?=\w*I)(?![\p{L}]*[QWXqwx])\p{L}{2,}\b")

MOST_CAPITALS = 3
"""Different words with a capital I up to which each may be Turkish or not; of more, all are, or none."""


def question_keys(text: str) -> tuple[str, ...]:
    """The keys of a question: one; of a text with a capital I, which Turkish has for ı, also those with that letter.

    Two questions are the same word for word if they share a key.
    """
    words = list(dict.fromkeys(_CAPITAL_I.findall(text))) if "I" in text else []
    if not words:
        return (question_key(text),)
    turkish: list[list[str]] = [[], words]
    if len(words) <= MOST_CAPITALS:  # each of the words may be Turkish or not
        turkish = [[]]
        for word in words:
            turkish += [[*words_before, word] for words_before in turkish]
    return tuple(dict.fromkeys(question_key(_in_turkish(text, frozenset(chosen))) for chosen in turkish))


def keys_of_questions(questions: Iterable[str]) -> frozenset[str]:
    """The keys of all of these questions: another one is known among them, word for word, if it shares one of them.

    A text without words has none.
    """
    return frozenset(chain.from_iterable(map(question_keys, questions))) - {""}


def is_among(question: str, keys: AbstractSet[str]) -> bool:
    """Whether a question is one of those, word for word, whose keys these are."""
    return not keys.isdisjoint(question_keys(question))


def _in_turkish(text: str, words: frozenset[str]) -> str:
    def written(match: regex.Match[str]) -> str:
        return match[0].replace("I", "ı") if match[0] in words else match[0]

    return _CAPITAL_I.sub(written, text)


def _dotted(word: regex.Match[str]) -> str:
    """A capital I may have been either letter; in a word with other letters of Turkish ("IŞIK") it is ı."""
    return word[0].replace("ı", "i") if TURKISH & set(word[0]) else word[0]
