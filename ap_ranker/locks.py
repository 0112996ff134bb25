"""A folder that one process at a time may use; the system lets go of it when that process ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ap_ranker.errors import InputError

LOCK = ".lock"
"""The file in a folder that is locked; it is there only while that lasts, or after a process was killed."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a folder to this process; a TimeoutError if another one has it, a FileNotFoundError if it is not there."""
    from filelock import FileLock

    if not folder.is_dir():  # the library would make it
        raise FileNotFoundError(folder)
    file = folder / LOCK
    with FileLock(file, timeout=0):
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file
                file.unlink()


@contextmanager
def kept_alone(folder: Path, doing: str) -> Iterator[None]:
    """As `locked`, for a command; an InputError says what another process is found `doing`."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except (TimeoutError, FileNotFoundError):  # it is there, or has this moment tidied up
            found = f"{folder}: expected no other process, found one that is {doing} there"
            raise InputError(f"{found}. Wait for it, or name another --output.") from None
        yield
