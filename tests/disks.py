"""Small, full and read-only disks for tests: memory that is mounted as a disk."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class MountError(Exception):
    """This machine lets us mount nothing."""


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A disk of so many kilobytes at `folder`.

    Raises:
        MountError: it takes an administrator, or a container's leave.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """The same folder, in which nobody, not even the administrator, can write."""
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,bind,ro", str(folder))
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, leave: int = 0) -> None:
    """Take all room of a disk but `leave` kilobytes."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        file.truncate(max(file.tell() - leave * 1024, 0))


def _mount(*arguments: str) -> None:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MountError("there is no mount command") from error
    if done.returncode:
        raise MountError(done.stderr.strip())


@contextmanager
def small_disk_or_skip(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A disk for a test, which is skipped where nothing can be mounted."""
    try:
        with small_disk(folder, kilobytes) as disk:
            yield disk
    except MountError as reason:
        pytest.skip(f"nothing can be mounted here: {reason}")
