"""`ap-ranker gaps`: what users ask that the FAQ does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import console, errors
from ap_ranker.cli.options import SearchedOptions, takes_groups
from ap_ranker.data.question_log import Outcome, read_question_log
from ap_ranker.errors import InputError

SHOWN = 20
"""Maximum number of groups in the table."""


@takes_groups
def gaps(
    log: Annotated[Path, typer.Argument(help="The log of `ap-ranker serve --log-questions`.")],
    searched: SearchedOptions,
    feedback: Annotated[
        Path | None, typer.Option(help="Users' feedback: questions whose answers did not help are gaps, too.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="A CSV file for all groups, as rows of a FAQ whose answers are still empty.")
    ] = None,
) -> None:
    """Group the questions that were refused, found nothing or whose answers did not help, most asked first."""
    if searched.documents is None:
        raise InputError("Expected the FAQ that the questions were put to, found none. Name it with --documents.")
    if output is not None and output.suffix != ".csv":
        raise InputError(f"Expected --output ending in .csv, found {str(output)!r}.")
    questions = read_question_log(log)
    from ap_ranker.web.gaps import find_gaps, find_unanswered, write_gaps

    unanswered = find_unanswered(questions, feedback)
    with searched.set_up() as setup, errors.status("Grouping the questions ..."):
        search, _ = setup.load()
        entries = setup.documents.entries if setup.documents else []
        remaining, found = find_gaps(unanswered, search, entries, setup.match, setup.wordings)
    refused = sum(question.outcome != Outcome.answered for question in questions)
    console.say(
        f"{len(questions):,} questions, {refused:,} of them without an answer. {len(unanswered) - refused:,} answers "
        f"did not help. {len(unanswered) - remaining:,} of these questions are in the FAQ by now."
    )
    if not refused:
        console.say(
            "No question was refused. A search refuses only below a threshold: serve with --precision or "
            "--score-threshold."
        )
    if output is not None:
        write_gaps(found, output)
    table = Table("asked", "question", "nearest entry", "its score")
    for gap in found[:SHOWN]:
        further = f"\n[dim]+ {len(gap.questions) - 1} other wordings[/]" if len(gap.questions) > 1 else ""
        score = "-" if gap.score is None else f"{gap.score:.3f}"
        table.add_row(str(gap.asked), escape(gap.questions[0]) + further, escape(gap.nearest[:80]), score)
    if found:
        console.print(table)
    if len(found) > SHOWN:
        console.say(f"{len(found) - SHOWN:,} smaller groups not shown.")
    if output is not None:
        console.say(
            f"Wrote {len(found):,} groups into {output}. Fill in the answers, delete the other rows, and add them to "
            "the FAQ."
        )
