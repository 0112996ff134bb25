"""Whether a tab-separated file puts fields in quotation marks. In most, a quotation mark is an ordinary character."""

from __future__ import annotations

import csv
import io
import math
import re
from typing import Literal

_FIELD = re.compile(r'"(?:[^"]|"")*"')


def has_quoted_fields(text: str) -> bool:
    """Whether a tab-separated text is to be read as CSV: its quoted fields may hold tabs, line ends and doubled marks.

    Of both readings, the one in which more records fit the header is right. Where all fit in both, no field holds a tab
    or a line end; then quoted fields are known by a doubled mark, or by a quoted header, if no mark stands elsewhere:
    `5" pipe`, `"Gap" refers to` and even `"open`, closed in a later row, are texts.
    """
    if '"' not in text:
        return False
    plain, quoted = _fitting_lines(text, csv.QUOTE_NONE), _fitting_lines(text, csv.QUOTE_MINIMAL)
    if quoted != plain or plain < math.inf:
        return quoted > plain
    marked = [field for field in re.split(r"[\t\r\n]", text) if '"' in field]
    header = re.split(r"[\r\n]", text, maxsplit=1)[0]
    return all(map(_FIELD.fullmatch, marked)) and ('"' in header or any('""' in field[1:-1] for field in marked))


def _fitting_lines(text: str, quoting: Literal[0, 3]) -> float:
    """Number of the last line before the first record that does not fit the header; infinite if all fit."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=quoting, strict=True)
    last, widths = 0, set[int]()
    try:
        for record in reader:
            named = [place for place, name in enumerate(record, start=1) if name.strip()]
            widths = widths or {len(record), *named[-1:]}  # empty names at the end are none
            if any(record) and len(record) not in widths:
                return last
            last = reader.line_num
    except csv.Error:
        return last
    return math.inf
