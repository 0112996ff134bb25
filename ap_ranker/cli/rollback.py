"""`ap-ranker rollback`: brings back an earlier version of what `ap-ranker index` has written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import console


def rollback(
    pipeline: Annotated[Path, typer.Option(help="The Haystack pipeline that `ap-ranker index` was given.")],
    to: Annotated[
        int | None,
        typer.Option(help="Number of the version; by default the last one that differs.", show_default=False),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the versions, and change nothing.")] = False,
) -> None:
    """Bring back the documents of a store as they were before a run of `ap-ranker index`.

    The last five versions are kept. A running search follows at once. Another rollback takes this one back.
    """
    from ap_ranker.search.load_pipeline import describe_store, report_store_errors
    from ap_ranker.search.sync_store import find_versions

    store = find_versions(pipeline)
    with report_store_errors(pipeline, describe_store(store)):
        if show:
            table = Table("version", "until", "documents", title=escape(str(store.path)))
            for version in store.versions():
                table.add_row(str(version.number), f"{version.until:%Y-%m-%d %H:%M:%S}", f"{version.documents:,}")
            console.print(table)
            return
        version = store.restore_version(to)
    console.say(
        f"{describe_store(store)} holds the {version.documents:,} documents of version {version.number} again, "
        f"as they were until {version.until:%Y-%m-%d %H:%M:%S}. To take this back: "
        f"ap-ranker rollback --pipeline {pipeline}"
    )
