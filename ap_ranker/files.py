"""Atomic writes of files and folders: write a draft beside the target, then rename it.

A draft is a hidden folder beside its target. The process that writes it holds a lock on it, which distinguishes drafts
of killed processes from those of running ones; the next write in the same folder removes the former.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import errno
import io
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

from ap_ranker.errors import InputError
from ap_ranker.locks import in_use, locked

_DRAFT, _OLD = ".draft", ".old"
_OWN_NAME = re.compile(rf"\.(?P<target>.+)\.[0-9a-f]{{8}}({_DRAFT}|{_OLD})", re.DOTALL)

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class WriteError(InputError):
    """A file or folder could not be written. The target is unchanged."""


@contextmanager
def atomic_directory(folder: Path) -> Iterator[Path]:
    """A draft of a folder, which replaces `folder` when the block ends and is deleted if the block fails.

    The old folder or the new one exists at any time; see `restore` for file systems that cannot exchange folders.

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
    """A draft of a file, which replaces `path` when the block ends and is deleted if the block fails.

    Raises:
        WriteError: the file cannot be written.
    """
    with writing(path):
        if path.exists() and not path.is_file() and not path.is_dir():  # a device or a pipe cannot be replaced
            yield path
            return
        with _draft(path) as (folder, target):
            yield folder / target.name
            _finish(folder)
            (folder / target.name).replace(target)
            sync(target.parent)


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text file atomically.

    Raises:
        WriteError: the file cannot be written.
    """
    with atomic_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The content of a CSV file with these columns."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()


def file_version(path: Path) -> tuple[int, ...]:
    """What differs between two versions of a file; empty if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size


def write_first(path: Path, text: str) -> None:
    """Write a text file atomically unless it exists: of several processes, the first one writes it.

    Raises:
        WriteError: the file cannot be written.
    """
    with writing(path), _draft(path) as (folder, target):
        (folder / target.name).write_text(text, encoding="utf-8")
        _finish(folder)
        try:
            target.hardlink_to(folder / target.name)  # unlike a rename, it never replaces a file
        except FileExistsError:
            return
        except OSError:  # a file system without links: here the last process wins
            (folder / target.name).replace(target)
        sync(target.parent)


def cache_folder(name: str) -> Path:
    """A folder in the user's cache, for files that may be removed at any time and are then computed again."""
    return user_cache_path("ap-ranker", appauthor=False) / name


def make_folder(folder: Path) -> None:
    """Create a folder and its parents if they do not exist.

    Raises:
        WriteError: the folder cannot be created.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert write errors of the system or of a library into one message about `path`.

    Raises:
        WriteError: in place of such an error; other errors are raised unchanged.
    """
    try:
        yield
    except (InputError, BrokenPipeError):  # who reads what a command prints may have gone
        raise
    except Exception as error:
        code, reason = _system_error(error)
        if not code:
            raise
        if code in _FULL:
            remedy = "Make room there, or choose a path on another disk"
        elif code in _FORBIDDEN:
            remedy = "Choose a path that you may write to, or change its permissions"
        else:
            remedy = "Choose another path"
        raise WriteError(f"{path}: cannot be written ({reason}). {remedy}; nothing there has changed.") from error


def restore(folder: Path) -> None:
    """Restore a folder if the process that replaced it was killed between its two renames.

    This is needed only on file systems that cannot exchange two folders in one step.
    """
    with contextlib.suppress(OSError):  # another process was faster, or the folder is read-only
        for old in [] if folder.exists() else list(folder.parent.glob(f".*{_OLD}")):
            own_name = _OWN_NAME.fullmatch(old.name)
            if own_name and own_name["target"] == folder.name and not in_use(old.with_suffix(_DRAFT)):
                old.rename(folder)


def publish(draft: Path, folder: Path) -> None:
    """Sync a finished draft to disk and rename it to `folder`; a folder that existed before gets the draft's name."""
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
def _draft(path: Path) -> Iterator[tuple[Path, Path]]:
    """A new draft folder, and its target: `path` with links resolved."""
    target = Path(os.path.realpath(path))
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
        with contextlib.suppress(BlockingIOError, FileNotFoundError):  # another process took it for a leftover
            stack.enter_context(locked(draft))
            return draft


def _finish(draft: Path) -> None:
    """Set the modes of all files in a draft according to the umask, and sync them to disk."""
    mode = draft.stat().st_mode & 0o777  # it follows the umask; some libraries create private files
    for path in draft.rglob("*"):
        path.chmod(mode if path.is_dir() else mode & 0o666)
        sync(path)
    sync(draft)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step; `False` if the system or the file system does not support it."""
    at_cwd, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return bool(rename(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange) == 0)


def _remove_leftovers(folder: Path) -> None:
    """Remove the drafts of killed processes from a folder."""
    for path in list(folder.glob(".*")):
        own_name = _OWN_NAME.fullmatch(path.name)
        if own_name and path.suffix == _OLD and not in_use(path.with_suffix(_DRAFT)):
            restore(folder / own_name["target"])
            shutil.rmtree(path, ignore_errors=True)
        elif own_name and path.suffix == _DRAFT:
            with contextlib.suppress(OSError), locked(path) as certain:  # locked so that no other process uses it
                if certain:
                    shutil.rmtree(path)


def sync(path: Path) -> None:
    """Sync a file, or a folder's list of files, to disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder, on a system that opens only files
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system without sync
            raise
    finally:
        os.close(descriptor)


def _system_error(error: Exception) -> tuple[int, str]:
    """The code and the description of a system error, whichever library reports it; (0, "") for other errors."""
    if isinstance(error, OSError):
        if error.errno is None:  # numpy's message says how many bytes it could not write
            return errno.ENOSPC, str(error)
        return error.errno, os.strerror(error.errno)
    text = str(error)
    if code := re.search(r"\(os error (\d+)\)", text):  # safetensors and tokenizers
        return int(code[1]), os.strerror(int(code[1]))
    torch_error = r"inline_container\.cc|PytorchStreamWriter|iostream error"
    if isinstance(error, RuntimeError) and re.search(torch_error, text):
        return errno.ENOSPC, "incomplete write"
    return 0, ""
