"""Reports errors: one message, and an exit code.

2: caused by user input or the machine; 1: a bug in ap-ranker; 130: Ctrl+C.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.markup import escape

from ap_ranker.cli.console import errors
from ap_ranker.errors import InputError

USER = 2
BUG = 1
STOPPED = 130
"""Exit codes."""

TRACEBACK = "AP_RANKER_TRACEBACK"
"""Environment variable; if it is set, the traceback is printed before the message."""

MAX_LINES = 3
MAX_LENGTH = 1_000
"""Limits of a message; the middle of a longer one is left out, as its end says what to do."""

FULL = "A file cannot be written: the disk is full. Make room, or name another place."
NO_MEMORY = "Out of memory. Use a smaller batch_size, max_tokens or model, or fewer texts."

EARLIER_OPTIONS = {
    "--feedback": (
        "Clicks are kept in --database now. To learn from a file of an earlier release: ap-ranker train DATA "
        "--feedback FILE"
    ),
    "--learn-from-clicks": "Clicks inform the owner, and move no answer. Leave it out.",
    "--objective": "Write `objective: NAME` into a YAML file, and name that file with --config.",
    "--plot": "Leave it out, and write the numbers with --json FILE.",
}
"""Option that a command of an earlier release had -> what to do instead."""

_LIBRARY_ERRORS = {"No space left on device": FULL, "StorageFull": FULL}
_LIBRARY_ERRORS |= {"can't allocate memory": NO_MEMORY, "out of memory": NO_MEMORY}
"""Words in errors of libraries that raise neither `OSError` nor `MemoryError` -> the message."""


@contextmanager
def report_user_errors() -> Iterator[None]:
    """Context in which any error ends the program with one message on standard error."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        _end("Stopped.", STOPPED)
    except BrokenPipeError:  # the reader, such as `head`, has closed the output, to which Python would flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BUG)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        message, code = explained(error)
        _end(f"[bold red]Error:[/] {escape(shortened(message))}", code)


def explained(error: Exception) -> tuple[str, int]:
    """The message for an exception, and the exit code."""
    message = _user_message(error)
    if message:
        return message, USER
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    ours = [frame for frame in frames if {"ap_ranker", "haystack_integrations"} & set(Path(frame.filename).parts)]
    frame = (ours or frames)[-1]
    return (
        f"This is a bug in ap-ranker: {type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}: "
        f"{error}\nPlease report it with its traceback; to print that, set {TRACEBACK}=1."
    ), BUG


def _user_message(error: Exception) -> str:
    """The message for an error that the user can fix; empty for a bug."""
    if isinstance(error, InputError):
        return str(error)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # Click's: the command line itself
        return _message_of_click(error)
    if isinstance(error, OSError):
        files = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
        names = " and ".join(dict.fromkeys(files)) or "A file"
        return f"{names} cannot be used: {error.strerror or error}. Change that, or name another place."
    if isinstance(error, UnicodeError):
        return f"Expected text in a usable encoding ({error}). Save the file as UTF-8, or set PYTHONUTF8=1."
    if isinstance(error, RecursionError):
        return "The input is nested too deeply: a file has too many lists within lists."
    return _message_of_library("out of memory" if isinstance(error, MemoryError) else str(error))


def _message_of_click(error: Any) -> str:
    """What is wrong with the command line itself."""
    message = error.format_message().strip()
    unknown_option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and unknown_option in EARLIER_OPTIONS:
        return f"Expected an option of this release, found {unknown_option}. {EARLIER_OPTIONS[unknown_option]}"
    context = getattr(error, "ctx", None)
    commands: list[str] = []  # its own name, and before it that of its group
    while context and context.parent:
        commands = [context.info_name, *commands]
        context = context.parent
    message = message or ("Name a command" if commands else "Name a command, such as: ap-ranker serve FAQ.csv")
    sentence = message if message.endswith(("?", ".")) else f"{message}."
    return f"{sentence} See {' '.join(['ap-ranker', *commands])} --help."


def _message_of_library(text: str) -> str:
    """The message for what a library says; empty for a bug."""
    for words, message in _LIBRARY_ERRORS.items():
        if words in text:
            return message
    return ""


def shortened(message: str) -> str:
    """Shorten a message to `MAX_LINES` lines and `MAX_LENGTH` characters: its beginning and its end."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = "\n".join(lines) if len(lines) <= MAX_LINES else " ".join(lines)
    if len(text) <= MAX_LENGTH:
        return text
    return f"{text[: MAX_LENGTH * 2 // 3]} ... {text[-MAX_LENGTH // 3 :]}"


def _end(message: str, code: int) -> None:
    errors.print(message)
    sys.exit(code)
