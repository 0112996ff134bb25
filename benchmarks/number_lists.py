"""Options with several numbers."""

from __future__ import annotations

from ap_ranker.errors import InputError


def whole_numbers(option: str, text: str) -> list[int]:
    """Parse distinct numbers above 0, such as `3,1,2`, in order."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise InputError(f"Expected {option} as whole numbers above 0 (such as 1,2,3); found {text!r}.")
    return list(dict.fromkeys(map(int, parts)))
