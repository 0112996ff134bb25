"""`ap-ranker extract`: makes a FAQ of the questions that documents ask themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ap_ranker.cli.console import console
from ap_ranker.cli.options import Columns, Overwrite, column_names
from ap_ranker.errors import InputError

SHOWN = 10
"""Maximum number of files that are named with their questions; the table names the source of each question."""


def extract(
    documents: Annotated[Path, typer.Argument(help="A document, or a folder of documents; with --titles also a FAQ.")],
    output: Annotated[Path, typer.Option(help="The CSV file to write: question, answer and source.")],
    titles: Annotated[
        bool,
        typer.Option(
            "--titles",
            help="Write pairs to train with instead: each title, or stored question of a FAQ, and the text below it.",
        ),
    ] = False,
    columns: Columns = None,
    overwrite: Overwrite = False,
) -> None:
    """Find the questions that documents ask themselves, and write them with their answers as a FAQ to edit.

    These are headings that ask a question, details with a summary, definition lists, and a FAQPage of schema.org.
    """
    if columns is not None and not titles:
        raise InputError("Expected --columns with --titles only: without it, tables are not read.")
    if titles:
        _write_titles(documents, output, columns, overwrite)
        return
    from ap_ranker.documents.extract import KINDS, check_output, write_faq
    from ap_ranker.documents.extract import extract as find

    check_output(output, overwrite=overwrite)  # before the documents are read, which may take minutes
    found = find(documents)
    write_faq(found, output, overwrite=overwrite)
    for kind, count in found.kinds.most_common():
        console.say(f"  {count:,} {KINDS[kind]}")
    for name, count in found.by_file.most_common(SHOWN):
        console.say(f"  {name}: {count:,}")
    if (more := len(found.by_file) - SHOWN) > 0:
        console.say(f"  {more:,} more files")
    if found.merged:
        console.say(f"  {found.merged:,} left out, as another entry has the same question and answer")
    if found.without:
        console.say(f"  {found.without:,} files ask no question: serve {documents} searches them, too")
    for left in found.left_out:
        console.say(f"  {left}")
    console.say(f"Wrote {output}: {len(found.entries):,} questions with answers.")
    folder = documents.resolve()
    if folder in output.resolve().parents:
        console.print(
            f"[bold yellow]Note:[/] a search of {escape(str(documents))} would find each answer twice, as the file is "
            "in it.",
        )


def _write_titles(documents: Path, output: Path, columns: str | None, overwrite: bool) -> None:
    from ap_ranker.documents.extract import check_output, write_table
    from ap_ranker.documents.titles import MOST, title_pairs

    check_output(output, overwrite=overwrite)
    found = title_pairs(documents, column_names(columns))
    write_table(output, ("question", "answer"), found.pairs, overwrite=overwrite)
    if found.too_general:
        console.say(f"  {found.too_general:,} titles left out that stand over more than {MOST} texts")
    console.say(
        f"Wrote {output}: {len(found.pairs):,} pairs. Train with them: "
        f"ap-ranker train {output} --output checkpoints/titles"
    )
