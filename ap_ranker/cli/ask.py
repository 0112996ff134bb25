"""`ap-ranker ask`: asks a FAQ or documents questions."""

from __future__ import annotations

import gc
from textwrap import indent
from typing import Annotated, Any

import typer
from rich.markup import escape

from ap_ranker.cli.console import ProgressBars, console, errors, to_json
from ap_ranker.cli.options import SearchOptions, argument, option
from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.data.rows import stripped
from ap_ranker.errors import InputError
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.safe_open import names_path
from ap_ranker.search.sources import Source
from ap_ranker.text.language_detection import LANGUAGES
from ap_ranker.text.typed import Kind
from ap_ranker.threads import wait_without_spinning


def ask(
    questions: Annotated[list[str], argument("One or more questions, each in quotes.")],
    search: SearchOptions,
    top_k: Annotated[
        int | None, option("Maximum number of answers; by default, the pipeline's own setting.", min=1)
    ] = None,
    as_json: Annotated[bool, option("Print JSON.", "--json")] = False,
) -> None:
    """Ask a FAQ or documents questions and print the best answers."""
    whole_questions = _joined(questions)
    if not all(map(stripped, whole_questions)):
        raise InputError("Expected a question, found an empty text.")
    for path in (questions[0], questions[-1]):
        if search.documents is None and names_path(path):
            raise InputError(
                f"Expected questions, found the path {path}. To search it, name it with --documents {path}"
            )
    wait_without_spinning()
    gc.set_threshold(100_000, 50, 50)  # what is imported lives until the end; to look for garbage takes an eighth of it
    with ProgressBars() as bars:
        from ap_ranker.search.setup import search_faq

        with search.set_up(on_progress=bars.update) as setup:
            results = search_faq(whole_questions, setup, top_k=top_k, on_progress=bars.update)
    if as_json:
        typer.echo(to_json(results[0] if len(results) == 1 else results))
    else:
        for result in results:
            _print(result)


def _joined(questions: list[str]) -> list[str]:
    """Words that were typed without quotes as the one question that they are."""
    *others, last = questions
    if not others or " " in last or any(" " in text or text.endswith(QUESTION_MARKS) for text in others):
        return questions
    question = " ".join(questions)
    errors.say(f'This is asked as one question: "{question}". To ask several, put each in quotes.')
    return [question]


NO_QUESTION = {
    Kind.PERSON: "it asks for a person",
    Kind.GREETING: "it is a greeting",
    Kind.THANKS: "it says thanks",
    Kind.INSULT: "it is an insult",
    Kind.INCOMPLETE: "it is no whole question",
}
"""Why a text without an answer has none."""


def _print(result: dict[str, Any]) -> None:
    console.print(f"\n[bold]{escape(result['question'])}[/]")
    if result.get("parts"):
        for part in result["parts"]:
            _print(part)
        return
    if result["language"] is not None:
        console.say(f"  The FAQ is in {LANGUAGES[result['language']]}.")
    if result["outcome"] == Outcome.MAYBE:
        console.say("  Perhaps:")
    elif result["kind"] in NO_QUESTION and result["outcome"] == Outcome.NONE:
        console.say(f"  No answer: {NO_QUESTION[result['kind']]}.")
    elif result["outcome"] == Outcome.NONE:
        probability = result["probability"]
        console.say("  No answer." if probability is None else f"  No answer (probability {probability:.3f}).")
    for rank, answer in enumerate(result["answers"], start=1):
        score = "-"
        if answer["score"] is not None:
            score = f"{answer['score']:.3f}"
        source = Source(**answer["source"]) if "source" in answer else Source()
        console.print(f"  {rank}. {score}  [cyan]{escape(answer['question'] or '')}[/]")
        console.say(indent(answer["answer"], "     "))
        if source != Source():
            console.print(f"     [dim]{escape(str(source))}[/]")
