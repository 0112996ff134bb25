"""Which weight of known wordings is best before any training, with few wordings and with many?

python examples/every_step/wording_weights.py DATA

The untrained search of each FAQ in DATA (`prepare_tables.py`) knows the first 0, 10, 30 or 100 training questions as
wordings, and is asked training questions that come after them; no test question is read. Beside the weight that
`serve` fits, each of `WEIGHTS` is tried.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from measured_steps import FAQ, ask, first_rank
from public_faqs import PublicFaq, read_public_faqs
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import read_faq
from ap_ranker.ranking.checkpoint import read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.verdict import WRONG_COSTS
from ap_ranker.search.setup import set_up

SIZES = (0, 10, 30, 100)
WEIGHTS = (0.15, 0.3, 0.6, 1.0)
ASKED = 100
"""Number of training questions that are asked."""

console = Console(soft_wrap=True)


@dataclass(frozen=True)
class Row:
    """What a search with one weight gives the questions: MRR, and utility without other matters."""

    faq: str
    size: int
    weight: float
    is_fitted: bool
    mrr: float
    utility: float


def command(data: Annotated[Path, typer.Argument(help="The folder that prepare_tables.py wrote.")]) -> None:
    """Print a line for each FAQ, number of wordings and weight."""
    logging.disable(logging.WARNING)
    console.print("| FAQ | wordings | weight | MRR | utility |\n|---|---:|---:|---:|---:|")
    for faq in read_public_faqs(data, None):
        for size in SIZES:
            if len(faq.training) >= size + ASKED // 2:
                for row in measure(faq, size):
                    weight = f"{row.weight:.2f}{' (fitted)' if row.is_fitted else ''}"
                    console.print(f"| {row.faq} | {row.size} | {weight} | {row.mrr:.3f} | {row.utility:+.3f} |")


def measure(faq: PublicFaq, size: int) -> Iterator[Row]:
    """The search with the weight that is fitted, then with each of `WEIGHTS`."""
    start = min(max(size, 100), len(faq.training) - ASKED // 2)  # the same questions for most sizes
    asked = faq.training[start : start + ASKED]
    with TemporaryDirectory() as folder, chdir(folder):
        FAQ.write_text(faq.table(size), encoding="utf-8")
        answer_of = {entry.other["aid"]: entry.answer for entry in read_faq(FAQ)}
        right = [{answer_of[name] for name in question.right} for question in asked]
        with set_up(FAQ) as setup:
            checkpoint = Path(str(setup.checkpoint))
            config = read_checkpoint_config(checkpoint)
            for weight in (config.wording_weight, *WEIGHTS):
                write_checkpoint_config(checkpoint, replace(config, wording_weight=weight))
                search, _ = setup.load()
                search.prepare()
                shown, outcomes = ask(search, [question.text for question in asked])
                ranks = [first_rank(answers, names) for answers, names in zip(shown, right, strict=True)]
                mrr = float(np.mean([1 / rank if rank else 0.0 for rank in ranks]))
                is_fitted = weight == config.wording_weight
                yield Row(faq.name, size, weight, is_fitted, mrr, utility(ranks, outcomes))


def utility(ranks: Sequence[int], outcomes: Sequence[str]) -> float:
    """Right answers asserted minus `WRONG_COSTS` times wrong ones, for each question."""
    total = 0.0
    for rank, outcome in zip(ranks, outcomes, strict=True):
        if outcome == Outcome.ANSWER:
            total += 1 if rank == 1 else -WRONG_COSTS
    return total / len(ranks)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
