"""What half precision on disk changes: rankings of the example's dev questions by a checkpoint with rounded weights.

    python -m benchmarks.stored_precision CHECKPOINT [--float32]

The encoder's matrices are rounded to a data type and computed with in float32, as they are when a checkpoint is loaded.
Compared are the first answers, the orders of the first five, and scores, with those of the unrounded weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from ap_ranker.data.reader import read_dataset
from ap_ranker.models import transformer_encoder
from ap_ranker.models.pretrained import BACKBONE
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import Ranker
from benchmarks.training_memory import EXAMPLE

DTYPES = (torch.float16, torch.bfloat16)


def scores_of(ranker: Ranker, questions: list[str], answers: list[str], dtype: torch.dtype) -> np.ndarray:
    """(B, N) scores with the encoder's matrices rounded to a data type."""
    weights = ranker.model.state_dict()
    for name, value in weights.items():
        if name.startswith(BACKBONE) and value.dim() > 1:
            value.copy_(value.to(dtype))
    cached = Ranker(ranker.model, ranker.tokenizer, cache=EncodingCache(10**9, StateDtype.float32))
    return np.stack([cached.score(question, answers).numpy() for question in questions])


def main(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint of ap-transformer, with unrounded weights.")],
    float32: Annotated[bool, typer.Option("--float32", help="Multiply in it also where the CPU has bfloat16.")] = False,
) -> None:
    """Print how many first answers another data type changes, of how many questions."""
    if float32:
        transformer_encoder.multiplies_bfloat16 = lambda: False
    data = read_dataset(EXAMPLE, "dev")
    questions, answers = [each.text for each in data.answerable], [each.text for each in data.answers]
    right = [np.array(each.positives) for each in data.answerable]
    exact = scores_of(Ranker.from_pretrained(checkpoint, "cpu"), questions, answers, torch.float32)
    order = np.argsort(-exact, axis=1, kind="stable")
    typer.echo(f"{len(questions)} questions, {len(answers)} answers, MRR {_mrr(exact, right):.4f}")
    for dtype in DTYPES:
        found = scores_of(Ranker.from_pretrained(checkpoint, "cpu"), questions, answers, dtype)
        new = np.argsort(-found, axis=1, kind="stable")
        changed = [(new[:, :most] != order[:, :most]).any(axis=1).sum() for most in (1, 5)]
        typer.echo(
            f"{dtype}: {changed[0]} first answers and {changed[1]} of the first five differ, MRR "
            f"{_mrr(found, right):.4f}, scores by up to {np.abs(found - exact).max():.5f}"
        )


def _mrr(scores: np.ndarray, right: list[np.ndarray]) -> float:
    ranks = [1 + (row > row[rows].max()).sum() for row, rows in zip(scores, right, strict=True)]
    return float(np.mean(1 / np.array(ranks)))


if __name__ == "__main__":
    typer.run(main)
