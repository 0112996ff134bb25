"""Checks question-answer files, as they were written, for faults."""

from __future__ import annotations

from pathlib import Path

from ap_ranker.data.audit import duplicates, ids, labels, texts
from ap_ranker.data.audit.audited_files import read_data
from ap_ranker.data.audit.report import EXAMPLES, AuditReport, Check, Finding

CHECKS: dict[str, Check] = {**texts.check, **ids.check, **labels.check, **duplicates.check}
"""Name of a kind of fault -> its check, in the order of the report."""


def audit(
    path: Path,
    *,
    dev: Path | None = None,
    test: Path | None = None,
    answers: Path | None = None,
    max_tokens: int,
    near_answers: bool = True,
    columns: tuple[str, str] | None = None,
) -> AuditReport:
    """Check data for every kind of fault in `CHECKS`.

    Args:
        path: a file, or a folder with any of train.*, dev.*, test.*.
        dev: dev questions, instead of the folder's.
        test: test questions, instead of the folder's.
        answers: the answers of data by id; by default `answers.*` beside the questions.
        max_tokens: longer texts are cut in training.
        near_answers: also look for nearly equal answers, which takes most of the time.
        columns: the names of the columns of questions and answers, as for `read_dataset`.

    Raises:
        InputError: a file cannot be read at all: no such file, not UTF-8, a broken record, unknown columns.
    """
    data = read_data(path, dev=dev, test=test, answers=answers, columns=columns, max_tokens=max_tokens)
    report = AuditReport(str(path), len(data.questions), len(data.answers))
    totals = {"long-question": report.questions, "long-answer": report.answers}
    for name, check in CHECKS.items():
        faults = list(check.find(data)) if near_answers or not name.startswith("near-answer") else []
        if faults:
            share = len(faults) / totals[name] if name in totals else None
            report.findings[name] = Finding(check, len(faults), faults[:EXAMPLES], share)
    return report
