"""Forms by which texts are compared: as the same question, as the same text, by their words, without repetition."""

from __future__ import annotations

import regex

from ap_ranker.text.characters import SOFT, TURKISH, UNSPACED, look_alike, lower, plain, softly_plain

_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
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
_DOTLESS = regex.compile(r"\w*ı\w*")
_SAID = regex.compile(rf"[{UNSPACED}]\p{{M}}*|[\p{{L}}\p{{N}}\p{{M}}--[{UNSPACED}]]+", regex.V1)
_SEPARATORS = " \t\r\n,;/|-"


def question_key(text: str) -> str:
    """A form that is equal for questions that are the same word for word, whatever keyboard they were typed on.

    Case, white space, punctuation, invisible characters, emoji of faces and hands, and vowel signs that only some
    keyboards write do not count; letters with their accents, digits and signs do.
    """
    apart = _RAISED.sub(" ", text)
    lowered = _DOTLESS.sub(lambda word: _with_dots(word[0]), look_alike(lower(softly_plain(apart)).casefold()))
    return " ".join(_KEPT.findall(_JOINED_IN_KEYS.sub("", lowered).replace(SOFT, ""))) or " ".join(lowered.split())


def _with_dots(word: str) -> str:
    """A capital I may have been either letter; in a word with other letters of Turkish ("IŞIK") it is ı."""
    return word.replace("ı", "i") if TURKISH & set(word) else word


def normalized(text: str) -> str:
    """A form that is equal for texts that differ only in case, white space and characters that look alike."""
    return " ".join(plain(text).casefold().split())


def bare(text: str) -> str:
    """The words of a text in lower case, with one space between them and without anything else."""
    return " ".join(_WORD.findall(lower(plain(text)).casefold()))


def without_repetition(text: str) -> str:
    """The part of a text that it repeats from beginning to end, such as "help" of "Help, help, HELP"; else the text.

    The last repetition may be cut off. Words are compared without case and punctuation. BM25 adds up the words of a
    question: typed ten times it would have ten times the score, far beyond what fusion and calibration were fitted to.
    """
    matches = list(_SAID.finditer(text))
    words = [match[0].casefold() for match in matches]
    if len(set(words)) == len(words):  # most questions
        return text
    period = _period(words)
    if 2 * period > len(words) and len(words) > 2:  # the last word may be cut off, too
        shorter = _period(words[:-1])
        if 2 * shorter <= len(words) - 1 and words[-1 - shorter].startswith(words[-1]):
            period = shorter
    return text if 2 * period > len(words) else text[: matches[period].start()].rstrip(_SEPARATORS)


def _period(words: list[str]) -> int:
    """The smallest p for which each word equals the one p words before it (Knuth, Morris & Pratt 1977); in O(N)."""
    border = [0] * len(words)  # of each beginning: the longest proper one that is its end, too
    length = 0
    for i in range(1, len(words)):
        while length and words[i] != words[length]:
            length = border[length - 1]
        length += words[i] == words[length]
        border[i] = length
    return len(words) - border[-1]
