"""Tables of Markdown whose rows lack most of their cells, which a reader of Markdown would add, empty, to each row."""

from __future__ import annotations

import re

_BLANK_LINES = re.compile(r"\n[ \t]*(?=\n)")


def lacks_cells(text: str) -> bool:
    """Whether the tables of a text may have more cells than the text has characters: one is better read as text.

    A heading of a hundred cells makes a hundred of each line below it: 20,000 characters would become 65,000 cells.
    """
    if "|" not in text:
        return False
    cells = 0
    for block in _BLANK_LINES.split(text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = block.split("\n")
        # What separates the names of the columns from the rows; each line below it may be a row.
        widths = [line.count("|") + 1 for line in lines if not line.strip("|-: \t")]
        cells += max(widths, default=0) * len(lines)
    return cells > len(text)
