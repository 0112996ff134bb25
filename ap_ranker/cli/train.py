"""`ap-ranker train`: trains a checkpoint on question-answer pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ap_ranker.cli.check import warn_of_faults
from ap_ranker.cli.console import Console
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
from ap_ranker.errors import InputError
from ap_ranker.processes import process_number
from ap_ranker.training.data import read_training_data

if TYPE_CHECKING:
    from ap_ranker.training.train import TrainingResult

console = Console(soft_wrap=True, quiet=process_number() != 0)  # only the first process prints

NO_GAIN = 3
"""Exit code if a checkpoint was written but is not significantly better than BM25 on the dev questions."""


def train(
    data: TrainingPairs,
    output: CheckpointOutput,
    model: Annotated[
        str | None, typer.Option(help="Model name, by default ap-transformer; `ap-ranker models` lists them.")
    ] = None,
    dev: DevQuestions = None,
    answers: Answers = None,
    columns: Columns = None,
    feedback: Annotated[
        Path | None, typer.Option(help="Feedback file of `ap-ranker serve`: additional training data.")
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="Word vectors: a GloVe, word2vec or fastText file, glove-50d, a checkpoint, or encoder "
            "(encoder:NAME), which takes them from a pretrained encoder."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Pretrained encoder of ap-transformer: any sentence-transformers model, by name or folder."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="A checkpoint of the same model, trained on other data, to begin with: a folder or a hub name."
        ),
    ] = None,
    match: MatchText = None,
    config: Settings = None,
    recipe: Annotated[
        str | None, typer.Option(help="Training defaults: ours, or those of the model's paper (paper).")
    ] = None,
    language: Language = None,
    objective: Annotated[str | None, typer.Option(help="Objective: softmax, hinge, pointwise or listwise.")] = None,
    epochs: Epochs = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave a pretrained encoder as it is: trains in half a minute, ranks worse.")
    ] = False,
    best: Annotated[bool, typer.Option("--best", help="Train a pretrained encoder for twice as many epochs.")] = False,
    seed: Seed = None,
    licence: Annotated[
        str | None,
        typer.Option("--license", help="Licence of the checkpoint, as the model hub names it, such as apache-2.0."),
    ] = None,
    must_beat_bm25: Annotated[
        bool,
        typer.Option(
            "--must-beat-bm25", help=f"Exit with code {NO_GAIN} unless dev MRR is higher than BM25's (p < 0.05)."
        ),
    ] = False,
    device: Device = "auto",
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a ranker on question-answer pairs, and test whether it beats BM25 on the dev questions."""
    from dataclasses import replace

    from ap_ranker.ranking.checkpoint import find_checkpoint, read_checkpoint_config
    from ap_ranker.training.card import About
    from ap_ranker.training.config import read_training_config
    from ap_ranker.training.resume_folder import ResumeFolder

    if quick and best:
        raise InputError("Expected --quick or --best, found both.")
    effort = "quick" if quick else "best" if best else None
    if start is not None and model is None and config is None:
        model = read_checkpoint_config(find_checkpoint(start)).model
    options = {"model": model, "recipe": recipe, "objective": objective, "epochs": epochs, "seed": seed}
    options["embeddings"] = embeddings
    settings = read_training_config(config, options | {"match": match, "language": language, "effort": effort})
    if encoder is not None:
        settings = replace(settings, options={**settings.options, "encoder": encoder})
    about = About(command_line(), licence)
    if process_number() == 0:
        ResumeFolder(output).check_output(resume=resume, overwrite=overwrite)
    pair = column_names(columns)
    training, development = read_training_data(data, dev, answers, settings, feedback, pair)

    # Import heavy modules only after validating the input.
    from ap_ranker.cli.epoch_lines import EpochLines
    from ap_ranker.ranking.ranker import Ranker, resolve_device
    from ap_ranker.training.train import train as run

    describe(console, "Training data", training)
    describe(console, "Dev data", development)
    audit = None
    if process_number() == 0:
        audit = warn_of_faults(console, data, dev, answers, settings.max_tokens, pair)
    with ProgressBars(quiet=console.quiet) as bars:
        result = run(
            training,
            development,
            output,
            settings,
            start=None if start is None else Ranker.from_pretrained(start, resolve_device(device)),
            device=device,
            resume=resume,
            callbacks=(EpochLines(console),),
            about=replace(about, audit=audit),
            on_progress=bars.update,
        )
    report(console, output, settings.model, result)
    if must_beat_bm25 and not result.dev.gain.better:
        raise typer.Exit(NO_GAIN)


def report(console: Console, output: Path, model: str, result: TrainingResult) -> None:
    """Print what a run has written and how good it is on the dev questions."""
    on_dev = result.dev
    console.print(
        f"Wrote {escape(str(output))}: {model}, epoch {result.best_epoch}, dev MRR {on_dev.model['MRR']:.3f} "
        f"({on_dev.bm25_name} {on_dev.bm25['MRR']:.3f}, "
        + (f"both added {on_dev.fusion['MRR']:.3f}" if on_dev.fusion else "adding both does not help")
        + f"), {result.seconds:.0f} s of training."
    )
    console.print(("" if on_dev.gain.better else "[yellow]Warning:[/] ") + escape(str(on_dev.gain)), highlight=False)
