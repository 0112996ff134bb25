"""What to do with 50, 150, 500 or 2,000 pairs: train each method on so many, measure it, write it down.

python examples/small_data/run.py --data examples/faq --covid covid-faq-en.csv.gz --sizes 50,150,500,2000
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from sampling import Parts, draw, read_covid, read_folder
from tables import MEASURES, Row, at_hand, describe_settings, render, report_cosine

from ap_ranker.cli.epoch_lines import EpochLines
from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match
from ap_ranker.data.wordings import with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.markdown import spread
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.settings import read_fields
from ap_ranker.training.config import TrainingConfig, read_settings
from ap_ranker.training.find_vectors import PretrainedVectors, find_vectors
from ap_ranker.training.train import train_or_load
from benchmarks.number_lists import whole_numbers

HERE = Path(__file__).resolve().parent

console = Console(soft_wrap=True)


@dataclass(frozen=True)
class Method:
    """A row of the tables.

    Attributes:
        name: its key in `methods.yaml`.
        embeddings: the word vectors it begins with, as `find_vectors` knows them, or `none`.
        config: all settings but the seed.
        cosine_of: another method, whose checkpoint's vectors alone are compared, as a bi-encoder does.
        start: the checkpoint whose weights it begins with.
    """

    name: str
    embeddings: str
    config: TrainingConfig
    cosine_of: str = ""
    start: Path | None = None


def command(
    data: Annotated[Path | None, typer.Option(help="A folder with train.*, dev.*, test.* and answers.*.")] = None,
    covid: Annotated[Path | None, typer.Option(help="A file of question, answer: covid-faq-en.csv.gz.")] = None,
    sizes: Annotated[str, typer.Option(help="Numbers of training pairs, separated by commas.")] = "50,150,500,2000",
    seeds: Annotated[str, typer.Option(help="Of the runs and their draws, separated by commas.")] = "1,2,3",
    methods: Annotated[str | None, typer.Option(help="Of methods.yaml, separated by commas; all if not given.")] = None,
    start: Annotated[
        Path | None, typer.Option(help="A checkpoint that all methods start from; their rows are named after it.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="A folder for the checkpoints; finished ones are not trained again.")] = (
        Path("checkpoints/small_data")
    ),
    device: Device = "auto",
) -> None:
    """Train each method on so many pairs with every seed, measure it, add its rows to the results."""
    sources: dict[str, Callable[[Match], Parts]] = {}
    if data:
        sources[data.resolve().name] = partial(read_folder, data)
    if covid:
        sources["covid"] = partial(read_covid, covid)
    if not sources:
        raise InputError("Expected a folder with --data or a file with --covid, found neither.")
    known = read_methods(HERE / "methods.yaml")
    chosen = methods.split(",") if methods else list(known)
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(f"Expected --methods among {', '.join(known)}; found {unknown[0]!r}.")
    numbers, wanted = whole_numbers("--seeds", seeds), whole_numbers("--sizes", sizes)
    for name, source in sources.items():
        for method in chosen:
            add_rows(name, source, started(known[method], start), wanted, numbers, runs, device, HERE, list(known))


def read_methods(path: Path) -> dict[str, Method]:
    """The methods of a YAML file by their names: `embeddings` and attributes of `TrainingConfig` under each.

    `cosine_of` alone names a method above.

    Raises:
        InputError: unreadable, an unknown setting, no embeddings; names the file and the method.
    """
    methods = {}
    for name, entry in read_settings(path).items():
        where = f"{path}, {name}"
        if isinstance(entry, dict) and entry.get("cosine_of") in methods:
            methods[name] = replace(methods[entry["cosine_of"]], name=name, cosine_of=entry["cosine_of"])
            continue
        if not isinstance(entry, dict) or not isinstance(entry.get("embeddings"), str):
            raise InputError(f"{where}: expected settings with 'embeddings: none' or 'embeddings: glove-50d'.")
        settings = {key: value for key, value in entry.items() if key != "embeddings"}
        methods[name] = Method(name, entry["embeddings"], read_fields(TrainingConfig, settings, where))
    return methods


def started(method: Method, start: Path | None) -> Method:
    """The method, as a row of its own if it starts from a checkpoint."""
    if not start:
        return method
    other = f"{method.cosine_of} from {start.name}" if method.cosine_of else ""
    return replace(method, name=f"{method.name} from {start.name}", cosine_of=other, start=start)


def add_rows(
    name: str,
    source: Callable[[Match], Parts],
    method: Method,
    sizes: Sequence[int],
    seeds: Sequence[int],
    runs: Path,
    device: str,
    results: Path,
    order: Sequence[str],
) -> None:
    """Measure a method with each number of pairs; each row is written when it is done.

    Args:
        name: of the data set.
        source: reads it.
        method: what to train.
        sizes: numbers of pairs; those that the data set does not have are left out.
        seeds: of the runs; each draws pairs of its own.
        runs: a folder for the checkpoints.
        device: `auto`, `cpu`, `cuda:0`.
        results: the folder of `results.json` and `results.md`.
        order: of the methods in the tables.

    Raises:
        InputError: bad data, or a finished run that was made otherwise.
    """
    parts = source(method.config.match)
    for size in sizes:
        if size > parts.training.pairs:
            console.print(f"{name}: {size:,} pairs left out, as there are {parts.training.pairs:,} to draw from")
            continue
        where = runs / name / str(size)
        measured = _measure(name, parts, method, size, seeds, where, device)
        row = measured.add(results, partial(render, methods=order))
        console.print(f"{name}, {size:,} pairs, {method.name}: test MRR {spread(row.model['MRR'])}")


def _measure(
    name: str,
    parts: Parts,
    method: Method,
    size: int,
    seeds: Sequence[int],
    runs: Path,
    device: str,
) -> Row:
    reports: list[EvaluationReport] = []
    samples: list[Dataset] = []
    checkpoints: list[Mapping[str, Any]] = []
    for seed in seeds:
        settings, sample = at_hand(replace(method.config, seed=seed)), draw(parts.training, size, seed)
        # A checkpoint does not say which word vectors it began with; the folder's name does.
        folder = runs / f"{method.cosine_of or method.name},{method.embeddings}-seed{seed}"
        console.print(f"{sample.name}: {method.name}")
        vectors, lines = _vectors(method.embeddings), (EpochLines(console),)
        start = Ranker.from_pretrained(method.start, resolve_device(device)) if method.start else None
        ranker = train_or_load(
            sample, parts.dev, folder, settings, vectors=vectors, start=start, device=device, callbacks=lines
        )
        assert ranker.config is not None
        reports.append(_report(parts, sample, ranker, settings.language, cosine=bool(method.cosine_of)))
        samples.append(sample)
        checkpoints.append(ranker.config.training)
    return Row(
        data=name,
        method=method.name,
        size=size,
        pairs=[sample.pairs for sample in samples],
        seeds=list(seeds),
        settings=f"{describe_settings(method.config)}, word vectors: {method.embeddings}",
        n_questions=reports[0].n_questions,
        candidates=reports[0].candidates,
        model={measure: [report.model[measure] for report in reports] for measure in MEASURES},
        fused={measure: [report.fused[measure] for report in reports] for measure in MEASURES},
        bm25={measure: reports[0].bm25[measure] for measure in MEASURES},
        best_epochs=[each["best_epoch"] for each in checkpoints],
        training_seconds=[each["seconds"] for each in checkpoints],
    )


def _report(parts: Parts, known: Dataset, ranker: Ranker, language: str | None, *, cosine: bool) -> EvaluationReport:
    """On the test questions, with those of training as known wordings; the cosine alone knows none."""
    if cosine:
        return report_cosine(ranker, parts.dev, parts.test, language)
    return EvaluationSet(with_wordings(parts.test, known), language=language).report(ranker)


@cache
def _vectors(name: str) -> PretrainedVectors | None:
    return None if name == "none" else find_vectors(name, TrainingConfig().embedding_size)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
