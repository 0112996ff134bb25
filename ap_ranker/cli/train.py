"""`ap-ranker train`: question-answer pairs become a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ap_ranker.cli.options import Answers, Device, MatchText
from ap_ranker.errors import InputError

if TYPE_CHECKING:
    from ap_ranker.data.dataset import Dataset
    from ap_ranker.training.config import TrainingConfig

console = Console(soft_wrap=True)


def train(
    data: Annotated[
        Path, typer.Argument(help="A file of pairs or judged candidates, or a folder with train.*, dev.* ...")
    ],
    output: Annotated[Path, typer.Option(help="The checkpoint folder to write.")],
    model: Annotated[str | None, typer.Option(help="qa-cnn, qa-bilstm, ap-cnn or ap-bilstm.")] = None,
    dev: Annotated[
        Path | None, typer.Option(help="Questions that choose the best epoch; by default some are set aside.")
    ] = None,
    answers: Answers = None,
    embeddings: Annotated[
        str | None, typer.Option(help="Word vectors: a GloVe, word2vec or fastText file, or glove-50d.")
    ] = None,
    match: MatchText = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file with any of the settings.")] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many passes over the data.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same machine: same weights.")] = None,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing checkpoint.")] = False,
) -> None:
    """Train a ranker on your own question-answer pairs."""
    from ap_ranker.ranking.checkpoint import is_checkpoint
    from ap_ranker.training.config import read_config

    settings = read_config(config, {"model": model, "epochs": epochs, "seed": seed, "match": match})
    if output.exists() and not (overwrite and is_checkpoint(output)):
        advice = (
            "add --overwrite to replace it" if is_checkpoint(output) else "it holds something else: name another folder"
        )
        raise InputError(f"{output}: expected a folder that does not exist yet; {advice}.")
    if Path(f"{output}.training").exists() and not (resume or overwrite):
        raise InputError(
            f"{output}.training holds an unfinished run: add --resume to go on, or --overwrite to start anew."
        )
    training, development = _read(data, dev, answers, settings)

    # Heavy imports only now, when the input is known to be good.
    from ap_ranker.cli.progress import EpochLines
    from ap_ranker.text.vectors import read_vectors
    from ap_ranker.training.train import train as run

    vectors = read_vectors(embeddings) if embeddings else None
    _describe("Training data", training)
    _describe("Dev data", development)
    result = run(
        training,
        development,
        output,
        settings,
        vectors=vectors,
        device=device,
        resume=resume,
        callbacks=(EpochLines(console),),
    )
    console.print(
        f"Wrote {escape(str(output))}: {settings.model}, epoch {result.best_epoch}, dev MRR {result.dev['MRR']:.3f} "
        f"(BM25 {result.bm25['MRR']:.3f}), {result.seconds:.0f} s of training."
    )


def _read(data: Path, dev: Path | None, answers: Path | None, settings: TrainingConfig) -> tuple[Dataset, Dataset]:
    """The training and dev data; without a dev file, a question-disjoint part of the training data."""
    from ap_ranker.data.dataset import split_questions
    from ap_ranker.data.reader import find_split, read_dataset

    training = read_dataset(data, "train", answers=answers, match=settings.match)
    if dev is not None or (data.is_dir() and find_split(data, "dev")):
        return training, read_dataset(dev or data, "dev", answers=answers, match=settings.match)
    if len({question.text.casefold() for question in training.answerable}) < 2:
        raise InputError(
            f"{data}: expected at least two different questions, so that one can be set aside to choose the epoch."
        )
    return split_questions(training, settings.dev_share, settings.seed)


def _describe(title: str, data: Dataset) -> None:
    console.print(
        f"{title}: {len(data.answerable):,} questions, {data.pairs:,} right answers among {len(data.answers):,} "
        f"({escape(data.name)})"
    )
    for reason, count in data.notes.items():
        console.print(f"  {count:,} {reason}")
    if without := len(data.questions) - len(data.answerable):
        console.print(f"  {without:,} questions without a right answer set aside")
