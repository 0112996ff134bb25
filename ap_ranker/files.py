"""Atomic writes of files and folders: write a draft, then rename it. What cannot be written raises `WriteError`.

A draft is written in a hidden folder beside its target, `.TARGET.0123abcd.draft`, which its process keeps locked: the
next write in the same folder knows the drafts of killed processes, and removes them. An older folder in the target's
place and the draft are exchanged in one step. Where the system cannot do that, the older one is moved into the hidden
folder just before; if the process is killed between these two renames, `restore` moves it back.

Private files, which only their user can read, are those that may hold what visitors said: their writers say so with
`private`. What takes the place of a file or folder is never open to more people than that was.

A locked folder is one that one process at a time may use; the system lets go of it when that process ends, however it
ends.
"""

from __future__ import annotations

import csv
import ctypes
import errno
import hashlib
import io
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_path

from ap_ranker.errors import InputError, one_line

_HIDDEN = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{8}\.draft", re.DOTALL)
_REPLACED = ".replaced"

_OTHER_ERRORS = re.compile(r"\(os error \d+\)|inline_container\.cc|PytorchStreamWriter|iostream error")
"""What safetensors, tokenizers and torch say of a file that they cannot write, instead of raising an `OSError`."""


class WriteError(InputError):
    """A file or folder could not be written. The target is unchanged."""


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
def kept_alone(folder: Path, doing: str, advice: str = "Wait for it, or name another --output.") -> Iterator[None]:
    """As `locked`, for a command; an InputError says what another process is found `doing`."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except (TimeoutError, FileNotFoundError):  # it is there, or has this moment tidied up
            found = f"{folder}: expected no other process, found one that is {doing} there"
            raise InputError(f"{found}. {advice}") from None
        yield


def check_output(path: Path | None, *endings: str, read: Iterable[Path | None] = ()) -> None:
    """Refuse (InputError) to write a file with none of these endings, if there are any, or over one that is `read`."""
    if path and endings and path.suffix.lower() not in endings:
        named = path.with_suffix(endings[0]) if path.name else path / f"output{endings[0]}"  # such as of . and of /
        raise InputError(
            f"{path}: expected an output whose name ends in {' or '.join(endings)}, found another ending. "
            f"Name it {named}."
        )
    if path and path.exists() and any(file and file.exists() and path.samefile(file) for file in read):
        raise InputError(f"{path}: expected another file than those read, found one of them. Name another output.")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert write errors of the system or of a library into one message about `path`; others stay as they are."""
    try:
        yield
    except (InputError, BrokenPipeError):  # who reads what a command prints may have gone
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not _OTHER_ERRORS.search(str(error)):
            raise
        reason = one_line(_reason(error), 100)
        raise WriteError(
            f"{path}: cannot be written ({reason}). Make room there, or choose a path that you may write to; nothing "
            "there has changed."
        ) from error


def _reason(error: Exception) -> str:
    """What the system says; of a folder whose files could not be copied, what it says of the first of them."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        _, _, reason = error.args[0][0]
        return str(reason)
    return str(getattr(error, "strerror", None) or error)


@contextmanager
def atomic_directory(folder: Path, private: Collection[str] = ()) -> Iterator[Path]:
    """A draft of a folder, which replaces `folder` when the block ends and is deleted if the block fails.

    Only their user can read its files with `private` names.
    """
    with writing(folder), _draft(folder, private=bool(private)) as (draft, target):
        draft.mkdir()
        yield draft
        if target.exists() and not target.is_dir():
            raise WriteError(f"{folder}: expected a folder to replace, found a file. Choose another path.")
        _publish(draft, target, private)


@contextmanager
def atomic_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """A draft of a file, which replaces `path` when the block ends and is deleted if the block fails.

    Only its user can read a `private` one, from before anything is in it.
    """
    with writing(path):
        if path.exists() and not path.is_file() and not path.is_dir():  # a device or a pipe cannot be replaced
            yield path
            return
        with _draft(path, private=private) as (draft, target):
            yield draft
            _finish(draft, target, [target.name] if private else [])
            draft.replace(target)
            sync(target.parent)


def write_text_atomically(path: Path, text: str, *, private: bool = False) -> None:
    """Write a text file atomically; only its user can read a `private` one."""
    with atomic_file(path, private=private) as draft:
        draft.write_text(text, encoding="utf-8")


def is_private(path: Path | None) -> bool:
    """Whether only its user can read a file: what is made of it is private, too."""
    return path is not None and path.is_file() and not path.stat().st_mode & 0o077


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Create a folder and its parents if they do not exist; only its user can enter a `private` one."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if private:
            folder.chmod(0o700)


def restore(folder: Path) -> None:
    """Restore a folder if the process that replaced it was killed between its two renames."""
    for hidden in [] if folder.exists() else _hidden_in(folder.parent):
        if hidden.name.rsplit(".", 2)[0] == f".{folder.name}" and (hidden / _REPLACED).exists():
            with suppress(OSError), locked(hidden):  # another process is at it, or the folder is read-only
                (hidden / _REPLACED).rename(folder)


def _publish(draft: Path, folder: Path, private: Collection[str]) -> None:
    """Sync a finished draft to disk and rename it to `folder`; what was there before is left in the hidden folder."""
    _finish(draft, folder, private)
    if not folder.exists():
        draft.rename(folder)
    elif not _exchange(draft, folder):
        folder.rename(draft.with_name(_REPLACED))
        draft.rename(folder)
    sync(folder.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step; `False` if the system or the file system cannot, as only Linux can."""
    at_cwd = -100  # AT_FDCWD
    exchange = 2  # RENAME_EXCHANGE
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return bool(rename(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange) == 0)


