"""`ap-ranker gaps`: what users ask that the FAQ does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import Console
from ap_ranker.cli.options import (
    Checkpoint,
    Columns,
    Documents,
    MatchEntry,
    SearchLanguage,
    Wordings,
    column_names,
)
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.errors import InputError
from ap_ranker.web.question_log import Outcome, read_question_log

console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

SHOWN = 20
"""Maximum number of groups in the table."""


def gaps(
    log: Annotated[Path, typer.Argument(help="The log of `ap-ranker serve --log-questions`.")],
    documents: Documents = None,
    columns: Columns = None,
    model: Checkpoint = None,
    language: SearchLanguage = None,
    match: MatchEntry = DEFAULT_MATCH,
    wordings: Wordings = None,
    feedback: Annotated[
        Path | None, typer.Option(help="Users' feedback: questions whose answers did not help are gaps, too.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="A CSV file for all groups, as rows of a FAQ whose answers are still empty.")
    ] = None,
) -> None:
    """Group the questions that were refused, found nothing or whose answers did not help, most asked first."""
    if documents is None:
        raise InputError("Expected the FAQ that the questions were put to, found none. Name it with --documents.")
    if output is not None and output.suffix != ".csv":
        raise InputError(f"Expected --output ending in .csv, found {str(output)!r}.")
    questions = read_question_log(log)
    from ap_ranker.data.wordings import read_wordings
    from ap_ranker.search.setup import set_up
    from ap_ranker.web.gaps import (
        embedding_of,
        find_unanswered,
        group,
        known_questions,
        still_open,
        with_nearest,
        write_gaps,
    )

    unanswered = find_unanswered(questions, feedback)
    with (
        set_up(
            documents,
            model=model,
            language=language,
            columns=column_names(columns),
            match=match,
            wordings=wordings or (),
        ) as setup,
        errors.status("Grouping the questions ..."),
    ):
        search, _ = setup.load()
        entries = setup.documents.entries if setup.documents else []
        known = [read_wordings(file) for file in setup.wordings]
        remaining = still_open(unanswered, entries, match, known)
        found = group(remaining, embedding_of(search), known_questions(entries, known))
        found = [with_nearest(gap, search) for gap in found]
    refused = sum(question.outcome != Outcome.answered for question in questions)
    console.print(
        f"{len(questions):,} questions, {refused:,} of them without an answer. {len(unanswered) - refused:,} answers "
        f"did not help. {len(unanswered) - len(remaining):,} of these questions are in the FAQ by now.",
        highlight=False,
    )
    if not refused:
        console.print(
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
        console.print(f"{len(found) - SHOWN:,} smaller groups not shown.", highlight=False)
    if output is not None:
        console.print(
            f"Wrote {len(found):,} groups into {escape(str(output))}. Fill in the answers, delete the other rows, and "
            "add them to the FAQ.",
            highlight=False,
        )
