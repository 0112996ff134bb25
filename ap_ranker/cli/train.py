"""`ap-ranker train` and `ap-ranker distill`: checkpoints trained on question-answer pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ap_ranker.cli.check import warn_of_faults
from ap_ranker.cli.checkpoints import keep_replaced
from ap_ranker.cli.console import ProgressBars, console, describe, errors
from ap_ranker.cli.options import EncoderOptions, TrainingOptions, argument, command_line, option
from ap_ranker.errors import InputError
from ap_ranker.evaluation.question_kinds import NEW
from ap_ranker.processes import process_number
from ap_ranker.training.training_data import read_questions, read_training_data

if TYPE_CHECKING:
    from ap_ranker.data.dataset import Dataset
    from ap_ranker.training.card import About
    from ap_ranker.training.config import TrainingConfig
    from ap_ranker.training.train import TrainingResult

NO_GAIN = 3
"""Exit code if a checkpoint was written but is not significantly better than BM25 on the dev questions."""


def train(
    run: TrainingOptions,
    reader: EncoderOptions,
    model: Annotated[
        str | None, option("Model name, by default ap-transformer; `ap-ranker models` lists them.")
    ] = None,
    feedback: Annotated[Path | None, option("Feedback file of `ap-ranker serve`: additional training data.")] = None,
    start: Annotated[
        str | None,
        option("A checkpoint of the same model, trained on other data, to begin with: a folder or a hub name."),
    ] = None,
    recipe: Annotated[str | None, option("Training defaults: ours, or those of the model's paper (paper).")] = None,
    quick: Annotated[
        bool, option("Leave a pretrained encoder as it is: trains in a minute, ranks worse.", "--quick")
    ] = False,
    best: Annotated[
        bool, option("Train all of a pretrained encoder for longer; of a large one on a CPU, for two epochs.", "--best")
    ] = False,
    licence: Annotated[
        str | None, option("Licence of the checkpoint, as the model hub names it, such as apache-2.0.", "--license")
    ] = None,
    must_beat_bm25: Annotated[
        bool,
        option(
            f"Exit with code {NO_GAIN} unless MRR on new dev questions is higher than BM25's (p < 0.05).",
            "--must-beat-bm25",
        ),
    ] = False,
) -> None:
    """Train a ranker on question-answer pairs, and test whether it beats BM25 on the dev questions."""
    from ap_ranker.ranking.checkpoint import find_checkpoint, read_checkpoint_config
    from ap_ranker.training.card import About

    if quick and best:
        raise InputError("Expected --quick or --best, found both.")
    effort = None
    if quick:
        effort = "quick"
    elif best:
        effort = "best"
    if start is not None and model is None and run.config is None:
        model = read_checkpoint_config(find_checkpoint(start)).model
    about = About(command_line(), licence)
    options = {"model": model, "recipe": recipe, "effort": effort}
    settings, training, development = _read(run, options, encoder=reader.given, feedback=feedback)
    audit = None
    if process_number() == 0:
        audit = warn_of_faults(
            run.data, run.dev, answers=run.answers, max_tokens=settings.max_tokens, columns=run.columns
        )

    begin = None
    with ProgressBars():
        from ap_ranker.ranking.ranker import Ranker, resolve_device
        from ap_ranker.training.train import train

        if start is not None:
            begin = Ranker.from_pretrained(start, resolve_device(run.device))
    result = _train(
        partial(train, start=begin),
        run,
        training=training,
        development=development,
        settings=settings,
        about=replace(about, audit=audit),
    )
    if must_beat_bm25 and not result.dev.gain.better:
        raise typer.Exit(NO_GAIN)


def _read(
    run: TrainingOptions,
    options: Mapping[str, Any],
    encoder: Mapping[str, Any] = MappingProxyType({}),
    feedback: Path | None = None,
) -> tuple[TrainingConfig, Dataset, Dataset]:
    """The settings, the training data and the dev data of a run, which are printed; its folder is one to write to."""
    from ap_ranker.training.config import read_training_config
    from ap_ranker.training.resume_folder import ResumeFolder

    settings = read_training_config(run.config, {**options, **run.settings})
    if encoder:
        settings = replace(settings, options={**settings.options, **encoder})
    if process_number() == 0:
        ResumeFolder(run.output).check_output(resume=run.resume, overwrite=run.overwrite)
    with ProgressBars() as bars:
        training, development = read_training_data(
            run.data,
            run.dev,
            answers=run.answers,
            config=settings,
            feedback=feedback,
            columns=run.columns,
            on_progress=bars.update,
        )
    describe({"Training data": training, "Dev data": development})
    return settings, training, development


def _train(
    train: Callable[..., TrainingResult],
    run: TrainingOptions,
    training: Dataset,
    development: Dataset,
    settings: TrainingConfig,
    about: About,
) -> TrainingResult:
    """Train, and print what was written and how good it is on the dev questions."""
    from ap_ranker.cli.epoch_lines import EpochLines
    from ap_ranker.training.resume_folder import ResumeFolder

    if process_number() == 0:
        keep_replaced(run.output)
    try:
        with ProgressBars() as progress:
            result = train(
                data=training,
                dev=development,
                output=run.output,
                config=settings,
                device=run.device,
                resume=run.resume,
                callbacks=(EpochLines(console, progress),),
                about=about,
                on_progress=progress.update,
            )
    except KeyboardInterrupt:
        if process_number() == 0 and ResumeFolder(run.output).folder.is_dir():
            errors.say(f"To go on after the last whole epoch: {command_line()}{'' if run.resume else ' --resume'}")
        raise
    on_dev = result.dev
    model = on_dev.means_of(on_dev.headline, on_dev.model_each)
    bm25 = on_dev.means_of(on_dev.headline, on_dev.bm25_each)
    fusion = on_dev.means_of(on_dev.headline, on_dev.fusion_each)
    assert model is not None
    assert bm25 is not None
    both = "adding both does not help"
    if fusion:
        both = f"both added {fusion['MRR']:.3f}"
    console.say(
        f"Wrote {run.output}: {settings.model}, epoch {result.best_epoch}, dev MRR {model['MRR']:.3f} "
        f"({on_dev.bm25_name} {bm25['MRR']:.3f}, {both}), {result.seconds:.0f} s of training."
    )
    if on_dev.n_near:
        console.say(
            f"{on_dev.n_near:,} of the {on_dev.n_questions:,} dev questions are near copies of what it has learnt "
            f"from; these numbers are of the {'others' if on_dev.headline == NEW else 'copies: there are no others'}."
        )
    (console.say if on_dev.gain.better else console.warn)(str(on_dev.gain))
    verdict = result.verdict
    if verdict is not None:
        (console.say if verdict.recommended else console.warn)(verdict.explained())
    return result


DEFAULT_STUDENT = "bow-idf"
"""The cheapest one, and the best small one that was measured (docs/archive/results_models_of_words.md)."""


def distill(
    teacher: Annotated[
        str, argument("The checkpoint to learn from, or a model of sentence-transformers: cross-encoder:NAME ...")
    ],
    run: TrainingOptions,
    model: Annotated[str | None, option("The student, by default bow-idf; `ap-ranker models` lists them.")] = None,
    questions: Annotated[
        Path | None, option("Questions without answers to learn from as well: a table with a column question.")
    ] = None,
) -> None:
    """Train a small model on the scores of a large one beside your pairs: it costs little and ranks nearly as well.

    Its word vectors are by default those of the teacher's encoder.
    """
    from ap_ranker.training.card import About
    from ap_ranker.training.config import read_settings

    named = run.config is not None and "model" in read_settings(run.config)
    settings, training, development = _read(run, {"model": model or (None if named else DEFAULT_STUDENT)})
    unlabelled = []
    if questions:
        unlabelled = read_questions(questions, development)

    from ap_ranker.training.distill import distill

    _train(
        partial(distill, teacher, questions=unlabelled),
        run,
        training=training,
        development=development,
        settings=settings,
        about=About(command_line()),
    )
