"""Texts that stand where there is no text."""

from __future__ import annotations

import re

_NOTHING = re.compile(
    r"[\W_]*+(?:n\W?a|none|null|nan|tbd|tba|todo|to do|xxx+|test|lorem ipsum\b.*|(?<=#)(?:ref!?|value!?|name\??))?"
    r"[\W_]*+",
    re.IGNORECASE | re.DOTALL,
)


def says_nothing(text: str) -> bool:
    """Whether a text has no words, or only such as `N/A`, `TODO` and the errors of spreadsheets."""
    return _NOTHING.fullmatch(text) is not None
