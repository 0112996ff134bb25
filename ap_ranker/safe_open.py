"""Reads files that a user names within bounds: a small file cannot fill the memory, and a device cannot block."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

import yaml
from yaml.constructor import SafeConstructor

from ap_ranker.errors import InputError, did_you_mean, library_errors, one_line, told_at

MAX_RATIO = 50
"""Maximum growth of a compressed file. The texts of the public benchmarks grow three- to fivefold, word vectors and
pools of ids less; a file that grows fiftyfold repeats one line and would fill the memory."""

ALWAYS_READ = 2**20
"""Bytes that a compressed file may hold in any case: a few repeated lines do no harm."""

MAX_YAML = 2**17
"""Maximum size of a YAML file in bytes, sixty times the longest of the examples; parsing that many takes a second."""

MAX_NODES = 20_000
"""Maximum number of YAML values, each alias expanded: ten lines of aliases of aliases stand for a billion values."""

_KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}


def what_is_at(path: Path) -> str:
    """`a file`, `a folder`, `a pipe`, `a device`, `a socket`, or `nothing`; InputError if the system cannot tell."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except (OSError, ValueError) as error:  # Python itself refuses a NUL in a name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{one_line(path)}: expected a file, found a name that cannot be used ({reason}).") from error
    return next((kind for is_kind, kind in _KINDS.items() if is_kind(mode)), "a file")


def require_file(path: Path) -> None:
    """Refuse (InputError) anything but a regular file: a pipe or a device may never end."""
    kind = what_is_at(path)
    if kind == "nothing":
        beside = [each.name for each in path.parent.glob("*")]
        raise InputError(f"No file at {str(path)!r}.{did_you_mean(path.name, beside) or ' Check the path.'}")
    if kind != "a file":
        raise InputError(f"{path}: expected a file, found {kind}.")


_SUCCESSORS = {
    **dict.fromkeys((".doc", ".odt", ".rtf", ".pages"), ".docx"),
    **dict.fromkeys((".xls", ".ods", ".numbers"), ".xlsx"),
    **dict.fromkeys((".ppt", ".odp", ".key"), ".pptx"),
}
"""The ending of a file that cannot be read -> the one under which its program can save it."""


def save_as(path: Path) -> str:
    """What to do with a file whose ending is not known, as a sentence after another; empty if that is unknown."""
    if path.suffix.lower() == ".json":
        return " Write one JSON object per line, and name it .jsonl."
    successor = _SUCCESSORS.get(path.suffix.lower())
    return f" Save it as {successor}." if successor else ""


def require_ending(path: Path, *endings: str) -> None:
    """Refuse (InputError) a name with another ending, which stands for another format."""
    if path.suffix.lower() not in endings:
        raise InputError(f"{path}: expected a name ending in {', '.join(endings)}.{save_as(path)}")


def open_file(path: Path) -> BinaryIO:
    """Open a regular file (InputError: another) for reading bytes; one whose name ends in `.gz` is decompressed."""
    require_file(path)
    if path.suffix != ".gz":
        return path.open("rb")
    read = 0
    expected = f"{path}: expected a complete gzip file, found a damaged one"
    # Read in vain first: decompressing is much faster than what follows.
    with library_errors(expected, (gzip.BadGzipFile, EOFError, zlib.error)), gzip.open(path) as file:
        while piece := file.read(2**20):
            read += len(piece)
            check_growth(path, read)
    return cast(BinaryIO, gzip.open(path))


def check_growth(path: Path, read: int) -> None:
    """Refuse (InputError) a compressed file that grows beyond `MAX_RATIO`, by the bytes `read` so far."""
    size = path.stat().st_size
    if read > max(MAX_RATIO * size, ALWAYS_READ):
        expected = f"expected a compressed file of {size:,} bytes to hold at most {MAX_RATIO} times as much"
        advice = "it would fill the memory. If it is correct, decompress it or save it as CSV, and name that file."
        raise InputError(f"{path}: {expected}, found more: {advice}")


def check_zip(content: bytes, path: Path, expected: str) -> None:
    """Refuse (InputError) a file that is no zip archive, as the `expected` document is, or that grows too much."""
    found = f"{path}: expected {expected}, found another or a damaged file"
    kinds = (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError)
    with (
        library_errors(found, kinds, advice=" Save it again in its program."),
        zipfile.ZipFile(io.BytesIO(content)) as archive,
    ):
        size = sum(part.file_size for part in archive.infolist())  # zipfile reads no more than is declared
    check_growth(path, size)


def decode(content: bytes, path: Path) -> str:
    """Decode a file's content as UTF-8; an InputError names the line that is none, or has NULs, as UTF-16 does."""
    try:
        text = content.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError as error:
        position = error.start
        found = f"the byte 0x{content[position]:02x}"
    else:
        position = content.find(b"\0")
        if position < 0:
            return text
        found = "a NUL character"
    line = content.count(b"\n", 0, position) + 1
    excel = " (in Excel: CSV UTF-8)" if path.suffix.lower() == ".csv" else ""
    where = f"{path}, line {line}"
    raise InputError(f"{where}: expected UTF-8 text, found {found}. Save the file as UTF-8{excel} and try again.")


def read_yaml_text(path: Path) -> str:
    """Read the text of a YAML file; raises InputError."""
    with open_file(path) as file:
        content = file.read(MAX_YAML + 1)
    if len(content) > MAX_YAML:
        raise InputError(f"{path}: expected a YAML file of at most {MAX_YAML:,} bytes, found a longer one.")
    return decode(content, path)


def parse_yaml(text: str, where: object) -> Any:
    """Parse a YAML text; the message of an InputError begins with `where`."""
    # PyYAML raises all kinds for a number, a date or a tag that it cannot convert, and for what is nested too deeply.
    with told_at(where), library_errors("expected settings in YAML"):
        node = yaml.compose(text, yaml.SafeLoader)
        if node is None:
            return None
        _check_nodes(node)
        return SafeConstructor().construct_document(node)


def _check_nodes(node: yaml.Node) -> None:
    """Check the number of values that a node stands for, each alias expanded, and that no name stands twice."""
    nodes, n_values = [node], 0
    while nodes:
        each = nodes.pop()
        n_values += 1
        if n_values > MAX_NODES:  # also of a value that contains itself
            raise InputError(f"expected at most {MAX_NODES:,} values with aliases expanded, found more.")
        if isinstance(each, yaml.MappingNode):
            names: set[str] = set()
            for name, value in each.value:
                nodes += [name, value]
                if isinstance(name, yaml.ScalarNode) and name.tag != "tag:yaml.org,2002:merge":
                    if name.value in names:
                        line = name.start_mark.line + 1
                        raise InputError(f"expected each name once, found {name.value!r} again in line {line}.")
                    names.add(name.value)
        elif isinstance(each, yaml.SequenceNode):
            nodes += each.value
