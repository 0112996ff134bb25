"""What is an encoder worth on dev questions, or a checkpoint to start from? Each learns with the settings of `train`.

python examples/encoders/dev_quality.py example covid_questions --data DATA --encoder mpnet-6 --output checkpoints/tried
python examples/encoders/dev_quality.py example --start checkpoints/general --output checkpoints/tried
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.models.pretrained import DEFAULT_ENCODER
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.train import train_or_load

sys.path.append(str(Path(__file__).resolve().parents[1] / "fair_peers"))
from fair_data import read_fair_data
from fair_systems import Ours, dev_mrr

SEED = 1
DEVICE = "cpu"


def command(
    names: Annotated[list[str], typer.Argument(metavar="DATASET...", help="As in examples/fair_peers.")],
    output: Annotated[Path, typer.Option(help="A folder for checkpoints and tables; a finished one is only measured.")],
    data: Annotated[Path | None, typer.Option(help="A folder with a folder for each data set.")] = None,
    encoder: Annotated[str, typer.Option(help="A name or a folder.")] = DEFAULT_ENCODER,
    start: Annotated[Path | None, typer.Option(help="A checkpoint to begin with, trained on other data.")] = None,
) -> None:
    """Print the dev MRR of each data set beside BM25's, and the processor time of the training, with one thread."""
    torch.set_num_threads(1)
    lines: list[list[str]] = []
    for name in names:
        fair_data = read_fair_data(name, data, output / "tables", encoder)
        config = replace(fair_data.base, seed=SEED)
        first = Ranker.from_pretrained(start, torch.device(DEVICE)) if start else None
        folder = output / "-".join(Path(part).name for part in (name, encoder, *([start] if start else [])))
        started = time.process_time()
        ranker = train_or_load(fair_data.training, fair_data.dev, folder, config, start=first, device=DEVICE)
        seconds = time.process_time() - started
        dev = fair_data.dev_set(SEED)
        lines.append([name, f"{dev.bm25['MRR']:.3f}", f"{dev_mrr(Ours(ranker), dev):.3f}", f"{seconds:.0f}"])
    typer.echo(markdown_table(["dev questions of", "BM25", Path(start or encoder).name, "seconds"], lines))


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
