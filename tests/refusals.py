"""What a refusal tells, whatever its wording: the place, the value, the name, the command that helps.

Tests write ` … ` for the prose between these facts: `refused("FAQ.csv, line 3 … answer")`. How a sentence is worded is
free, but for the rules of `tests/test_prose.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ap_ranker.errors import InputError


def absent(facts: str, message: object) -> list[str]:
    """Those of the facts that a message lacks. Each is a whole word or number, in any order, and counts once."""
    text, lacking = str(message), []
    for fact in sorted(filter(None, facts.split(" … ")), key=len, reverse=True):
        before = r"(?<![\w.])" if fact[0].isdigit() else r"(?<!\w)" if fact[0].isalpha() else ""
        after = r"(?!\w|[.,]\d)" if fact[-1].isdigit() else r"(?!\w)" if fact[-1].isalpha() else ""
        text, found = re.subn(before + re.escape(fact) + after, "…", text, count=1)
        if not found:
            lacking.append(fact)
    return lacking


def assert_refusal(facts: str, error: object, by: type[Exception] = InputError) -> None:
    """The error refuses what a user gave, with a message that tells these facts."""
    assert isinstance(error, by), repr(error)
    assert not absent(facts, error), str(error)


@contextmanager
def refused(facts: str = "", by: type[Exception] = InputError) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """What the block asks for is refused, with a message that tells these facts."""
    with pytest.raises(by) as caught:
        yield caught
    try:
        assert_refusal(facts, caught.value, by)
    finally:
        del caught  # its traceback has this frame: the circle would keep what the block has opened
