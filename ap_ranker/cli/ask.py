"""`ap-ranker ask`: asks a YAML pipeline over a FAQ or documents."""

from __future__ import annotations

from textwrap import indent
from typing import Annotated, Any

import typer
from rich.markup import escape

from ap_ranker.cli.console import Console, to_json
from ap_ranker.cli.options import (
    SEARCH_PIPELINE,
    Columns,
    Documents,
    MatchEntry,
    Precision,
    SearchPipeline,
    Wordings,
    column_names,
)
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.errors import InputError
from ap_ranker.serving.search import search_faq
from ap_ranker.serving.sources import Source

console = Console(soft_wrap=True)


def ask(
    questions: Annotated[list[str], typer.Argument(help="One or more questions.")],
    documents: Documents = None,
    columns: Columns = None,
    pipeline: SearchPipeline = SEARCH_PIPELINE,
    match: MatchEntry = DEFAULT_MATCH,
    top_k: Annotated[
        int | None, typer.Option(help="Maximum number of answers; by default, the pipeline's own setting.")
    ] = None,
    precision: Precision = None,
    wordings: Wordings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a FAQ or documents questions and print the best answers."""
    if top_k is not None and top_k <= 0:
        raise InputError(f"Expected --top-k above 0, found {top_k}.")
    results = search_faq(
        questions,
        pipeline,
        documents,
        columns=column_names(columns),
        match=match,
        top_k=top_k,
        precision=precision,
        wordings=wordings or (),
    )
    if as_json:
        typer.echo(to_json(results[0] if len(results) == 1 else results))
    else:
        for result in results:
            _print(result)


def _print(result: dict[str, Any]) -> None:
    console.print(f"\n[bold]{escape(result['question'])}[/]", highlight=False)
    if not result["answers"]:
        console.print("  No good answer found.")
    for rank, answer in enumerate(result["answers"], start=1):
        score = "-" if answer["score"] is None else f"{answer['score']:.3f}"
        source = Source(**answer["source"]) if "source" in answer else Source()
        console.print(f"  {rank}. {score}  [cyan]{escape(answer['question'] or '')}[/]", highlight=False)
        console.print(indent(escape(answer["answer"]), "     "), highlight=False)
        if source != Source():
            console.print(f"     [dim]{escape(str(source))}[/]", highlight=False)
