"""`ap-ranker extract`: makes a FAQ of the questions that documents ask themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ap_ranker.cli.console import Console

console = Console(soft_wrap=True)

SHOWN = 10
"""Maximum number of files that are named with their questions; the table names the source of each question."""


def extract(
    documents: Annotated[Path, typer.Argument(help="A document, or a folder of documents.")],
    output: Annotated[Path, typer.Option(help="The CSV file to write, with the columns question, answer and source.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Find the questions that documents ask themselves, and write them with their answers as a FAQ to edit.

    These are headings that ask a question, details with a summary, definition lists, and a FAQPage of schema.org.
    """
    from ap_ranker.data.documents.extract import KINDS, check_output, write_faq
    from ap_ranker.data.documents.extract import extract as find

    check_output(output, overwrite=overwrite)  # before the documents are read, which may take minutes
    found = find(documents)
    write_faq(found, output, overwrite=overwrite)
    for kind, count in found.kinds.most_common():
        console.print(f"  {count:,} {KINDS[kind]}", highlight=False)
    for name, count in found.by_file.most_common(SHOWN):
        console.print(f"  {escape(name)}: {count:,}", highlight=False)
    if (more := len(found.by_file) - SHOWN) > 0:
        console.print(f"  {more:,} more files", highlight=False)
    if found.merged:
        console.print(f"  {found.merged:,} left out, as another entry has the same question and answer")
    if found.without:
        console.print(f"  {found.without:,} files ask no question: serve {escape(str(documents))} searches them, too")
    for left in found.left_out:
        console.print(f"  {left}", markup=False, highlight=False)
    console.print(f"Wrote {escape(str(output))}: {len(found.entries):,} questions with answers.", highlight=False)
    folder = documents.resolve()
    if folder in output.resolve().parents:
        console.print(
            f"[bold yellow]Note:[/] a search of {escape(str(documents))} would find each answer twice, as the file is "
            "in it.",
            highlight=False,
        )
