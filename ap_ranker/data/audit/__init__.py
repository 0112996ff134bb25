"""An audit of question-answer data: what is wrong in the files, as they were written."""

from __future__ import annotations

from pathlib import Path

from ap_ranker.data.audit import duplicates, ids, labels, splits, texts
from ap_ranker.data.audit.report import AuditReport
from ap_ranker.data.audit.rows import read_data


def audit(
    path: Path,
    *,
    dev: Path | None = None,
    test: Path | None = None,
    answers: Path | None = None,
    max_tokens: int,
    near_answers: bool = True,
) -> AuditReport:
    """Look for every kind of fault in `ap_ranker.data.audit.report.KINDS`.

    Args:
        path: a file, or a folder with any of train.*, dev.*, test.*.
        dev: dev questions, instead of the folder's.
        test: test questions, likewise.
        answers: the answers of data by id; by default `answers.*` beside the questions.
        max_tokens: longer texts are cut in training.
        near_answers: look for answers that are nearly the same, too: most of the time that an audit takes.

    Raises:
        InputError: a file cannot be read at all: no such file, not UTF-8, a broken record, unknown columns.
    """
    data = read_data(path, dev=dev, test=test, answers=answers)
    report = AuditReport(str(path), len(data.questions), len(data.answers))
    report.add(texts.check(data, max_tokens))
    report.add(ids.check(data))
    report.add(labels.check(data))
    report.add(duplicates.check(data, near_answers=near_answers))
    report.add(splits.check(data))
    return report
