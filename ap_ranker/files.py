"""Files and folders written whole or not at all: beside their place first, then put there in one step.

A draft is a hidden folder beside its target, which the process that writes it keeps locked. So drafts of killed
processes can be told from those of living ones; the next write in the same folder removes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ap_ranker.errors import InputError
from ap_ranker.locks import in_use, locked

_DRAFT, _OLD = ".draft", ".old"
_OURS = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]{{8}}({_DRAFT}|{_OLD})", re.DOTALL)

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class WriteError(InputError):
    """Something could not be written; what was at its place before is unchanged."""


@contextmanager
def atomic_directory(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` that takes its place when the block ends, and vanishes if it fails.

    At no moment is there neither the old folder nor the new one; see `restore` for file systems that cannot do that.

    Raises:
        WriteError: the folder cannot be written.
    """
    with writing(folder), _draft(folder) as (draft, target):
        yield draft
        if target.exists() and not target.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        publish(draft, target)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A file beside `path` that takes its place when the block ends, and vanishes if it fails.

    Raises:
        WriteError: the file cannot be written.
    """
    with writing(path):
        if path.exists() and not path.is_file() and not path.is_dir():  # a device or a pipe: nothing to replace
            yield path
            return
        with _draft(path) as (folder, target):
            yield folder / target.name
            _finish(folder)
            (folder / target.name).replace(target)
            sync(target.parent)


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text file whole or not at all.

    Raises:
        WriteError: it cannot be written.
    """
    with atomic_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_first(path: Path, text: str) -> None:
    """Write a text file whole unless there is one: of several processes that begin it, one does.

    Raises:
        WriteError: it cannot be written.
    """
    with writing(path), _draft(path) as (folder, target):
        (folder / target.name).write_text(text, encoding="utf-8")
        _finish(folder)
        try:
            target.hardlink_to(folder / target.name)  # unlike a renaming, it replaces nothing
        except FileExistsError:
            return
        except OSError:  # of a file system without links: the last one to begin it does
            (folder / target.name).replace(target)
        sync(target.parent)


def make_folder(folder: Path) -> None:
    """Make a folder, and those it is in, if they are not there.

    Raises:
        WriteError: it cannot be made.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Within, an error of the system or of a library that writes becomes one message about `place`.

    Raises:
        WriteError: instead of such an error; of another kind, errors stay what they are.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        found = _system_error(error)
        if found is None:
            raise
        number, reason = found
        if number in _FULL:
            remedy = "Make room there, or name a place on another disk"
        elif number in _FORBIDDEN:
            remedy = "Name a place that you may write to, or change its permissions"
        else:
            remedy = "Name another place"
        raise WriteError(
            f"{place}: cannot be written ({reason}). {remedy}; what was there before is unchanged."
        ) from error


def restore(folder: Path) -> None:
    """Put a folder back whose replacement was killed between its two renames.

    Only file systems that cannot exchange two folders in one step need it.
    """
    with contextlib.suppress(OSError):  # another process was faster, or nothing may be written here
        for old in [] if folder.exists() else list(folder.parent.glob(f".*{_OLD}")):
            ours = _OURS.fullmatch(old.name)
            if ours and ours["name"] == folder.name and not in_use(old.with_suffix(_DRAFT)):
                old.rename(folder)


def publish(draft: Path, folder: Path) -> None:
    """Give a whole draft its name, for good: on the disk first. What had it before is then where the draft was."""
    _finish(draft)
    if not folder.exists():
        draft.rename(folder)
    elif not _exchange(draft, folder):
        old = draft.with_suffix(_OLD)
        folder.rename(old)
        draft.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    sync(folder.parent)


@contextmanager
def _draft(place: Path) -> Iterator[tuple[Path, Path]]:
    """An empty folder of this process beside its target, and the target: `place`, or what it is a link to."""
    target = Path(os.path.realpath(place))
    target.parent.mkdir(parents=True, exist_ok=True)
    restore(target)
    with contextlib.ExitStack() as stack:
        draft = _locked_folder(target, stack)
        stack.callback(shutil.rmtree, draft, ignore_errors=True)
        yield draft, target
    _remove_leftovers(target.parent)


def _locked_folder(target: Path, stack: contextlib.ExitStack) -> Path:
    while True:
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_DRAFT}")
        draft.mkdir()
        with contextlib.suppress(BlockingIOError, FileNotFoundError):  # a moment ago it looked like a dead one's
            stack.enter_context(locked(draft))
            return draft


def _finish(draft: Path) -> None:
    """Give everything in a draft the modes that its owner's umask asks for, and wait until it is on the disk."""
    mode = draft.stat().st_mode & 0o777  # the system has made it by the umask; some libraries make private files
    for path in draft.rglob("*"):
        path.chmod(mode if path.is_dir() else mode & 0o666)
        sync(path)
    sync(draft)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step; `False` where the system or the file system cannot."""
    at_cwd, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return bool(rename(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange) == 0)


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed writers have left in a folder."""
    for path in list(folder.glob(".*")):
        ours = _OURS.fullmatch(path.name)
        if ours and path.suffix == _OLD and not in_use(path.with_suffix(_DRAFT)):
            restore(folder / ours["name"])
            shutil.rmtree(path, ignore_errors=True)
        elif ours and path.suffix == _DRAFT:
            with contextlib.suppress(OSError), locked(path) as certain:  # held, so that nobody begins to use it
                if certain:
                    shutil.rmtree(path)


def sync(path: Path) -> None:
    """Return when a file, or a folder's list of files, is on the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder, where the system opens files only
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has nothing to wait for
            raise
    finally:
        os.close(descriptor)


def _system_error(error: Exception) -> tuple[int | None, str] | None:
    """The number and the words of what the system refused, whichever library reports it; `None` for another error."""
    if isinstance(error, OSError):
        if error.errno is None:  # numpy counts the bytes that it could not write
            return errno.ENOSPC, str(error)
        return error.errno, os.strerror(error.errno)
    text = str(error)
    if number := re.search(r"\(os error (\d+)\)", text):  # of safetensors and tokenizers
        return int(number[1]), os.strerror(int(number[1]))
    if isinstance(error, RuntimeError) and re.search(
        r"inline_container\.cc|PytorchStreamWriter|iostream error", text
    ):  # of torch
        return errno.ENOSPC, "the disk took a part of it only"
    return None
