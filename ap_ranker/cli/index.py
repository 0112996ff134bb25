"""`ap-ranker index`: a FAQ file into a document store that lasts, as often as the file changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ap_ranker.cli.console import Console
from ap_ranker.cli.options import MatchEntry
from ap_ranker.data.faq import DEFAULT_MATCH

console = Console(soft_wrap=True)


def index(
    documents: Annotated[Path, typer.Argument(help="The FAQ: a file with columns question and answer.")],
    pipeline: Annotated[Path, typer.Option(help="A Haystack pipeline with a document store.")],
    match: MatchEntry = DEFAULT_MATCH,
) -> None:
    """Make a document store hold a FAQ: entries are added, changed and removed as the file says.

    Documents that others wrote into the store are left alone. An interrupted run goes on when the command runs again.
    """
    from ap_ranker.serving.mirror import index_faq

    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None)
        report = index_faq(
            documents,
            pipeline,
            match,
            on_progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    changes, duplicates = report.changes, report.duplicates
    console.print(
        f"{escape(report.place)} now holds the {changes.total:,} entries of {escape(str(documents))}: "
        f"{changes.added:,} added, {changes.changed:,} changed, {changes.removed:,} removed, "
        f"{changes.unchanged:,} unchanged." + (f" {duplicates:,} equal to another left out." if duplicates else ""),
        highlight=False,
    )
