"""Texts that stand where there is no text."""

from __future__ import annotations

import re

_NOTHING = re.compile(
    r"[\W_]*+(?:n\W?a|none|null|nan|tbd|tba|todo|to do|xxx+|test|lorem ipsum\b.*|(?<=#)(?:ref!?|value!?|name\??))?"
    r"[\W_]*+",
    re.IGNORECASE | re.DOTALL,
)


_RULE = r"[\s.\-–—_]*+"
_NO_WORDING = re.compile(rf"{_RULE}(?:#?n/a|none|nan|null|#(?:ref!?|value!?|name\??))?{_RULE}", re.IGNORECASE)


def says_nothing(text: str) -> bool:
    """Whether a text has no words, or only such as `N/A`, `TODO` and the errors of spreadsheets."""
    return _NOTHING.fullmatch(text) is not None


def is_no_wording(text: str) -> bool:
    """Whether a line of wordings says that there is none: `-`, `N/A`. "Test" and other signs may be what users ask."""
    return _NO_WORDING.fullmatch(text) is not None
