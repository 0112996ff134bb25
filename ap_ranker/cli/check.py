"""`ap-ranker check` and `doctor`: faults of data before training, and what stands in the way of a good search."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ap_ranker.cli.console import ProgressBars, console, to_json, write_json
from ap_ranker.cli.options import Answers, Columns, JsonFile, NamedDocuments, SearchedOptions, argument, option
from ap_ranker.errors import InputError
from ap_ranker.files import check_output, is_private
from ap_ranker.threads import wait_without_spinning

if TYPE_CHECKING:
    from ap_ranker.data.audit.report import AuditReport

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def check(
    data: Annotated[Path, argument("A file or folder of data, as for train; or documents, as for ask --documents.")],
    dev: Annotated[Path | None, option("Dev questions, instead of the folder's.")] = None,
    test: Annotated[Path | None, option("Test questions, instead of the folder's.")] = None,
    answers: Answers = None,
    columns: Columns = None,
    json_file: JsonFile = None,
    fix_file: Annotated[
        Path | None, option("Write a repaired copy of DATA to this file (pairs or judged candidates).", "--fix")
    ] = None,
) -> None:
    """Check data for faults. The exit code is 1 if there are errors, 2 if a file cannot be read, 0 otherwise.

    Of documents, list the files that cannot be read.
    """
    from ap_ranker.data.audit import audit
    from ap_ranker.data.audit.report import Severity
    from ap_ranker.data.reader import SPLITS, find_split
    from ap_ranker.documents import is_faq
    from ap_ranker.training.config import TrainingConfig

    check_output(json_file, read=(data, dev, test, answers))
    has_questions = any(find_split(data, split) for split in SPLITS) if data.is_dir() else is_faq(data)
    if not (has_questions or dev or test or answers or fix_file):
        _check_documents(data, columns, json_file=json_file)
        return
    look = partial(audit, data, dev=dev, test=test, answers=answers, columns=columns)
    with ProgressBars() as bars:
        report = look(max_tokens=TrainingConfig().max_tokens, on_progress=bars.update)
    _print(report)
    if json_file:
        quoted = any(map(is_private, (data, dev, test, answers)))
        write_json(json_file, report.as_json(), private=quoted)
    if fix_file:
        from ap_ranker.data.audit.fix import fix

        repaired, log = fix(data, fix_file, columns=columns)
        repairs = ", ".join(f"{kind} {count:,}" for kind, count in repaired.items()) or "nothing"
        console.say(f"Wrote {fix_file} (repaired: {repairs}) and {log}.")
    if report.counts(Severity.error):
        raise typer.Exit(1)


def _check_documents(path: Path, columns: tuple[str, str] | None, json_file: Path | None) -> None:
    """Print what can be read of documents, and each file that cannot."""
    from ap_ranker.documents import read_documents

    with ProgressBars() as bars:
        reading = read_documents(path, columns, on_progress=bars.update)
    console.say(
        f"{path}: {len(reading.entries):,} passages of {reading.files:,} files, {len(reading.left_out):,} left out"
    )
    if path.is_dir():
        console.say("         → read as documents to search: none is named train.*, dev.* or test.*")
    for left in reading.left_out:
        console.say(f"         {left}")
    if json_file:
        numbers = {"data": str(path), "passages": len(reading.entries), "files": reading.files}
        write_json(json_file, numbers | {"left_out": [vars(left) for left in reading.left_out]})


def warn_of_faults(
    data: Path, dev: Path | None, answers: Path | None, max_tokens: int, columns: tuple[str, str] | None = None
) -> AuditReport | None:
    """Print errors and warnings about training data in at most three lines; returns the audit, if there can be one."""
    from ap_ranker.data.audit import audit
    from ap_ranker.data.audit.report import Severity

    try:
        with ProgressBars() as bars:
            report = audit(
                data,
                dev=dev,
                answers=answers,
                max_tokens=max_tokens,
                near_answers=False,
                columns=columns,
                on_progress=bars.update,
            )
    except InputError as error:  # in a file that training does not need, such as test questions
        console.warn(f"the data cannot be checked. {error}")
        return None
    faults = report.counts(Severity.error) | report.counts(Severity.warning)
    leaks = {kind: count for kind, count in faults.items() if kind.endswith("leaked-question")}
    if leaks:
        also = f"{sum(leaks.values()):,} questions are also, exactly or nearly, in an earlier split"
        console.warn(f"{also}: measures will be too high.")
    others = [f"{kind} {count:,}" for kind, count in faults.items() if kind not in leaks]
    if others:
        console.warn(f"faults in the data: {', '.join(others)}.")
    if faults:
        console.say(f"  Details: ap-ranker check {data}")
    return report


def _print(report: AuditReport) -> None:
    from ap_ranker.data.audit.report import Severity

    console.say(f"{report.data}: {report.questions:,} question texts, {report.answers:,} answer texts")
    for finding in report.findings.values():
        head = f"[{STYLES[finding.severity]}]{finding.severity:<8}[/] [bold]{finding.kind}[/]"
        console.print(f"{head}: {finding.count:,} {escape(finding.meaning)}")
        for example in finding.examples:
            console.say(f"         {example['place']}: {example['found']}")
        fixed = "; --fix does so for pairs and judged data" if finding.fixed_by_fix else ""
        console.say(f"         → {finding.advice}{fixed}")
    totals = [f"{sum(report.counts(severity).values()):,} {severity}s" for severity in Severity]
    console.say(", ".join(totals))


def doctor(
    search: SearchedOptions,
    folder_or_faq: NamedDocuments = None,
    as_json: Annotated[bool, option("Print JSON.", "--json")] = False,
) -> None:
    """Say in one screen what stands in the way of a good search, and the next best step.

    It examines texts, known wordings, languages, checkpoint and calibration, as `serve` would search them. `check`
    lists the faults of texts one by one.
    """
    wait_without_spinning()
    with ProgressBars() as bars:
        from ap_ranker.search.diagnosis import diagnose

        with search.of(folder_or_faq).set_up(on_progress=bars.update) as setup:
            findings = diagnose(setup, bars.update)
    if as_json:
        typer.echo(to_json([asdict(finding) for finding in findings]))
        return
    for finding in findings:
        console.print("[yellow]![/]" if finding.advice else "[green]✓[/]", end=" ")
        console.say(finding.found)
        if finding.advice:
            console.say(f"  → {finding.advice}")
    steps = [finding.advice for finding in findings if finding.advice]
    if steps:
        console.say(f"Next: {steps[0]}")
    else:
        console.say("Nothing stands in the way. Look at `ap-ranker owner gaps` now and then.")
