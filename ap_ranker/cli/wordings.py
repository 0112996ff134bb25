"""`ap-ranker wordings`: lists what users say an answer helped with, for the owner to accept, and takes it back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import console
from ap_ranker.data.feedback import helpful_answers
from ap_ranker.errors import InputError
from ap_ranker.files import writing

WIDTH = 60
"""Maximum number of characters to show of an answer."""


def wordings(
    file: Annotated[Path, typer.Argument(help="The feedback file of `ap-ranker serve`.")],
    remove: Annotated[
        str | None, typer.Option(help="Take back this question: all its judgements leave the feedback file.")
    ] = None,
) -> None:
    """List each question that an answer helped, as most users say, or take one back.

    No search knows these wordings. Add those that you accept to the FAQ, or to a file that --wordings names.
    """
    if remove is not None:
        _remove(file, remove)
        return
    table = Table("wording", "answer", title=escape(str(file)))
    for question, answer in helpful_answers(file):
        table.add_row(escape(question), escape(answer if len(answer) <= WIDTH else f"{answer[:WIDTH]} ..."))
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
    console.say(f"{removed:,} judgements taken back; they are now in {file}.removed.")
