"""`ap-ranker split`: divides pairs into training, dev and test questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import console
from ap_ranker.cli.options import Columns, column_names


def split(
    data: Annotated[Path, typer.Argument(help="A FAQ, or other pairs: a file with columns question and answer.")],
    output: Annotated[Path, typer.Option(help="The folder to write; it must not exist yet.")],
    share: Annotated[
        float, typer.Option(help="Share of the questions that become dev questions, and that become test questions.")
    ] = 0.15,
    by_answer: Annotated[
        bool,
        typer.Option("--by-answer", help="Keep all questions of an answer together, to test on unknown answers."),
    ] = False,
    columns: Columns = None,
    seed: Annotated[int, typer.Option(help="Random seed: the same seed, the same split.")] = 1,
) -> None:
    """Divide pairs into train, dev and test, which share no question, for train, calibrate and evaluate."""
    from ap_ranker.data.writer import split_file  # its libraries take a second to load

    parts = split_file(data, output, share=share, by_answer=by_answer, seed=seed, columns=column_names(columns))
    for reason, count in parts["train"].notes.items():
        console.say(f"  {count:,} {reason}")
    counts = ", ".join(f"{len(part.questions):,} {name}" for name, part in parts.items())
    console.say(f"Wrote {output}: {counts} questions; all {len(parts['test'].answers):,} answers are candidates.")
