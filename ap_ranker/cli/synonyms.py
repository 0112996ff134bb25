"""`ap-ranker synonyms`: shows what a file of synonyms changes, before users meet it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import Console
from ap_ranker.cli.options import Columns, Language, column_names
from ap_ranker.errors import InputError

console = Console(soft_wrap=True)

SHOWN = 20
"""Maximum number of questions in the table."""


def synonyms(
    file: Annotated[Path, typer.Argument(help="Synonyms: lines such as SAP = payroll system, or lift => elevator.")],
    documents: Annotated[Path, typer.Option(help="The FAQ (question, answer; or aid, answer).")],
    questions: Annotated[
        Path, typer.Option(help="Questions with their right answers (question, answer_ids; or question, answer).")
    ],
    language: Language = None,
    columns: Columns = None,
) -> None:
    """Search questions by words without and with synonyms, and show which right answers rise and fall."""
    from ap_ranker.data.reader import read_dataset
    from ap_ranker.evaluation.word_search import SYNONYMS_DEPTH, preview
    from ap_ranker.text.stem import check_language
    from ap_ranker.text.synonyms import read_synonyms

    if language is not None:
        check_language(language)
    known = read_synonyms(file, language)
    data = read_dataset(questions, "dev", answers=documents, columns=column_names(columns))
    if data.judged or not data.answerable:
        raise InputError(f"{questions}: expected questions with right answers of {documents}, found none.")
    result = preview(data, known)
    rising = sum(each.rises for each in result.moved)
    if result.moved:
        table = Table("question", "rank before", "after")
        for each in result.moved[:SHOWN]:
            style = "green" if each.rises else "red"
            before, after = (f"{rank:g}" if rank else "not found" for rank in (each.before, each.after))
            table.add_row(escape(each.question), before, f"[{style}]{after}[/]")
        console.print(table)
    console.print(
        f"{result.concerned:,} of {result.n_questions:,} questions have a synonym. Their right answer rises for "
        f"{rising:,}, falls for {len(result.moved) - rising:,}. BM25: MRR {result.mrr[0]:.3f} before, "
        f"{result.mrr[1]:.3f} after; found among the first {SYNONYMS_DEPTH}: {result.recall[0]:.1%} before, "
        f"{result.recall[1]:.1%} after.",
        highlight=False,
    )
