"""`ap-ranker wordings`: lists and takes back the wordings that users' feedback has added."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import Console
from ap_ranker.data.wordings import read_wordings
from ap_ranker.errors import InputError
from ap_ranker.files import writing

console = Console(soft_wrap=True)

WIDTH = 60
"""Maximum number of characters to show of an answer."""


def wordings(
    file: Annotated[Path, typer.Argument(help="A file of wordings, such as the feedback of `ap-ranker serve`.")],
    remove: Annotated[
        str | None, typer.Option(help="Take back this question: all its judgements leave the feedback file.")
    ] = None,
) -> None:
    """List the wordings that a search knows from a file, or take one back; a running search follows the file."""
    if remove is not None:
        _remove(file, remove)
        return
    known = read_wordings(file)
    table = Table("wording", "answer", title=escape(str(file)))
    for answer, texts in (*known.by_id.items(), *known.by_text.items()):
        for text in texts:
            table.add_row(escape(text), escape(answer if len(answer) <= WIDTH else f"{answer[:WIDTH]} ..."))
    console.print(table)


def _remove(file: Path, question: str) -> None:
    from ap_ranker.web.clicks import FeedbackFile

    if not file.is_file():
        raise InputError(f"{file}: expected a feedback file, found none.")
    with writing(file):
        removed = FeedbackFile(file).remove(question)
    if not removed:
        raise InputError(
            f"{file}: expected judgements of the question {question!r}, found none. List them: "
            f"ap-ranker wordings {file}"
        )
    console.print(f"{removed:,} judgements taken back; they are now in {escape(f'{file}.removed')}.", highlight=False)
