"""Files that a user names, read within bounds: a small file cannot fill the memory, and a device cannot hold it up."""

from __future__ import annotations

import gzip
import io
import stat
import zlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from ap_ranker.errors import InputError, one_line

MAX_RATIO = 50
"""A compressed file may grow this much. Texts of the public benchmarks grow to the threefold up to the fivefold, word
vectors and pools of ids less; what grows to the fiftyfold repeats one line, and would fill the memory."""

ALWAYS_READ = 2**20
"""Bytes that a compressed file may hold in any case: a few lines that repeat are no harm."""

MAX_YAML = 2**16
"""Bytes of a YAML file of settings, thirty times the longest of the examples."""

MAX_NODES = 10_000
"""Values of a YAML file with each alias written out: ten lines of aliases of aliases stand for a billion values."""

_KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}


def what_is_at(path: Path) -> str:
    """`a file`, `a folder`, `a pipe`, `a device`, `a socket`, or `nothing`.

    Raises:
        InputError: the system does not say: a link to itself, a name that is too long, a folder without permission.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except (OSError, ValueError) as error:  # Python itself refuses a NUL in a name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{one_line(path)}: expected a file, found a name that cannot be used ({reason}).") from error
    return next((kind for is_kind, kind in _KINDS.items() if is_kind(mode)), "a file")


def require_file(path: Path) -> None:
    """Refuse what is not a regular file: a pipe or a device may never end.

    Raises:
        InputError: there is none, or something else.
    """
    found = what_is_at(path)
    if found == "nothing":
        raise InputError(f"No file at {str(path)!r}.")
    if found != "a file":
        raise InputError(f"{path}: expected a file, found {found}.")


def open_file(path: Path) -> BinaryIO:
    """The bytes of a file; of one whose name ends in `.gz`, what it holds.

    Raises:
        InputError: no regular file; later, while it is read: a damaged gzip file, or one that holds implausibly much.
    """
    require_file(path)
    return io.BufferedReader(_Unzipped(path), 2**20) if path.suffix == ".gz" else path.open("rb")


def check_whole(path: Path) -> None:
    """Refuse a gzip file that is damaged or holds implausibly much before anything is made of what it holds.

    Unpacking takes a fraction of the time that parsing takes, so what would be refused in the end is refused at once.

    Raises:
        InputError: it is.
    """
    if path.suffix == ".gz":
        with open_file(path) as file:
            while file.read(2**20):
                pass


def check_growth(path: Path, read: int) -> None:
    """Refuse a compressed file that grows implausibly.

    Args:
        path: the file.
        read: bytes of what it holds, so far.

    Raises:
        InputError: they are more than `MAX_RATIO` times the file's own, and more than `ALWAYS_READ`.
    """
    size = path.stat().st_size
    if read > max(MAX_RATIO * size, ALWAYS_READ):
        raise InputError(
            f"{path}: expected a compressed file of {size:,} bytes to hold at most {MAX_RATIO} times as much, found "
            "more: it would fill the memory. If it is what it should be, decompress it and name that file."
        )


class _Unzipped(io.RawIOBase):
    """What a gzip file holds, as long as it is plausible."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._read = path, gzip.GzipFile(path), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._file.readinto(buffer)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{self._path}: expected a complete gzip file, found a damaged one ({error}).") from error
        self._read += count
        check_growth(self._path, self._read)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def decode(content: bytes, path: Path) -> str:
    """The text of a file.

    Raises:
        InputError: not UTF-8, or with NUL characters, as UTF-16 has; names the line.
    """
    try:
        text = content.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{content[error.start : error.start + 1].hex()}"
    else:
        place = content.find(b"\0")
        if place < 0:
            return text
        line, found = content.count(b"\n", 0, place) + 1, "a NUL character"
    raise InputError(f"{path}, line {line}: expected UTF-8 text, found {found}. Save the file as UTF-8 and try again.")


def read_yaml(path: Path) -> Any:
    """What a YAML file of settings holds.

    Raises:
        InputError: no regular file, too large, not UTF-8, not YAML, a name given twice, too many aliases.
    """
    with open_file(path) as file:
        content = file.read(MAX_YAML + 1)
    if len(content) > MAX_YAML:
        raise InputError(f"{path}: expected a file of settings of at most {MAX_YAML:,} bytes, found more.")
    return parse_yaml(decode(content, path), path)


def parse_yaml(text: str, where: object) -> Any:
    """What a YAML text says.

    Raises:
        InputError: not YAML, a name given twice, too many aliases; the message begins with `where`.
    """
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _expanded(node, {}) > MAX_NODES:
            raise InputError(f"{where}: expected at most {MAX_NODES:,} values with aliases written out, found more.")
        return loader.construct_document(node)
    except InputError as error:
        raise InputError(f"{where}: {str(error).removeprefix(f'{where}: ')}") from error
    except RecursionError as error:
        raise InputError(f"{where}: expected settings in YAML, found them nested too deeply.") from error
    # PyYAML raises these of a number, a date or a tag that it cannot make a value of.
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"{where}: expected settings in YAML ({error}).") from error
    finally:
        if loader is not None:
            loader.dispose()


def _expanded(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many values a node stands for, aliases written out; each node is looked at once."""
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise InputError("expected aliases of what stands before, found one of a value that contains it.")
        return sizes[id(node)]
    sizes[id(node)] = 0  # under way
    if isinstance(node, yaml.MappingNode):
        _check_names(node)
        inside = [part for pair in node.value for part in pair]
    else:
        inside = node.value if isinstance(node, yaml.SequenceNode) else []
    sizes[id(node)] = 1 + sum(_expanded(part, sizes) for part in inside)
    return sizes[id(node)]


def _check_names(node: yaml.MappingNode) -> None:
    seen: set[Hashable] = set()
    for name, _ in node.value:
        if isinstance(name, yaml.ScalarNode):
            if name.value in seen and name.tag != "tag:yaml.org,2002:merge":
                line = name.start_mark.line + 1
                raise InputError(f"expected each name once, found {name.value!r} again in line {line}.")
            seen.add(name.value)
