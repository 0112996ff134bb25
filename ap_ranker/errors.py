"""The exception for errors caused by user input: bad data, a bad option, a missing extra."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """User input cannot be used.

    The message says what was expected, what was found, where, and what to do. The command line prints it unchanged and
    exits with 2; a library caller catches it as a `ValueError`.
    """


def one_line(value: object, limit: int = 300) -> str:
    """Format a value or an error's message as one line without control characters, cut after `limit` characters."""
    text = " ".join(str(value)[: 2 * limit].split()).rstrip(".")
    text = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The known name that is most like this one, as a question after a sentence; empty if none is."""
    similar = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {similar[0]!r}?" if similar else ""
