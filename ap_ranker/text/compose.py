"""Letters with their marks as one character: "ü" may also be stored as "u" and a mark, as macOS and some PDFs do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ap_ranker.text.batch import Span

_MARKS = "\u0300-\u036f\u3099\u309a"
_MARKED = re.compile(f"[^\\W\\d_][{_MARKS}]+")
"""A letter and the marks of Latin, Greek, Cyrillic or kana behind it."""


def compose(text: str) -> str:
    """The text with each letter and its marks as one character, where there is one (as in Unicode's form C)."""
    return text if text.isascii() else _MARKED.sub(_composed, text)


def composed_spans(text: str) -> Sequence[Span]:
    """The span in the text of each character of `compose(text)`."""
    spans: list[Span] = []
    for match in _MARKED.finditer(text):
        if len(_composed(match)) == 1:
            spans += [(i, i + 1) for i in range(spans[-1][1] if spans else 0, match.start())]
            spans.append(match.span())
    return [*spans, *((i, i + 1) for i in range(spans[-1][1] if spans else 0, len(text)))]


def _composed(match: re.Match[str]) -> str:
    character = unicodedata.normalize("NFC", match[0])
    return character if len(character) == 1 else match[0]
