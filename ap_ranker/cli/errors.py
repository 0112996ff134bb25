"""One way to end a program whose input, machine or own code is at fault: one message, and an exit code that says which.

2: what the user gave or the machine lacks; 1: a fault of ours; 130: Ctrl+C.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape

from ap_ranker.cli.console import Console
from ap_ranker.errors import InputError

USER, FAULT, STOPPED = 2, 1, 130
"""Exit codes."""

TRACEBACK = "AP_RANKER_TRACEBACK"
"""If this variable of the environment is set, the traceback stands before the message."""

MAX_LINES, MAX_LENGTH = 3, 1_000
"""Of a message; of a longer one its middle is left out, as the end says what to do."""

_ADVICE = {
    errno.ENOSPC: "the disk is full: make room, or name another place",
    errno.EDQUOT: "the disk quota is used up: make room, or name another place",
    errno.EACCES: "permission is denied: change it, or name another place",
    errno.EPERM: "permission is denied: change it, or name another place",
    errno.EROFS: "the disk is read-only: name another place",
    errno.EISDIR: "it is a folder: name a file",
    errno.ENOTDIR: "a part of it is a file: name another place",
    errno.ENOENT: "there is none: check the name",
    errno.EEXIST: "it exists already: name another one",
    errno.ENOTEMPTY: "it is not empty: name another one",
    errno.ENAMETOOLONG: "the name is too long: choose a shorter one",
    errno.ELOOP: "it is a link to itself: name another one",
    errno.EFBIG: "it is larger than the file system or `ulimit -f` allows",
    errno.EMFILE: "too many files are open: raise the limit with `ulimit -n`",
    errno.ENFILE: "too many files are open on this machine: close other programs",
    errno.EIO: "the disk does not answer: see whether it is damaged",
}
"""What to do about an error of the operating system."""

_SAID = {
    ("No space left on device", "StorageFull"): f"What was to be written: {_ADVICE[errno.ENOSPC]}.",
    ("can't allocate memory", "out of memory"): (
        "The memory does not suffice. Give less at once: a smaller batch_size or max_tokens, fewer texts, a smaller "
        "model."
    ),
}
"""What libraries say that raise neither `OSError` nor `MemoryError`, as they are not written in Python."""


@contextmanager
def report_user_errors() -> Iterator[None]:
    """Within, whatever goes wrong ends the program with one message on standard error instead of a traceback."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        _end("Stopped.", STOPPED)
    except BrokenPipeError:  # who read the output has seen enough, as `head` does
        _forget_output()
        sys.exit(FAULT)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        message, code = explained(error)
        _end(f"[bold red]Error:[/] {escape(shortened(message))}", code)


def explained(error: Exception) -> tuple[str, int]:
    """What to say of an exception, and the exit code."""
    if message := _for_the_user(error):
        return message, USER
    return (
        f"This is a fault of ap-ranker's, not yours: {type(error).__name__} in {_place(error)}: {error}\n"
        f"Please report it with its traceback, which {TRACEBACK}=1 before the command shows."
    ), FAULT


def _for_the_user(error: Exception) -> str:
    """What the user can mend; empty if it is nothing that a user could."""
    if isinstance(error, InputError):
        return str(error)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # Click's: the command line itself
        message = error.format_message().strip()
        return f"{message.removesuffix('.')}. See ap-ranker COMMAND --help." if message else "See above."
    if isinstance(error, OSError):
        return _of_the_system(error)
    if isinstance(error, UnicodeError):
        return _of_text(error)
    if isinstance(error, RecursionError):
        return "Expected input that is nested less deeply: a file holds lists within lists without end."
    said = "out of memory" if isinstance(error, MemoryError) else str(error)
    return next((message for words, message in _SAID.items() if any(word in said for word in words)), "")


def _of_text(error: UnicodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"Expected UTF-8 text, found the byte 0x{error.object[error.start]:02x}. Save the file as UTF-8."
    if isinstance(error, UnicodeEncodeError):
        found = ascii(error.object[error.start : error.end])
        return f"Expected text that can be written as {error.encoding}, found {found}. Change it, or set PYTHONUTF8=1."
    return f"Expected text in a usable encoding ({error})."


def _of_the_system(error: OSError) -> str:
    files = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    what = " and ".join(dict.fromkeys(files)) or "A file"
    return (
        f"{what} cannot be used: {_ADVICE.get(error.errno or 0, error.strerror or str(error) or 'it is unknown why')}."
    )


def _place(error: Exception) -> str:
    """Where it happened, as near to our own code as the traceback knows."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    ours = [frame for frame in frames if {"ap_ranker", "haystack_integrations"} & set(Path(frame.filename).parts)]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}"


def shortened(message: str) -> str:
    """At most `MAX_LINES` lines and `MAX_LENGTH` characters: the beginning and the end."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = "\n".join(lines) if len(lines) <= MAX_LINES else " ".join(lines)
    if len(text) <= MAX_LENGTH:
        return text
    return f"{text[: MAX_LENGTH * 2 // 3]} ... {text[-MAX_LENGTH // 3 :]}"


def _end(message: str, code: int) -> None:
    Console(stderr=True).print(message, soft_wrap=True, highlight=False)
    sys.exit(code)


def _forget_output() -> None:
    """Python flushes standard output at its end, and would complain once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
