"""A folder that one process at a time may use; the system lets go of it when that process ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ap_ranker.errors import InputError

try:
    import fcntl
except ImportError:  # no Unix: nobody is kept out
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Keep a folder to this process; gives whether that is certain, which it is not on file systems without locks.

    Raises:
        BlockingIOError: another process has it.
        FileNotFoundError: there is no such folder.
    """
    with _descriptor(folder) as descriptor:
        certain = _lock(descriptor)
        if not os.path.samestat(os.fstat(descriptor), folder.stat()):  # it was removed, and made again, meanwhile
            raise FileNotFoundError(folder)
        yield certain


@contextmanager
def kept_alone(folder: Path, doing: str) -> Iterator[None]:
    """As `locked`, for a command: `doing` is what another process may be found at.

    Raises:
        InputError: it is.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except (BlockingIOError, FileNotFoundError):  # it is there, or has this moment tidied up
            raise InputError(
                f"{folder}: expected no other process, found one that is {doing} there. Wait for it, or name another "
                "--output."
            ) from None
        yield


def in_use(folder: Path) -> bool:
    """Whether a process has it `locked`, or might have. A folder that is not there is free."""
    try:
        with locked(folder) as certain:
            return not certain
    except FileNotFoundError:
        return False
    except OSError:
        return True


@contextmanager
def _descriptor(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # of a file system without locks
        return False
    return True
