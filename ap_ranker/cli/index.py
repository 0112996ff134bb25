"""`ap-ranker index`: writes a FAQ or documents to a persistent document store, again whenever they change."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ap_ranker.cli.console import Console
from ap_ranker.cli.options import Columns, MatchEntry, column_names
from ap_ranker.cli.progress import ProgressBars
from ap_ranker.data.faq import DEFAULT_MATCH

console = Console(soft_wrap=True)


def index(
    documents: Annotated[Path, typer.Argument(help="The FAQ, a document, or a folder of documents and tables.")],
    pipeline: Annotated[Path, typer.Option(help="A Haystack pipeline with a document store.")],
    columns: Columns = None,
    match: MatchEntry = DEFAULT_MATCH,
) -> None:
    """Synchronize a document store with a FAQ or documents: add, change and remove entries.

    Documents from other sources are not touched. To continue an interrupted run, run the command again.
    """
    from ap_ranker.search.sync_store import index_faq

    with ProgressBars() as bars:
        changes = index_faq(
            documents,
            pipeline,
            match,
            columns=column_names(columns),
            on_progress=partial(bars.update, "indexing"),
            on_embedded=partial(bars.update, "embedding"),
        )
    console.print(
        f"{escape(changes.place)} now holds the {changes.total:,} entries of {escape(str(documents))}: "
        f"{changes.added:,} added, {changes.changed:,} changed, {changes.removed:,} removed, "
        f"{changes.unchanged:,} unchanged."
        + (f" {changes.duplicates:,} duplicates left out." if changes.duplicates else ""),
        highlight=False,
    )
