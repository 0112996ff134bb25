"""`ap-ranker train`: question-answer pairs become a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ap_ranker.cli.check import warn_of_faults
from ap_ranker.cli.console import Console
from ap_ranker.cli.data import describe, read_training_data
from ap_ranker.cli.options import Answers, Device, MatchText, command_line
from ap_ranker.data.feedback import add_feedback
from ap_ranker.errors import InputError
from ap_ranker.processes import process_number

console = Console(soft_wrap=True, quiet=process_number() != 0)  # of several processes one speaks

NO_GAIN = 3
"""The exit code that says: a checkpoint was written, but it is not shown to be better than BM25 on dev."""


def train(
    data: Annotated[
        Path, typer.Argument(help="A file of pairs or judged candidates, or a folder with train.*, dev.* ...")
    ],
    output: Annotated[Path, typer.Option(help="The checkpoint folder to write.")],
    model: Annotated[str | None, typer.Option(help="A name that `ap-ranker models` lists.")] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help="Dev questions, which choose the best epoch; by default some are set aside."),
    ] = None,
    answers: Answers = None,
    feedback: Annotated[
        Path | None, typer.Option(help="Feedback file of `ap-ranker serve`, to learn from as well.")
    ] = None,
    embeddings: Annotated[
        str | None, typer.Option(help="Word vectors: a GloVe, word2vec or fastText file, or glove-50d.")
    ] = None,
    match: MatchText = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file with any of the settings.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Training recipe: ours, or the paper's (paper).")] = None,
    objective: Annotated[str | None, typer.Option(help="Objective: softmax, hinge, pointwise or listwise.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; on one machine it decides the weights.")] = None,
    licence: Annotated[
        str | None,
        typer.Option("--license", help="The checkpoint's licence, as the model hub names it: apache-2.0 ..."),
    ] = None,
    must_beat_bm25: Annotated[
        bool,
        typer.Option(
            "--must-beat-bm25", help=f"Exit with code {NO_GAIN} unless dev MRR is higher than BM25's (p < 0.05)."
        ),
    ] = False,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing checkpoint.")] = False,
) -> None:
    """Train a ranker on your own question-answer pairs, and say whether it beats BM25 on the dev questions."""
    from dataclasses import replace

    from ap_ranker.training.card import About
    from ap_ranker.training.config import read_training_config

    given = {"model": model, "recipe": recipe, "objective": objective, "epochs": epochs, "seed": seed, "match": match}
    settings = read_training_config(config, given)
    about = About(command_line(), licence)
    if process_number() == 0:
        _check_output(output, resume=resume, overwrite=overwrite)
    training, development = read_training_data(data, dev, answers, settings)
    if feedback is not None:
        training = add_feedback(training, development, feedback)

    # Heavy imports only now, when the input is known to be good.
    from ap_ranker.cli.progress import EpochLines, PhaseBars
    from ap_ranker.text.vectors import read_vectors
    from ap_ranker.training.train import train as run

    vectors = read_vectors(embeddings) if embeddings else None
    describe(console, "Training data", training)
    describe(console, "Dev data", development)
    audit = None
    if process_number() == 0:
        audit = warn_of_faults(console, data, dev, answers, settings.max_tokens)
    with PhaseBars(quiet=console.quiet) as bars:
        result = run(
            training,
            development,
            output,
            settings,
            vectors=vectors,
            device=device,
            resume=resume,
            callbacks=(EpochLines(console),),
            about=replace(about, audit=audit),
            on_progress=bars.update,
        )
    on_dev = result.dev
    console.print(
        f"Wrote {escape(str(output))}: {settings.model}, epoch {result.best_epoch}, dev MRR {on_dev.model['MRR']:.3f} "
        f"(BM25 {on_dev.bm25['MRR']:.3f}, "
        + (f"both added {on_dev.fusion['MRR']:.3f}" if on_dev.fusion else "adding it does not help")
        + f"), {result.seconds:.0f} s of training."
    )
    console.print(("" if on_dev.gain.better else "[yellow]Warning:[/] ") + escape(str(on_dev.gain)), highlight=False)
    if must_beat_bm25 and not on_dev.gain.better:
        raise typer.Exit(NO_GAIN)


def _check_output(output: Path, *, resume: bool, overwrite: bool) -> None:
    """Before anything is read: whether a run may write there.

    Raises:
        InputError: something is there already that the options do not speak of.
    """
    from ap_ranker.files import restore
    from ap_ranker.ranking.checkpoint import is_checkpoint
    from ap_ranker.training.states import States

    restore(output)
    states = States(output)
    states.check_free()
    unfinished = states.last is not None and not resume
    both = ", with --resume too to go on with the unfinished run" if unfinished else ""
    if output.exists() and not (overwrite and is_checkpoint(output)):
        advice = (
            f"add --overwrite to replace it{both}"
            if is_checkpoint(output)
            else "it holds something else: name another folder"
        )
        raise InputError(f"{output}: expected a folder that does not exist yet; {advice}.")
    if unfinished and not overwrite:
        raise InputError(
            f"{states.folder} holds an unfinished run: add --resume to go on, or --overwrite to start anew."
        )
