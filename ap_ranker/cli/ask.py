"""`ap-ranker ask`: questions to a YAML pipeline over the entries of a FAQ file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ap_ranker.cli.console import Console, to_json
from ap_ranker.cli.options import SEARCH_PIPELINE, Documents, MatchEntry, Precision, SearchPipeline
from ap_ranker.data.faq import DEFAULT_MATCH, read_faq
from ap_ranker.errors import InputError
from ap_ranker.serving.search import DeclaredPipeline
from ap_ranker.serving.stores import one_clear_message

if TYPE_CHECKING:
    from haystack import Document

console = Console(soft_wrap=True)


def ask(
    questions: Annotated[list[str], typer.Argument(help="One question, or several.")],
    documents: Documents = None,
    pipeline: SearchPipeline = SEARCH_PIPELINE,
    match: MatchEntry = DEFAULT_MATCH,
    top_k: Annotated[
        int | None, typer.Option(help="Maximum number of answers to show; the pipeline's own setting by default.")
    ] = None,
    precision: Precision = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put questions to a FAQ and show the best answers."""
    if top_k is not None and top_k <= 0:
        raise InputError(f"Expected --top-k above 0, found {top_k}.")
    entries = None if documents is None else read_faq(documents)
    search = DeclaredPipeline.load(pipeline)
    results = []
    with one_clear_message(pipeline, search.place):
        search.fill(entries, match)
        for question in questions:
            ranked = search.run(question, {"precision": precision}, top_k)
            results.append({"question": question, "answers": [_answer(document) for document in ranked]})
    if as_json:
        typer.echo(to_json(results[0] if len(results) == 1 else results))
    else:
        for result in results:
            _print(result)


def _answer(document: Document) -> dict[str, Any]:
    """The entry or, of a document that was no entry, its content."""
    question, answer = document.meta.get("question"), document.meta.get("answer")
    return {
        "score": document.score,
        "question": None if question is None else str(question),
        "answer": str(answer or document.content or ""),
    }


def _print(result: dict[str, Any]) -> None:
    console.print(f"\n[bold]{escape(result['question'])}[/]", highlight=False)
    if not result["answers"]:
        console.print("  No good answer found.")
    for rank, answer in enumerate(result["answers"], start=1):
        score = "-" if answer["score"] is None else f"{answer['score']:.3f}"
        console.print(f"  {rank}. {score}  [cyan]{escape(answer['question'] or '')}[/]", highlight=False)
        console.print(f"     {escape(answer['answer'])}", highlight=False)
