"""Unicode's normal forms in a time that grows with the length of a text, whatever the text is.

`unicodedata.normalize` brings the marks of a letter into their order by inserting one after the other: 20,000 accents
on one letter take it half a second, ten times as many a minute. So the marks of a long run are sorted before.
"""

from __future__ import annotations

import unicodedata
from typing import Literal

import regex

FEW = 64
"""Number of marks up to which the library sorts fast enough; no language puts ten on a letter."""

_MANY_MARKS = regex.compile(rf"[\p{{M}}\uff9e\uff9f]{{{FEW},}}+")  # the last two become marks in the form NFKC


def normal_form(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """A text as `unicodedata.normalize` returns it."""
    if text.isascii():
        return text
    decomposition: Literal["NFD", "NFKD"] = "NFKD" if "K" in form else "NFD"

    def sorted_run(run: regex.Match[str]) -> str:
        return _sorted(run[0], decomposition)

    return unicodedata.normalize(form, _MANY_MARKS.sub(sorted_run, text))


def _sorted(marks: str, form: Literal["NFD", "NFKD"]) -> str:
    """The parts of marks by their combining classes; one of class 0 stays where it is, and none passes it."""
    groups: list[list[str]] = [[]]
    for mark in marks:
        for part in unicodedata.normalize(form, mark):
            if unicodedata.combining(part):
                groups[-1].append(part)
            else:
                groups.append([part])
    in_order: list[str] = []
    for group in groups:
        in_order += sorted(group, key=unicodedata.combining)
    return "".join(in_order)
