"""`ap-ranker distill`: trains a small model to rank as a large one does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.console import ProgressBars, console
from ap_ranker.cli.options import TrainingOptions, command_line, takes_groups
from ap_ranker.cli.train import read_all, report
from ap_ranker.training.data import read_questions

DEFAULT_STUDENT = "bow-idf"
"""The cheapest one, and the best small one that was measured (docs/results/distillation.md)."""


@takes_groups
def distill(
    teacher: Annotated[str, typer.Argument(help="The checkpoint to learn from, trained or not.")],
    run: TrainingOptions,
    model: Annotated[
        str | None, typer.Option(help="The student, by default bow-idf; `ap-ranker models` lists them.")
    ] = None,
    teachers: Annotated[
        list[str] | None,
        typer.Option("--teacher", help="A further teacher; the scores of all are averaged. Repeat it for more."),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(help="Questions without answers to learn from as well: a table with a column question."),
    ] = None,
) -> None:
    """Train a small model on the scores of a large one beside your pairs: it costs little and ranks nearly as well.

    Its word vectors are by default those of the teacher's encoder.
    """
    from ap_ranker.training.card import About
    from ap_ranker.training.config import read_settings

    named = run.config is not None and "model" in read_settings(run.config)
    settings, training, development = read_all(run, {"model": model or (None if named else DEFAULT_STUDENT)})
    unlabelled = read_questions(questions, development) if questions else []

    from ap_ranker.cli.epoch_lines import EpochLines
    from ap_ranker.training.distill import distill

    with ProgressBars() as bars:
        result = distill(
            [teacher, *(teachers or [])],
            training,
            development,
            run.output,
            settings,
            questions=unlabelled,
            device=run.device,
            resume=run.resume,
            callbacks=(EpochLines(console),),
            about=About(command_line()),
            on_progress=bars.update,
        )
    report(run.output, settings.model, result)
