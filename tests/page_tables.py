"""Reads the tables of pages."""

from __future__ import annotations

import re
from pathlib import Path

Table = list[list[str]]
"""The cells of each row, titles and the rule below them included, without asterisks and backquotes."""


def tables(path: Path, heading: str = "") -> list[Table]:
    """The tables below a heading of any level, up to the next one of any level, or of the page."""
    page = path.read_text(encoding="utf-8")
    if heading:
        page = re.split(rf"^#+ {re.escape(heading)}$", page, flags=re.MULTILINE)[1]
        page = re.split(r"^#", page, maxsplit=1, flags=re.MULTILINE)[0]
    found: list[Table] = [[]]
    for line in page.splitlines():
        if line.startswith("|"):
            found[-1].append([re.sub(r"[`*]", "", cell).strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def rows(path: Path, heading: str = "") -> Table:
    """The rows of all these tables."""
    return [cells for table in tables(path, heading) for cells in table]


def by_name(table: Table) -> dict[str, list[str]]:
    """The first cell of each row -> the others."""
    return {first: others for first, *others in table}
