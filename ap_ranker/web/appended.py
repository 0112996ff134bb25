"""Files of JSON lines that several processes append to: a line is written whole or not at all."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ap_ranker.files import sync

try:
    import fcntl
except ImportError:  # no Unix: nobody is kept out
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)


@contextmanager
def locked_file(path: Path, mode: int = 0o666) -> Iterator[int]:
    """Create or open a file for appending, locked against other processes; `mode` is that of a new file."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), mode)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, path):  # else it was renamed or deleted meanwhile
                if os.fstat(file).st_size == 0:
                    sync(path.parent)  # so that the name of a new file lasts, too
                yield file
                return
        finally:
            os.close(file)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def write_whole(file: int, content: bytes, *, to_disk: bool = True) -> None:
    """Append all of the content to a locked file, or nothing; with `to_disk`, it is on disk on return."""
    size = os.fstat(file).st_size
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
        if to_disk:
            os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise


def read_from(file: int, start: int) -> bytes:
    """The content of a locked file from a position on."""
    os.lseek(file, start, os.SEEK_SET)
    return os.read(file, max(0, os.fstat(file).st_size - start))


def whole_lines(file: int, path: Path, start: int) -> bytes:
    """The lines of a locked file from a position on, where a line begins.

    If a crash left the last one incomplete, it is moved to a file beside this one, whose name ends in `.damaged`.
    """
    new = read_from(file, start)
    whole, newline, rest = new.rpartition(b"\n")
    if not rest:
        return new
    if not rest.strip() or parsed_line(rest) is not None:  # complete but for the line break
        write_whole(file, b"\n")
        return new + b"\n"
    damaged = path.with_name(f"{path.name}.damaged")
    with locked_file(damaged) as aside:
        write_whole(aside, rest + b"\n")
    os.ftruncate(file, os.fstat(file).st_size - len(rest))
    logger.warning("%s: found an incomplete last line, moved to %s.", path, damaged)
    return whole + newline


def parsed_line(line: bytes) -> dict[str, Any] | None:
    """The object of a line; `None` if it holds anything else."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def line_of(record: dict[str, Any]) -> bytes:
    """The line of an object."""
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
