"""A repaired copy of a file of pairs or judged candidates, and a log of what was changed."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from ap_ranker.data.audit.checks import row_key
from ap_ranker.data.audit.repairs import repaired, repaired_line
from ap_ranker.data.reader import Layout, find_layout, is_unanswerable
from ap_ranker.data.rows import WORDING_COLUMNS
from ap_ranker.data.tables import PAIR, read_named_table
from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file, check_output, csv_text, is_private


def fix(path: Path, output: Path, columns: tuple[str, str] | None = None) -> tuple[Counter[str], Path]:
    """Repair the faults of a file of pairs or judged candidates that need no judgement: those that are `fixed`.

    The repaired copy, `output`, is a CSV file of the same layout and columns. It returns the number of repairs by kind,
    and the path of the log beside the output (`<output>.changes.jsonl`), which has a line for each change: its place in
    the input, its kind, the text before and after. An InputError refuses answers by id, an output that exists already
    or has another ending, and a file of which no row is left.
    """
    check_output(output, ".csv")
    log = output.parent / f"{output.name}.changes.jsonl"
    for file in (output, log):
        if file.exists():
            raise InputError(
                f"{file}: expected the name of a new file for the repaired data, found a file there. Name another."
            )
    table = read_named_table(path, columns)
    if find_layout(table) == Layout.by_id:
        raise InputError(
            f"{path}: expected pairs or judged candidates to repair, found answers by id, where changing one file "
            "may break another: repair by hand what `ap-ranker check` lists without --fix."
        )
    names: dict[str, None] = {}
    for row in table.rows:  # later JSON records may have additional fields
        names.update(dict.fromkeys(row.fields))
    repaired_rows: list[dict[str, str]] = []
    changes: list[dict[str, object]] = []
    earlier_keys: set[str] = set()
    for row in table.rows:
        fields = dict(row.fields)
        wording_columns = filter(WORDING_COLUMNS.fullmatch, row.fields)
        for column in (*PAIR, *wording_columns):
            before = row.get(column)
            after, kinds = repaired(before) if column in PAIR else _repaired_lines(before)
            if kinds:
                fields[column] = after
            for kind in kinds:
                changes.append({"place": row.place, "kind": kind, "column": column, "before": before, "after": after})
        new = replace(row, fields=fields)
        is_empty = not new.get("question") or not (new.get("answer") or is_unanswerable(new))
        if is_empty or row_key(new) in earlier_keys:
            kind = "empty-text" if is_empty else "repeated-row"
            changes.append({"place": row.place, "kind": kind, "row_removed": row.fields})
        else:
            earlier_keys.add(row_key(new))
            as_written: dict[str, str] = {}
            for name in names:
                as_written[table.written.get(name, name)] = fields.get(name, "")
            repaired_rows.append(as_written)
    if not repaired_rows:
        raise InputError(f"{path}: expected rows with a question and an answer, found none that could be kept.")
    private = is_private(path)
    with atomic_file(log, private=private) as log_draft, atomic_file(output, private=private) as draft:
        written_names = list(repaired_rows[0])
        texts = [list(row.values()) for row in repaired_rows]
        draft.write_text(csv_text(written_names, texts), encoding="utf-8")
        lines = [json.dumps(change, ensure_ascii=False) + "\n" for change in changes]
        log_draft.write_text("".join(lines), encoding="utf-8")
    return Counter(str(change["kind"]) for change in changes), log


def _repaired_lines(cell: str) -> tuple[str, list[str]]:
    """A cell whose lines are repaired each, and the distinct kinds of fault that they had."""
    lines: list[str] = []
    kinds: dict[str, None] = {}
    for line in cell.splitlines():
        mended, kinds_of_line = repaired_line(line.strip())
        lines.append(mended)
        kinds.update(dict.fromkeys(kinds_of_line))
    return ("\n".join(lines) if kinds else cell), list(kinds)
