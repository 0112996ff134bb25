"""Checks question-answer files, as they were written, for faults."""

from __future__ import annotations

from pathlib import Path

from ap_ranker.data.audit import duplicates, ids, labels, splits, texts
from ap_ranker.data.audit.original_files import read_data
from ap_ranker.data.audit.report import AuditReport


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
    """Check data for every kind of fault in `ap_ranker.data.audit.report.KINDS`.

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
    data = read_data(path, dev=dev, test=test, answers=answers, columns=columns)
    report = AuditReport(str(path), len(data.questions), len(data.answers))
    report.add(texts.check(data, max_tokens))
    report.add(ids.check(data))
    report.add(labels.check(data))
    report.add(duplicates.check(data, near_answers=near_answers))
    report.add(splits.check(data))
    return report
