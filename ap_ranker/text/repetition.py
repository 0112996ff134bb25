"""What a text says when it says the same again and again."""

from __future__ import annotations

import regex

from ap_ranker.text.languages import UNSPACED

_SAID = regex.compile(
    rf"[{UNSPACED}]\p{{M}}*"
    r"|\d+(?:[.,:/\-]\d+){1,3}|(?<![\w\-])(\p{L}+)-\1(?![\w\-])"  # 8.8.8.8, 50/50, Baden-Baden: no repetition
    rf"|[\p{{L}}\p{{N}}\p{{M}}--[{UNSPACED}]]+[+#]*",
    regex.V1 | regex.IGNORECASE,
)
_SEPARATORS = " \t\r\n,;/|-"


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
