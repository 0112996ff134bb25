"""A row of the papers' tables for what a user would train instead: a model of sentence-transformers on the same pairs.

python examples/reproduce/peer.py wikiqa bi-encoder --data wikiqa --seeds 1,2,3
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from options import HERE, RUNS, SEEDS, Data, Results, Runs, Seeds
from origin import present_origin, remember
from protocols import PROTOCOLS, read_parts
from results import Measured, Row, encoder_at_hand, read_papers, render
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.errors import InputError, check_known
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models.pretrained import DEFAULT_ENCODER, find_encoder
from ap_ranker.ranking.ranker import resolve_device
from ap_ranker.training.compare import bm25_weight
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.dev_set import dev_set_of
from ap_ranker.training.peers import PEERS, RECIPE, check_peers, train_or_load_peer
from benchmarks.number_lists import whole_numbers

console = Console(soft_wrap=True)


def command(
    name: Annotated[str, typer.Argument(metavar="DATA", help=f"The data set: {', '.join(PROTOCOLS)}.")],
    peer: Annotated[str, typer.Argument(help="bi-encoder or cross-encoder.")],
    data: Data,
    encoder: Annotated[str, typer.Option(help="By its hub name or folder, as for `train`.")] = DEFAULT_ENCODER,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the pairs, at most.")] = RECIPE["epochs"],
    max_tokens: Annotated[
        int | None, typer.Option(min=8, help="Where texts are cut; by default where the encoder cuts them.")
    ] = None,
    seeds: Seeds = SEEDS,
    runs: Runs = RUNS,
    device: Device = "auto",
    results: Results = HERE,
) -> None:
    """Train a peer with every seed from an encoder, measure it on the test questions, add its row."""
    recipe = {**RECIPE, "epochs": epochs} | ({} if max_tokens is None else {"max_tokens": max_tokens})
    whole = whole_numbers("--seeds", seeds)
    reproduce_peer(name, peer, data, whole, runs, device, results, encoder=encoder, recipe=recipe)


def reproduce_peer(
    name: str,
    peer: str,
    folder: Path,
    seeds: list[int],
    runs: Path,
    device: str,
    results: Path,
    *,
    encoder: str = DEFAULT_ENCODER,
    recipe: Mapping[str, Any] = RECIPE,
) -> Row:
    """The row of a peer, which is also written into `results`, beside what it had of other seeds.

    It ranks the candidates that came with the data. The dev questions choose its epoch and the weight of BM25.

    Args:
        name: a key of `PROTOCOLS`.
        peer: a key of `PEERS`.
        folder: the data.
        seeds: of the runs.
        runs: a folder for the checkpoints.
        device: `auto`, `cpu`, `cuda:0`.
        results: the folder of `results.json` and `results.md`.
        encoder: what every seed begins with; the row is named after one that is not the default.
        recipe: the settings of every seed.

    Raises:
        InputError: an unknown data set or peer, bad data, a package or the encoder is missing, a finished run that was
            made otherwise.
    """
    if name not in PROTOCOLS:
        raise InputError(f"Expected a data set among {', '.join(PROTOCOLS)}; found {name!r}.")
    check_known("a peer", peer, PEERS)
    check_peers([peer])
    torch_device, start = resolve_device(device), find_encoder(encoder_at_hand(encoder))
    other = [] if encoder == DEFAULT_ENCODER else ["--encoder", encoder]
    row_name = f"{peer}-{Path(encoder).name}" if other else peer
    origin = present_origin(torch_device)
    parts = read_parts(name, folder, DEFAULT_MATCH)
    parts.describe()
    dev, test = EvaluationSet(parts.dev), EvaluationSet(parts.test)
    dev_set = dev_set_of(parts.dev, TrainingConfig())  # as many as choose an epoch of ours
    reports: list[EvaluationReport] = []
    origins: list[dict[str, str]] = []
    seconds: list[float] = []
    for seed in seeds:
        run = runs / name / f"{row_name}-seed{seed}"
        model, duration = train_or_load_peer(
            peer, start, parts.training, dev_set, run, seed=seed, device=torch_device, recipe=recipe
        )
        origins.append(remember(run, origin))
        seconds.append(duration)
        reports.append(test.report_of(model.score(test), bm25_weight(dev, model.score(dev))))
        console.print(f"seed {seed}: test MRR {reports[-1].model['MRR']:.3f} (BM25 {reports[-1].bm25['MRR']:.3f})")
    for option in ("epochs", "max_tokens"):
        if recipe.get(option) != RECIPE.get(option):
            other += [f"--{option.replace('_', '-')}", str(recipe[option])]
    words = ["python", "examples/reproduce/peer.py", name, peer, "--data", folder.resolve().name, *other]
    return Row(
        data=name,
        config=row_name,
        model=peer,
        seeds=seeds,
        settings=json.dumps(dict(recipe)),
        test=Measured.of(reports),
        end_to_end=None,
        training_seconds=seconds,
        machines=[each["machine"] for each in origins],
        commits=[each["commit"] for each in origins],
        command=shlex.join(words),
    ).add(results, partial(render, papers=read_papers()))


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
