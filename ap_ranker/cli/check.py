"""`ap-ranker check`: checks data for faults before training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ap_ranker.cli.console import Console
from ap_ranker.cli.options import Answers, Columns, Language, column_names
from ap_ranker.errors import InputError
from ap_ranker.files import write_text_atomically

if TYPE_CHECKING:
    from ap_ranker.data.audit.report import AuditReport
    from ap_ranker.training.config import TrainingConfig

console = Console(soft_wrap=True)
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def check(
    data: Annotated[
        Path, typer.Argument(help="A file or folder of data, as for train; or documents, as for ask --documents.")
    ],
    dev: Annotated[Path | None, typer.Option(help="Dev questions, instead of the folder's.")] = None,
    test: Annotated[Path | None, typer.Option(help="Test questions, instead of the folder's.")] = None,
    answers: Answers = None,
    columns: Columns = None,
    language: Language = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the findings to this JSON file.")] = None,
    fix_file: Annotated[
        Path | None,
        typer.Option("--fix", help="Write a repaired copy of DATA to this file (pairs or judged candidates)."),
    ] = None,
) -> None:
    """Check data for faults. The exit code is 1 if there are errors, 0 otherwise.

    With --language, also measure whether BM25 finds more with that language's stemmer. Of documents, list the files
    that cannot be read.
    """
    from ap_ranker.data.audit import audit
    from ap_ranker.data.audit.fix import fix
    from ap_ranker.data.audit.report import Severity
    from ap_ranker.training.config import TrainingConfig

    pair = column_names(columns)
    if _are_documents(data) and not (dev or test or answers):
        if fix_file or language:
            raise InputError(f"{data}: --fix and --language are for questions with answers, found documents.")
        _check_documents(data, pair, json_file)
        return
    settings = TrainingConfig(language=language)
    report = audit(data, dev=dev, test=test, answers=answers, max_tokens=settings.max_tokens, columns=pair)
    _print(report)
    if language:
        _print_recall(data, dev, answers, settings, pair)
    if json_file:
        if json_file.exists() and any(file and json_file.samefile(file) for file in (data, dev, test, answers)):
            raise InputError(f"{json_file}: expected another file than the data for --json, found the data.")
        write_text_atomically(json_file, json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n")
    if fix_file:
        repaired, log = fix(data, fix_file, pair)
        repairs = ", ".join(f"{kind} {count:,}" for kind, count in repaired.items()) or "nothing"
        console.print(f"Wrote {fix_file} (repaired: {repairs}) and {log}.", markup=False, highlight=False)
    if report.counts(Severity.error):
        raise typer.Exit(1)


def _are_documents(path: Path) -> bool:
    """Whether the path is a document, or a folder without questions to train with or to measure by."""
    from ap_ranker.data.reader import SPLITS, find_split
    from ap_ranker.documents import is_faq

    return not any(find_split(path, split) for split in SPLITS) if path.is_dir() else not is_faq(path)


def _check_documents(path: Path, columns: tuple[str, str] | None, json_file: Path | None) -> None:
    """Print what can be read of documents, and each file that cannot."""
    from ap_ranker.documents import read_documents

    with console.status("Reading the documents ..."):
        reading = read_documents(path, columns)
    console.print(
        f"{escape(str(path))}: {len(reading.entries):,} passages of {reading.files:,} files, "
        f"{len(reading.left_out):,} left out",
        highlight=False,
    )
    if path.is_dir():
        console.print("         → read as documents to search: none is named train.*, dev.* or test.*", highlight=False)
    for left in reading.left_out:
        console.print(f"         {left}", markup=False, highlight=False)
    if json_file:
        left_out = [{"place": left.place, "reason": left.reason} for left in reading.left_out]
        found = {"data": str(path), "passages": len(reading.entries), "files": reading.files, "left_out": left_out}
        write_text_atomically(json_file, json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def warn_of_faults(
    shown: Console,
    data: Path,
    dev: Path | None,
    answers: Path | None,
    max_tokens: int,
    columns: tuple[str, str] | None = None,
) -> AuditReport | None:
    """Print errors and warnings about training data in at most three lines.

    Returns:
        The audit's report; `None` if the data cannot be checked.
    """
    from ap_ranker.data.audit import audit
    from ap_ranker.data.audit.report import Severity

    try:
        report = audit(data, dev=dev, answers=answers, max_tokens=max_tokens, near_answers=False, columns=columns)
    except InputError as error:  # in a file that training does not need, such as test questions
        shown.print(f"[yellow]Warning:[/] the data cannot be checked. {escape(str(error))}", highlight=False)
        return None
    faults = report.counts(Severity.error) | report.counts(Severity.warning)
    leaks = sum(count for kind, count in faults.items() if kind.endswith("leaked-question"))
    if leaks:
        shown.print(
            f"[yellow]Warning:[/] {leaks:,} questions are also, exactly or nearly, in an earlier split: measures will "
            "be too high."
        )
    others = [f"{kind} {count:,}" for kind, count in faults.items() if not kind.endswith("leaked-question")]
    if others:
        shown.print(f"[yellow]Warning:[/] faults in the data: {', '.join(others)}.", highlight=False)
    if faults:
        shown.print(f"  Details: ap-ranker check {escape(str(data))}", highlight=False)
    return report


def _print_recall(
    data: Path, dev: Path | None, answers: Path | None, settings: TrainingConfig, columns: tuple[str, str] | None
) -> None:
    """Print what BM25 finds for the dev questions, without and with a stemmer."""
    from ap_ranker.evaluation.word_search import bm25_recall
    from ap_ranker.ranking.bm25 import bm25_name
    from ap_ranker.training.data import read_training_data

    _, development = read_training_data(data, dev, answers, settings, columns=columns)
    for each in (None, settings.language):
        shares = [f"{share:.1%} among its {n} best" for n, share in bm25_recall(development, each).items()]
        console.print(f"{bm25_name(each)}: a right answer {', '.join(shares)}", highlight=False)
    console.print(
        f"         → {len(development.answerable):,} dev questions; to use it: train --language "
        f"{settings.language}, and language: {settings.language} in the document store",
        highlight=False,
    )


def _print(report: AuditReport) -> None:
    from ap_ranker.data.audit.report import Severity

    console.print(
        f"{escape(report.data)}: {report.questions:,} question texts, {report.answers:,} answer texts", highlight=False
    )
    for severity in Severity:
        for name, finding in report.of(severity).items():
            share = "" if finding.share is None else f" ({finding.share:.1%})"
            console.print(
                f"[{STYLES[severity]}]{severity:<8}[/] [bold]{name}[/]: {finding.count:,}{share} "
                f"{escape(finding.check.meaning)}",
                highlight=False,
            )
            for place, found in finding.examples:
                console.print(f"         {place}: {found}", markup=False, highlight=False)
            advice = finding.check.advice + ("; --fix does so for pairs and judged data" if finding.check.fixed else "")
            console.print(f"         → {escape(advice)}", highlight=False)
    totals = [f"{sum(report.counts(severity).values()):,} {severity}s" for severity in Severity]
    console.print(", ".join(totals), highlight=False)
