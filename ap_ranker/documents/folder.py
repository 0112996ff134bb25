"""Finds the files of a folder, says which are left out, and keeps what was read of the others."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from ap_ranker.data.faq import Entry
from ap_ranker.data.rows import LeftOut
from ap_ranker.data.tables import FORMATS as TABLES
from ap_ranker.data.tables import file_format
from ap_ranker.documents.convert import FORMATS
from ap_ranker.documents.markup_questions import MarkupQuestion
from ap_ranker.safe_open import save_as, what_is_at


@dataclass(frozen=True)
class FileReading:
    """What was read of one file."""

    entries: list[Entry]  # its passages, entries or rows
    left_out: list[LeftOut] = field(default_factory=list)  # rows or parts that could not be read, or the whole file
    questions: list[MarkupQuestion] = field(default_factory=list)  # that the document itself asks, with whole answers
    has_columns: bool = False  # whether it is a table with the columns that the caller names
    version: tuple[int, ...] = ()  # of the file


def find_files(root: Path) -> tuple[list[Path], list[LeftOut]]:
    """The readable files of a folder and of all folders in it, by name; and the others.

    Links are not followed, so that nothing is read twice, endlessly, or from outside of the folder. Checkpoints are
    left out: their model cards answer nobody's question.
    """
    files: list[Path] = []
    left_out: list[LeftOut] = []

    def leave_out(path: Path | str, reason: str) -> None:
        place = Path(path).relative_to(root).as_posix()
        left_out.append(LeftOut(place, reason))

    def refused(error: OSError) -> None:
        leave_out(error.filename, f"a folder that cannot be read ({error.strerror}).")

    for folder, folders, names in os.walk(root, onerror=refused):
        entered: list[str] = []
        for name in [*folders, *sorted(names)]:
            path = Path(folder, name)
            try:
                reason = _reason(path, root, is_folder=name in folders)
            except OSError as error:  # of what is in a folder that may be listed, but not entered
                reason = f"cannot be read ({error.strerror})."
            if reason:
                leave_out(path, reason)
            elif name in folders:
                entered.append(name)
            else:
                files.append(path)
        folders[:] = sorted(entered)
    return sorted(files), sorted(left_out, key=lambda left: left.place)


def _reason(path: Path, root: Path, *, is_folder: bool) -> str:
    """Why a file or folder is left out; empty if it is not."""
    if path.name.startswith((".", "~$")):  # Office keeps such a file beside an open document
        return "hidden."
    if path.is_symlink():
        inside = path.exists() and path.resolve().is_relative_to(root.resolve())
        return "a link to what is read anyway." if inside else "a link that leaves the folder, or leads nowhere."
    if is_folder:
        is_checkpoint = all((path / name).is_file() for name in ("config.json", "model.safetensors"))
        return "a checkpoint." if is_checkpoint else ""
    kind = what_is_at(path)
    if kind != "a file":
        return f"{kind}, not a file."
    if file_format(path) not in TABLES and path.suffix.lower() not in FORMATS:
        return f"its ending is not that of a document or a table.{save_as(path)}"
    return ""
