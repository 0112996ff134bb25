"""A repaired copy of a file of pairs or judged candidates, and a log of what was changed."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from ap_ranker.data.audit.checks import row_key
from ap_ranker.data.audit.repairs import repaired
from ap_ranker.data.columns import read_named_table
from ap_ranker.data.reader import Layout, find_layout
from ap_ranker.data.tables import write_table
from ap_ranker.errors import InputError
from ap_ranker.files import atomic_file


def fix(path: Path, output: Path, columns: tuple[str, str] | None = None) -> tuple[Counter[str], Path]:
    """Repair the faults that need no human judgement: those whose checks are `fixed`.

    Args:
        path: a file of pairs or judged candidates; it is not changed.
        output: the repaired copy, in the same layout with the same columns, every field as text and in every row.
        columns: the names of the columns of questions and answers, as for `read_dataset`.

    Returns:
        Kind -> number of repairs, and the path of the log beside the output (`<output>.changes.jsonl`). The log has a
        line for each change: its place in the input, its kind, the text before and after.

    Raises:
        InputError: answers by id, an output that exists already, or no row left.
    """
    log = output.parent / f"{output.name}.changes.jsonl"
    for file in (output, log):
        if file.exists():
            raise InputError(f"{file}: expected the name of a new file for the repaired data, found a file there.")
    table = read_named_table(path, columns)
    if find_layout(table) == Layout.by_id:
        raise InputError(
            f"{path}: expected pairs or judged candidates to repair, found answers by id, where changing one file "
            "may break another: repair by hand what `ap-ranker check` lists without --fix."
        )
    # Later JSON records may have additional fields.
    names = list(dict.fromkeys(name for row in table.rows for name in row.fields))
    kept: list[dict[str, str]] = []
    changes: list[dict[str, object]] = []
    seen: set[str] = set()
    for row in table.rows:
        fields = dict(row.fields)
        for column in ("question", "answer"):
            before = row.get(column)
            after, kinds = repaired(before)
            if kinds:
                fields[column] = after
            change = {"column": column, "before": before, "after": after}
            changes += [{"place": row.place, "kind": kind, **change} for kind in kinds]
        repaired_row = replace(row, fields=fields)
        if not (repaired_row.get("question") and repaired_row.get("answer")):
            changes.append({"place": row.place, "kind": "empty-text", "row_removed": row.fields})
        elif row_key(repaired_row) in seen:
            changes.append({"place": row.place, "kind": "repeated-row", "row_removed": row.fields})
        else:
            seen.add(row_key(repaired_row))
            kept.append({table.written.get(name, name): fields.get(name, "") for name in names})
    if not kept:
        raise InputError(f"{path}: expected rows with a question and an answer, found none that could be kept.")
    with atomic_file(log) as log_draft, atomic_file(output) as draft:
        write_table(draft, list(kept[0]), kept, output.name)
        lines = (json.dumps(change, ensure_ascii=False) + "\n" for change in changes)
        log_draft.write_text("".join(lines), encoding="utf-8")
    return Counter(str(change["kind"]) for change in changes), log