@contextmanager
def _draft(path: Path, *, private: bool = False) -> Iterator[tuple[Path, Path]]:
    """A path for a draft, and its target: `path` with links resolved. Nobody else can look at a `private` draft."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    restore(target)
    with ExitStack() as stack:
        hidden = None
        while hidden is None:
            new = target.with_name(f".{target.name}.{secrets.token_hex(4)}.draft")
            new.mkdir(0o700 if private else 0o777)
            stack.callback(shutil.rmtree, new, ignore_errors=True)
            with suppress(TimeoutError, FileNotFoundError):  # another process took it for a leftover
                stack.enter_context(locked(new))
                hidden = new
        yield hidden / target.name, target
    _remove_leftovers(target.parent)


def _finish(draft: Path, target: Path, private: Collection[str]) -> None:
    """Set the modes of all files in a draft according to the umask and to the target, and sync them to disk.

    Files with `private` names are their user's alone.
    """
    folder = draft if draft.is_dir() else draft.parent
    mode = folder.stat().st_mode & 0o777  # it follows the umask; some libraries create private files
    if target.exists():
        mode &= target.stat().st_mode | 0o700  # whoever closed it to others did so on purpose
    for path in (*draft.rglob("*"), draft):
        of_file = 0o600 if path.name in private else mode & 0o666
        path.chmod(mode if path.is_dir() else of_file)
        sync(path)


def _hidden_in(folder: Path) -> list[Path]:
    return [path for path in folder.glob(".*") if _HIDDEN.fullmatch(path.name)]


def _remove_leftovers(folder: Path) -> None:
    for hidden in _hidden_in(folder):
        restore(folder / hidden.name[1:].rsplit(".", 2)[0])
        with suppress(OSError), locked(hidden):  # so that no other process uses it
            shutil.rmtree(hidden)


def sync(path: Path) -> None:
    """Sync a file, or a folder's list of files, to disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder, on a system that opens only files
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # a file system, or a system, that does not sync it
            raise
    finally:
        os.close(descriptor)


GUARD = "\u02bc"
"""An apostrophe that no keyboard has: it stands before what a spreadsheet would take for the beginning of a formula."""

_FORMULA = rf"{GUARD}*[=+\-@\uff1d\uff0b\uff0d\uff20]"
# Spaces, and what some programs leave out.
_UNSEEN = r"(?:(?![\t\r\n])[\s\x00-\x1f\x7f\xad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff])*"
# Of a cell, or of one that a program makes of its text: Excel splits at semicolons where a comma is the decimal point,
# and then knows neither our quotation marks nor the line ends within them.
_BEGINNING = rf'\A(?={GUARD}*[\t\r])|(?:\A|[;,|"\t\r\n]){_UNSEEN}(?={_FORMULA})'
_UNGUARDED = re.compile(_BEGINNING)
_GUARDED = re.compile(rf"({_BEGINNING}){GUARD}")


def guarded(text: str) -> str:
    """A text that no spreadsheet takes for a formula; `unguarded` gives the text back."""
    return _UNGUARDED.sub(rf"\g<0>{GUARD}", text)


def unguarded(text: str) -> str:
    """The text of which `guarded` made this one."""
    if GUARD in text:
        return _GUARDED.sub(r"\1", text)
    return text


def html_text(template: str, values: Mapping[str, Any]) -> str:
    """A page of HTML by a template of Jinja, in which all `values` are text, whatever they look like."""
    from jinja2 import Environment  # few commands write pages

    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(template).render(values)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """The content of a CSV file with these columns, without formulas; `read_table` gives the texts back as they are."""
    text = io.StringIO()
    for values in (columns, *rows):
        row = [guarded(str(value)) for value in values]
        # Python 3.11 quotes no carriage return by itself, and would read it as the end of the row.
        returns = any("\r" in value for value in row)
        quotes: Literal[0, 1] = csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL
        csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=quotes).writerow(row)
    return text.getvalue()


def file_version(path: Path) -> tuple[int, ...]:
    """What differs between two versions of a file; empty if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size


def hash_of_files(paths: Iterable[Path], before: bytes = b"") -> str:
    """The SHA-256 of `before` and of the content of files, in this order, in hexadecimal digits."""
    digest = hashlib.sha256(before)
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def cache_folder(name: str) -> Path:
    """A folder in the user's cache, for files that may be removed at any time and are then computed again."""
    return user_cache_path("ap-ranker", appauthor=False) / name
