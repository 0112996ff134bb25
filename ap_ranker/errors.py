"""The exception for errors caused by user input: bad data, a bad option, a missing extra."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

MOST_LISTED = 110
"""Maximum number of characters of known names in a message."""

NEAREST = 5
"""Number of names that stand for the others where those are too many."""


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


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """The known name that is most like this one, whatever its case, as a question after a sentence; or nothing."""
    folded = {candidate.casefold(): candidate for candidate in names}
    similar = get_close_matches(str(name).casefold(), folded, n=1)
    return f" Did you mean {folded[similar[0]]!r}?" if similar else ""


def listed(names: Iterable[str], like: object) -> str:
    """Known names, all of them or, of more than fit into a line, their number and those most like a wrong one."""
    known_names = list(names)
    text = ", ".join(known_names)
    if len(text) <= MOST_LISTED:
        return text
    nearest = get_close_matches(str(like), known_names, n=NEAREST, cutoff=0.0)
    return f"{len(known_names)} names, such as {', '.join(nearest)}"


def check_known(what: str, name: object, allowed: Iterable[str]) -> None:
    """Refuse (InputError) a name that is none of the known ones, and suggest the one that is most like it."""
    names = list(allowed)
    if name in names:
        return
    shown_name = one_line(repr(name), 80)
    if not names:
        raise InputError(f"Expected {what} that is there, found {shown_name}, and there is none yet.")
    raise InputError(
        f"Expected {what} to be one of {listed(names, name)}, found {shown_name}.{did_you_mean(name, names)}"
    )


@contextmanager
def extra_for(who: str, extra: str) -> Iterator[None]:
    """Import what an extra brings: without it, an InputError says `who` needs it, and how to install it."""
    try:
        yield
    except ImportError as error:
        install = f'pip install "ap-ranker[{extra}]"'
        raise InputError(f"{who} an extra, found no {error.name or 'such package'}: {install}") from error


def is_panic(error: BaseException) -> bool:
    """Whether a library in Rust gave up: what it then raises is no `Exception`, and its class is in no module."""
    return type(error).__name__ == "PanicException"


@contextmanager
def library_errors(
    expected: str, kinds: tuple[type[Exception], ...] = (Exception,), advice: str = ""
) -> Iterator[None]:
    """Turn what a library raises into an InputError, with its reason: many raise any type for a damaged file."""
    try:
        yield
    except InputError:
        raise
    except BaseException as error:
        if not isinstance(error, kinds) and not is_panic(error):
            raise
        reason = "nested too deeply" if isinstance(error, RecursionError) else one_line(error)
        raise InputError(f"{expected} ({reason}).{advice}") from error


@contextmanager
def told_at(place: object) -> Iterator[None]:
    """Begin the message of an InputError, or of a library's ValueError, with the place."""
    try:
        yield
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error
