"""Reads what a search is filled with: a FAQ table, a document, or a folder of both."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.data.documents.convert import FORMATS, convert
from ap_ranker.data.documents.folder import LeftOut, find_files
from ap_ranker.data.documents.passages import split
from ap_ranker.data.documents.rows import read_rows
from ap_ranker.data.faq import Entry, read_faq
from ap_ranker.data.tables import FORMATS as TABLES
from ap_ranker.data.tables import file_format
from ap_ranker.errors import InputError
from ap_ranker.reading import open_file, what_is_at

logger = logging.getLogger(__name__)

SHOWN = 10
"""Maximum number of files left out that are named while a command goes on; `ap-ranker check` names all."""


@dataclass(frozen=True)
class Reading:
    """What was read of a folder or a file.

    Attributes:
        entries: passages of documents, and entries and rows of tables.
        files: number of files that they come from.
        left_out: what could not be read, and why.
    """

    entries: list[Entry]
    files: int
    left_out: list[LeftOut]


def read_entries(path: Path, columns: tuple[str, str] | None = None) -> list[Entry]:
    """Read the entries to search, and log what was left out; arguments and errors as for `read_documents`."""
    if is_faq(path):
        return read_faq(path, columns)
    reading = read_documents(path, columns)
    logger.info("%s: %s passages of %s files.", path, f"{len(reading.entries):,}", f"{reading.files:,}")
    for left in reading.left_out[:SHOWN]:
        logger.warning("%s", left)
    if (more := len(reading.left_out) - SHOWN) > 0:
        logger.warning("%s more left out. List them: ap-ranker check %s", f"{more:,}", path)
    return reading.entries


def is_faq(path: Path) -> bool:
    """Whether it can only be a FAQ: a table, or a name of nothing that can be read."""
    kind = what_is_at(path)
    return file_format(path) in TABLES if kind == "a file" else kind != "a folder"


def read_documents(path: Path, columns: tuple[str, str] | None = None) -> Reading:
    """Read a document, or a folder of documents and tables with all folders in it.

    Documents are split at headings, then to the length that a model reads. A table with questions and answers gives
    its entries, another one a passage per row. What cannot be read is left out.

    Args:
        path: the file or folder.
        columns: the names of a table's columns of questions and answers; by default they are recognized.

    Raises:
        InputError: nothing at all could be read, or no table has `columns`.
    """
    is_folder = what_is_at(path) == "a folder"
    root = path if is_folder else path.parent
    files, left_out = find_files(path) if is_folder else ([path], [])
    entries: list[Entry] = []
    n_files = 0
    unused = columns
    for file in files:
        name = os.fsencode(file.relative_to(root).as_posix()).decode(errors="replace")
        try:
            if file_format(file) in TABLES:
                table = read_rows(file, name, columns)
                found, unused = table.entries, None if table.chosen else unused
                left_out += table.left_out
            else:
                found = _passages(file, name)
        except (InputError, OSError) as error:
            if not is_folder:
                raise
            reason = f"cannot be read ({error.strerror})." if isinstance(error, OSError) else str(error)
            left_out.append(LeftOut(name, reason.removeprefix(str(file)).lstrip(":, ")))
            continue
        entries += found
        n_files += 1
    if not entries:
        endings = ", ".join([*FORMATS, *TABLES])
        example = f" ({left_out[0]})" if left_out else ""
        raise InputError(f"{path}: expected files ending in {endings}, found none that can be read{example}.")
    if unused:
        raise InputError(
            f"{path}: expected a table with the columns {unused[0]!r} and {unused[1]!r} that --columns names, found "
            "none."
        )
    return Reading(entries, n_files, sorted(left_out, key=lambda left: left.place))


def _passages(file: Path, name: str) -> list[Entry]:
    with open_file(file) as stream:
        converted = convert(stream.read(), file)
    passages = split(converted, Path(name).stem)
    if not passages:
        raise InputError(f"{file}: expected text, found none{converted.advice}.")
    source = {"file_path": name} | ({"url": converted.url} if converted.url else {})
    return [
        Entry("", part.text, source | ({"page_number": str(part.page)} if part.page else {}), name, title=part.title)
        for part in passages
    ]
