"""Does BM25 find more with a stemmer?

python examples/languages/stemmer.py DATA english      # a file of dev questions, or a folder with dev.*
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Answers
from ap_ranker.data.dataset import Dataset, answerable
from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.evaluation.word_search import levels_of
from ap_ranker.ranking.bm25 import BM25, bm25_name

DEPTHS = (10, 100)
"""Numbers of candidates: few, and what a pipeline usually fetches."""


def command(
    data: Annotated[Path, typer.Argument(help="A file of questions, or a folder with dev.*")],
    language: Annotated[str, typer.Argument(help="Of the stemmer.")],
    answers: Answers = None,
) -> None:
    """Print the share of questions with a right answer among BM25's best, without and with a stemmer."""
    questions = read_dataset(data, "dev", answers=answers)
    rows = [
        [bm25_name(each), *(f"{share:.3f}" for share in bm25_recall(questions, each).values())]
        for each in (None, language)
    ]
    sys.stdout.write(markdown_table(["", *(f"among {depth}" for depth in DEPTHS)], rows) + "\n")


def bm25_recall(dataset: Dataset, language: str | None = None) -> dict[int, float]:
    """Number of candidates -> share of the answerable questions with a right answer among BM25's best of all."""
    index = BM25([answer.text for answer in dataset.answers], language=language)
    found = [levels_of(index.scores(question.text), question) for question in answerable(dataset)]
    return {depth: float(np.mean([levels.success(depth) for levels in found])) for depth in DEPTHS}


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
