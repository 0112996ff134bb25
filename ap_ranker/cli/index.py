"""`ap-ranker index`: writes a FAQ or documents to a persistent document store, again whenever they change."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import ProgressBars, console
from ap_ranker.cli.options import Columns, Corpus, MatchEntry, column_names
from ap_ranker.data.faq import DEFAULT_MATCH


def index(
    documents: Corpus,
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
    console.say(
        f"{changes.place} now holds the {changes.total:,} entries of {documents}: "
        f"{changes.added:,} added, {changes.changed:,} changed, {changes.removed:,} removed, "
        f"{changes.unchanged:,} unchanged."
        + (f" {changes.duplicates:,} duplicates left out." if changes.duplicates else ""),
    )
