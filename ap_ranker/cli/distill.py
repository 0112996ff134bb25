"""`ap-ranker distill`: trains a small model to rank as a large one does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ap_ranker.cli.data import describe
from ap_ranker.cli.options import (
    Answers,
    CheckpointOutput,
    Columns,
    Device,
    DevQuestions,
    Epochs,
    Language,
    MatchText,
    Overwrite,
    Resume,
    Seed,
    Settings,
    TrainingPairs,
    column_names,
    command_line,
)
from ap_ranker.cli.progress import ProgressBars
from ap_ranker.cli.train import console, report
from ap_ranker.processes import process_number
from ap_ranker.training.data import read_questions, read_training_data

DEFAULT_STUDENT = "bow-idf"
"""The cheapest one, and the best small one that was measured (docs/results.md#small-students)."""


def distill(
    teacher: Annotated[str, typer.Argument(help="The checkpoint to learn from, trained or not.")],
    data: TrainingPairs,
    output: CheckpointOutput,
    model: Annotated[
        str | None, typer.Option(help="The student, by default bow-idf; `ap-ranker models` lists them.")
    ] = None,
    dev: DevQuestions = None,
    answers: Answers = None,
    columns: Columns = None,
    teachers: Annotated[
        list[str] | None,
        typer.Option("--teacher", help="A further teacher; the scores of all are averaged. Repeat it for more."),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(help="Questions without answers to learn from as well: a table with a column question."),
    ] = None,
    embeddings: Annotated[
        str | None, typer.Option(help="Word vectors, as for train; by default those of the teacher's encoder.")
    ] = None,
    match: MatchText = None,
    config: Settings = None,
    language: Language = None,
    epochs: Epochs = None,
    seed: Seed = None,
    device: Device = "auto",
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a small model on the scores of a large one beside your pairs: it costs little and ranks nearly as well."""
    from ap_ranker.training.card import About
    from ap_ranker.training.config import read_settings, read_training_config
    from ap_ranker.training.resume_folder import ResumeFolder

    named = config is not None and "model" in read_settings(config)
    options = {"model": model or (None if named else DEFAULT_STUDENT), "epochs": epochs, "seed": seed, "match": match}
    settings = read_training_config(config, options | {"language": language, "embeddings": embeddings})
    if process_number() == 0:
        ResumeFolder(output).check_output(resume=resume, overwrite=overwrite)
    training, development = read_training_data(data, dev, answers, settings, columns=column_names(columns))
    unlabelled = read_questions(questions, development) if questions else []
    describe(console, "Training data", training)
    describe(console, "Dev data", development)

    # Import heavy modules only after validating the input.
    from ap_ranker.cli.epoch_lines import EpochLines
    from ap_ranker.training.distill import distill as run

    with ProgressBars(quiet=console.quiet) as bars:
        result = run(
            [teacher, *(teachers or [])],
            training,
            development,
            output,
            settings,
            questions=unlabelled,
            device=device,
            resume=resume,
            callbacks=(EpochLines(console),),
            about=About(command_line()),
            on_progress=bars.update,
        )
    report(console, output, settings.model, result)
