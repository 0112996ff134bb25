"""How much memory a training takes, and a checkpoint on disk: of a pretrained encoder, on questions of the example FAQ.

    python -m benchmarks.training_memory --encoder FOLDER --pairs 1000
    python -m benchmarks.training_memory --encoder FOLDER --last-layers 6     # the default of a large one on a CPU
    python -m benchmarks.training_memory --encoder FOLDER --pairs 1000 --all-weights    # a large vocabulary learns, too

A process of its own trains for one epoch: what it had at most, by `getrusage`, counts the libraries that it loads, and
files that it has mapped.
"""

from __future__ import annotations

import math
import multiprocessing
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from ap_ranker.models.pretrained import DEFAULT_ENCODER, WEIGHTS

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "faq"
GB, MB = 10**9, 10**6


@dataclass(frozen=True)
class Footprint:
    """Of a training of one epoch: its peak memory and its checkpoint's weights, in bytes; its seconds and dev MRR."""

    peak: int
    stored: int
    seconds: float
    mrr: float


def measure(
    encoder: str, pairs: int, *, dev_questions: int = 100, frozen: bool = False, last: int = 0, whole: bool = False
) -> Footprint:
    """Train on the first pairs of the example FAQ in a process of its own.

    The encoder is `frozen` but for its `last` layers; `whole`: a large vocabulary learns, too.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_train, encoder, pairs, dev_questions, frozen, last, whole).result()


def _train(encoder: str, pairs: int, dev_questions: int, frozen: bool, last: int, whole: bool) -> Footprint:
    from ap_ranker.models import transformer_encoder
    from ap_ranker.training.config import TrainingConfig
    from ap_ranker.training.train import train
    from ap_ranker.training.training_data import read_training_data

    if whole:
        transformer_encoder.LARGE_VOCABULARY = sys.maxsize
    options = {"encoder": encoder, "frozen": frozen or last > 0, "trained_layers": last}
    config = TrainingConfig("ap-transformer", options, epochs=1, dev_questions=dev_questions)
    data, dev = read_training_data(EXAMPLE, None, None, config)
    data = replace(data, questions=data.questions[:pairs])
    with TemporaryDirectory() as folder:
        result = train(data, dev, Path(folder) / "c", config, device="cpu")
        stored = (Path(folder) / "c" / WEIGHTS).stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Footprint(peak, stored, result.seconds, result.dev.model["MRR"])


def main(
    encoder: Annotated[str, typer.Option(help="A folder or the name of a model on the hub.")] = DEFAULT_ENCODER,
    pairs: Annotated[int, typer.Option(help="Training questions.")] = 1_000,
    dev_questions: Annotated[int, typer.Option(help="Dev questions, which judge the epoch.")] = 100,
    frozen: Annotated[bool, typer.Option("--frozen", help="Leave the encoder as it is.")] = False,
    last_layers: Annotated[int, typer.Option(help="Or all of it but so many last layers.")] = 0,
    all_weights: Annotated[bool, typer.Option("--all-weights", help="Train a large vocabulary, too.")] = False,
) -> None:
    """Print the peak memory of a training, its seconds and its result, and the size of the stored weights."""
    found = measure(encoder, pairs, dev_questions=dev_questions, frozen=frozen, last=last_layers, whole=all_weights)
    typer.echo(
        f"{encoder}: peak {found.peak / GB:.2f} GB, {found.seconds:.0f} s, dev MRR {found.mrr:.3f}; "
        f"weights on disk {math.ceil(found.stored / MB)} MB"
    )


if __name__ == "__main__":
    typer.run(main)
