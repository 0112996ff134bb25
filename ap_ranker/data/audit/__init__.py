"""Checks question-answer files, as they were written, for faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ap_ranker.data.audit.audited_files import read_data
from ap_ranker.data.audit.report import AuditReport, Finding

EXAMPLES = 3
"""Number of faults of a kind that the report shows."""


def audit(
    path: Path,
    *,
    dev: Path | None = None,
    test: Path | None = None,
    answers: Path | None = None,
    max_tokens: int,
    near_answers: bool = True,
    columns: tuple[str, str] | None = None,
    on_progress: Callable[[str, int, int], None] = lambda step, done, total: None,
) -> AuditReport:
    """Check a file, or a folder with any of train.*, dev.*, test.*, for every kind of fault in `CHECKS`.

    `dev` and `test` are read instead of the folder's; `answers` are those of data by id, by default `answers.*` beside
    the questions; or the FAQ that the answers of pairs must be found in. Texts longer than `max_tokens` are cut in
    training. With `near_answers`, nearly equal answers are looked for, too, which takes long: a minute for 75,000
    pairs. `on_progress` gets the step in words, how many are done, and their number. An InputError says that a file
    cannot be read at all.
    """
    from ap_ranker.data.audit.checks import CHECKS, find_faults  # by the extra `train`

    data = read_data(path, {"dev": dev, "test": test}, answers, columns, max_tokens)
    faults: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for kind, place, details in find_faults(data, on_progress, near_answers=near_answers):
        faults[kind].append({"place": place, "found": details})
    findings: dict[str, Finding] = {}
    for kind, check in CHECKS.items():  # in their order, which is that of the report
        if kind in faults:
            findings[kind] = replace(check, count=len(faults[kind]), examples=faults[kind][:EXAMPLES])
    return AuditReport(str(path), len(data.questions), len(data.answers), findings)
