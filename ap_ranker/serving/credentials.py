"""Messages without passwords: addresses, settings and headers may hold some."""

from __future__ import annotations

import re

HIDDEN = "***"

_NAMES = r"[\w.-]*(?:passw|secret|token|auth|credential|api[_-]?key|signature)[\w.-]*"
_VALUE = r"""(?:\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|'[^']*'|"[^"]*"|[^\s,;&'")\]}]+)"""
_PATTERNS = [
    # https://user:password@host; a password may hold an @ of its own.
    (re.compile(r"(\w://)[^\s'\"<>]*@"), rf"\g<1>{HIDDEN}@"),
    # Authorization: Basic dXNlcjpwYXNz
    (re.compile(r"\b(Basic|Bearer|ApiKey)\s+[\w+/=.~-]{6,}", re.IGNORECASE), rf"\g<1> {HIDDEN}"),
    # ?api_key=..., 'basic_auth': ['user', 'password'], password: ...
    (re.compile(rf"""(\b{_NAMES}["']?\s*[=:]\s*){_VALUE}""", re.IGNORECASE), rf"\g<1>{HIDDEN}"),
]


def without_credentials(text: str) -> str:
    """The text with `***` for what looks like a password or a key; rather too much than too little."""
    for pattern, shown in _PATTERNS:
        text = pattern.sub(shown, text)
    return text
