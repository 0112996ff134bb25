"""`ap-ranker changes`: what the owner has changed, and a FAQ file with all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import Console
from ap_ranker.cli.options import Columns, column_names
from ap_ranker.data.faq import read_faq
from ap_ranker.errors import InputError
from ap_ranker.web.changes import Action, Change, apply_changes, read_changes

console = Console(soft_wrap=True)


def changes(
    faq: Annotated[Path, typer.Argument(help="The FAQ that the changes were made to, a table.")],
    file: Annotated[
        Path, typer.Option("--changes", help="The file of changes that `ap-ranker serve` has written.")
    ] = Path("changes.jsonl"),
    columns: Columns = None,
    output: Annotated[
        Path | None,
        typer.Option(help="A new CSV file for the FAQ with all changes; the FAQ's own file stays as it is."),
    ] = None,
) -> None:
    """List the changes of the owner's page, or write the FAQ with all of them into a new file."""
    if not file.is_file():
        raise InputError(f"{file}: expected a file of changes, found none. Name it with --changes.")
    if output is not None and output.suffix != ".csv":
        raise InputError(f"Expected --output ending in .csv, found {str(output)!r}.")
    if output is not None and output.exists() and output.samefile(faq):
        raise InputError(f"{output}: expected another file than the FAQ itself. Choose another --output.")
    known = read_changes(file)
    changed = apply_changes(read_faq(faq, column_names(columns)), known)
    table = Table("time", "change", "entry", "")
    for change in known:
        if change.action != Action.undo:
            state = "undone" if change.id in changed.undone else ""
            state = "no longer applies" if change.id in changed.lapsed else state
            table.add_row(change.time, change.action, escape(_described(change)), state)
    console.print(table)
    if changed.lapsed:
        console.print(
            f"{len(changed.lapsed):,} changes no longer apply: their entries have changed in {escape(str(faq))}.",
            highlight=False,
        )
    if output is not None:
        from ap_ranker.data.writer import write_entries  # takes a second to load

        write_entries([keyed.entry for keyed in changed.entries], output)
        console.print(f"Wrote {len(changed.entries):,} entries into {escape(str(output))}.", highlight=False)


def _described(change: Change) -> str:
    lines = [change.of or change.question or change.answer[:80]]
    if change.action in (Action.add_wordings, Action.remove_wordings):
        lines += [f"• {wording}" for wording in change.wordings]
    return "\n".join(lines)
