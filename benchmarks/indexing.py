"""How long BM25 takes to index the texts of a column, in processor time: python -m benchmarks.indexing TABLE COLUMN."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.tables import read_table
from ap_ranker.ranking.bm25 import BM25

ASKED = 200
"""Number of texts whose first words are asked for."""


def command(
    table: Annotated[Path, typer.Argument(help="A table, such as answers.tsv.gz of InsuranceQA.")],
    column: Annotated[str, typer.Argument(help="Its column of texts.")] = "answer",
    language: Annotated[str | None, typer.Option(help="Of BM25's stemmer.")] = None,
) -> None:
    """Index the texts, and ask for the first ten words of some of them."""
    texts = [row.need(column) for row in read_table(table).rows]
    begun = time.process_time()
    index = BM25(texts, language=language)
    indexed = time.process_time()
    for text in texts[:ASKED]:
        index.scores(" ".join(text.split()[:10]))
    asked = (time.process_time() - indexed) / min(ASKED, len(texts))
    typer.echo(f"{len(texts):,} texts: {indexed - begun:.1f} s to index, {asked * 1000:.2f} ms a question.")


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
