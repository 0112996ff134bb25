"""`ap-ranker owner feedback`: what visitors said of answers, for the owner alone: listed, written, deleted."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer
from rich.table import Column

from ap_ranker.cli.console import console, minute, numbers
from ap_ranker.cli.options import DATABASE, argument, option
from ap_ranker.cli.serve import require_server

SHOWN = 200
WIDTH = 60
"""Maximum number of rows in the table, and of characters of an answer without a question."""

Place = Annotated[str, DATABASE]

app = typer.Typer(no_args_is_help=True, callback=require_server)


@app.command("list")
def list_judgements(database: Place) -> None:
    """List which answers helped whom: each question and the entry that was judged, with the number of votes.

    Where it did not help, the last column has what visitors wrote that they were looking for.

    No search knows these questions. Accept those that are right on the owner's page, or add them to the FAQ.
    """
    from ap_ranker.web.database import in_utc, open_existing
    from ap_ranker.web.judgements import Judgements
    from ap_ranker.web.question_log import clean_question

    kept = Judgements(open_existing(database))
    judged = kept.votes()
    listed = judged[:SHOWN]
    words = kept.words({votes.question_key for votes in listed})
    rows = []
    for votes in listed:
        entry = votes.stored_question or shorten(votes.answer, WIDTH, placeholder=" ...")
        counts = [f"{count:,}" for count in (votes.helped, votes.did_not_help, votes.networks)]
        sentences = words.get((votes.question_key, votes.answer_key), [])
        looked_for = "\n".join(map(clean_question, sentences))
        rows.append([votes.question, entry, *counts, minute(in_utc(votes.time)), looked_for])
    counted = map(numbers, ("helped", "did not", "networks"))
    titles: list[str | Column] = ["question", "entry", *counted, "latest, UTC", "looked for"]
    console.table(titles, rows)
    if len(judged) > SHOWN:
        console.say(f"{len(judged) - SHOWN:,} more are not shown: ap-ranker owner feedback export")


@app.command()
def export(
    file: Annotated[Path, argument("The file to write: .jsonl, for `ap-ranker train --feedback`, or .csv.")],
    database: Place,
) -> None:
    """Write all judgements and comments into a file that only you can read."""
    from ap_ranker.web.database import open_existing
    from ap_ranker.web.traces import export_judgements

    console.say(f"Wrote {export_judgements(open_existing(database), file):,} judgements into {file}.")


@app.command()
def delete(
    database: Place,
    visit: Annotated[str | None, option("All of one visit; its id is what the page sends as `visit`.")] = None,
    address: Annotated[
        str | None, option("All of the network of this IP address: its first 24 bits, of IPv6 its first 48.")
    ] = None,
    identity: Annotated[str | None, option("All of a person, as the header of serve's --identity-header says.")] = None,
    sentence: Annotated[str | None, option("This sentence, whoever said it, also in the owner's changes.")] = None,
) -> None:
    """Delete what a visitor left, or a sentence, so that the database's files do not hold it any more.

    A visitor's sentences that others have judged, too, stay with the others' judgements.
    """
    from ap_ranker.web.database import open_existing
    from ap_ranker.web.traces import delete_traces

    who = {"visit": visit, "address": address, "identity": identity, "sentence": sentence}
    deleted = delete_traces(open_existing(database), **who)
    counts = ", ".join(f"{count:,} {what}" for what, count in deleted.items() if count)
    console.say(f"Deleted: {counts or 'nothing'}.")
