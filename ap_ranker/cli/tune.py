"""`ap-ranker tune`: searches for the best settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from ap_ranker.cli import options
from ap_ranker.cli.console import console, describe, numbers
from ap_ranker.cli.options import argument, command_line, option
from ap_ranker.errors import InputError
from ap_ranker.processes import process_count
from ap_ranker.training.data import read_training_data

if TYPE_CHECKING:
    from ap_ranker.training.tune import Search, Trial


def tune(
    data: Annotated[Path, argument("A file or folder of data, as for train.")],
    space: Annotated[Path, option("YAML file with the settings to try, such as examples/faq/space.yaml.")],
    output: Annotated[
        Path, option("Folder for the search; to continue an interrupted search, run the same command again.")
    ],
    config: options.SharedSettings = None,
    trials: Annotated[int, option("Total number of trials, including finished ones.", min=1)] = 20,
    dev: Annotated[
        Path | None, option("Dev questions to evaluate each trial on; by default some questions are set aside.")
    ] = None,
    answers: options.Answers = None,
    embeddings: options.Embeddings = None,
    match: options.MatchText = None,
    device: options.Device = "auto",
    seed: Annotated[int | None, option("Random seed of the search and of all trials.")] = None,
) -> None:
    """Search for the settings with the best MRR on the dev questions."""
    from ap_ranker.training.config import read_training_config
    from ap_ranker.training.space import read_space

    if process_count() > 1:
        raise InputError(f"Expected one process, found {process_count()}: start ap-ranker tune without torchrun.")
    settings = read_training_config(config, {"match": match, "seed": seed})
    search_space = read_space(space, settings)

    from ap_ranker.training.card import About
    from ap_ranker.training.find_vectors import find_vectors
    from ap_ranker.training.tune import BEST, CHECKPOINT
    from ap_ranker.training.tune import tune as run

    training, development = read_training_data(data, dev, answers, settings)
    describe({"Training data": training, "Dev data": development})
    result = run(
        training,
        development,
        search_space,
        output,
        settings,
        trials=trials,
        vectors=find_vectors(embeddings, settings.embedding_size) if embeddings else None,
        device=device,
        about=About(command_line()),
        on_trial=_report,
    )
    _print(result)
    files = {"--dev": dev, "--answers": answers, "--embeddings": embeddings}
    files |= {"--config": output / BEST, "--output": output / "trained"}
    named = [part for name, value in files.items() if value is not None for part in (name, str(value))]
    console.say(f"The best trial's checkpoint: {output / CHECKPOINT}. To train it again:")
    console.say(shlex.join(["ap-ranker", "train", str(data), *named]))


def _report(trial: Trial, best: bool) -> None:
    """Print one line for a finished trial."""
    parts = [f"trial {trial.number:3d}", "failed       " if trial.mrr is None else f"dev MRR {trial.mrr:.3f}"]
    parts += [_text(trial.values), f"{trial.seconds:.0f} s"]
    if trial.state == "pruned":
        parts.append(f"pruned after epoch {trial.epochs}")
    elif trial.state == "failed":
        parts.append(f"failed: {trial.error}" if trial.mrr is not None else trial.error)
    elif best:
        parts.append("best so far")
    console.say("   ".join(parts))


def _text(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {f'{value:.4g}' if isinstance(value, float) else value}" for name, value in values.items()
    )


def _print(search: Search) -> None:
    """Print the five best trials, with BM25 by its MRR among them, and the importance of the settings."""
    complete = [trial for trial in search.trials if trial.state == "complete"]
    best = sorted(complete, key=lambda trial: -(trial.mrr or 0.0))[:5]
    rows: list[list[str | Text]] = [
        [str(trial.number), f"{trial.mrr:.3f}", _text(trial.values), f"{trial.seconds:.0f} s"] for trial in best
    ]
    bm25 = search.bm25["MRR"]
    ahead = sum((trial.mrr or 0.0) > bm25 for trial in best)
    rows.insert(ahead, [Text("BM25", "bold"), Text(f"{bm25:.3f}", "bold"), "", ""])
    number, mrr, time = (numbers(title, no_wrap=True) for title in ("trial", "dev MRR", "time"))
    console.table([number, mrr, "settings", time], rows)
    states = [trial.state for trial in search.trials]
    console.say(
        f"{len(states)} trials: {states.count('complete')} complete, {states.count('pruned')} pruned, "
        f"{states.count('failed')} failed. The settings were chosen on these dev questions, so their MRR is too high: "
        "evaluate on others with ap-ranker evaluate."
    )
    if search.importance:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in search.importance.items())
        console.say(f"Approximate importance: {shares}.")
