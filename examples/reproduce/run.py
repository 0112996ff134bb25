"""One row of the papers' tables: train a configuration with every seed, measure it, write it down.

python examples/reproduce/run.py examples/reproduce/wikiqa/ap-cnn.yaml --data wikiqa --embeddings glove.6B.100d.txt
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from options import HERE, RUNS, SEEDS, Data, Results, Runs, Seeds
from origin import ORIGIN, present_origin, read_origin, remember
from protocols import PROTOCOLS, Parts, read_parts, without_pools
from results import Measured, Row, at_hand, describe_settings, read_papers, render, report_cosine
from rich.console import Console

from ap_ranker.cli.epoch_lines import EpochLines
from ap_ranker.cli.errors import report_user_errors
from ap_ranker.cli.options import Device
from ap_ranker.data.dataset import sample_questions
from ap_ranker.errors import InputError
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores, score_candidates
from ap_ranker.evaluation.weight_fit import fit_weight
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.ranking.rule import Weights
from ap_ranker.training.config import read_training_config
from ap_ranker.training.find_vectors import find_vectors
from ap_ranker.training.teacher import Teacher
from ap_ranker.training.train import train_or_load
from benchmarks.number_lists import whole_numbers

SEARCHES = 500
"""Dev questions whose searches fit the weight of BM25 end to end, as many as a training run has at most."""

CACHE_BYTES = 8 * 10**9
"""For the states of all answers; 27,413 answers with a state of 384 numbers for each token take 5 GB."""

console = Console(soft_wrap=True)


def command(
    config: Annotated[Path, typer.Argument(help="DATA/NAME.yaml: settings of a training run.")],
    data: Data,
    embeddings: Annotated[str | None, typer.Option(help="Word vectors, as for `ap-ranker train`.")] = None,
    teacher: Annotated[Path | None, typer.Option(help="A checkpoint to learn from beside the labels.")] = None,
    start: Annotated[
        Path | None, typer.Option(help="A checkpoint that every seed begins with; the row is named after it.")
    ] = None,
    cosine: Annotated[
        bool, typer.Option("--cosine", help="Measure the encoder's vectors alone, in a row of their own.")
    ] = False,
    seeds: Seeds = SEEDS,
    runs: Runs = RUNS,
    device: Device = "auto",
    results: Results = HERE,
) -> None:
    """Train a configuration with every seed, measure it on the test questions, add its row to the results."""
    numbers = whole_numbers("--seeds", seeds)
    reproduce(config, data, embeddings, teacher, numbers, runs, device, results, start=start, cosine=cosine)


def reproduce(
    config: Path,
    folder: Path,
    embeddings: str | None,
    teacher: Path | None,
    seeds: list[int],
    runs: Path,
    device: str,
    results: Path,
    *,
    start: Path | None = None,
    cosine: bool = False,
) -> Row:
    """The row of a configuration, which is also written into `results`, beside what it had of other seeds.

    Args:
        config: a file of `TrainingConfig` settings in a folder named as its data set.
        folder: the data.
        embeddings: word vectors, as `find_vectors` knows them.
        teacher: a checkpoint to learn from beside the labels.
        seeds: of the runs.
        runs: a folder for the checkpoints.
        device: `auto`, `cpu`, `cuda:0`.
        results: the folder of `results.json` and `results.md`.
        start: a checkpoint whose weights all runs begin with.
        cosine: measure what an untrained bi-encoder has, the plain cosine, in place of the model's own score.

    Raises:
        InputError: an unknown data set, bad data or settings, a finished run that was made otherwise.
    """
    name, settings = config.resolve().parent.name, read_training_config(config, {})
    if name not in PROTOCOLS:
        raise InputError(f"{config}: expected it in a folder named {', '.join(PROTOCOLS)}, found it in {name!r}.")
    origin = present_origin(resolve_device(device), embeddings)
    row_name = f"{config.stem} from {start.name}" if start else config.stem
    folders = {seed: runs / name / f"{row_name}-seed{seed}" for seed in seeds}
    for run in folders.values():
        _check_embeddings(run, origin["embeddings"])
    parts = read_parts(name, folder, settings.match)
    parts.describe()
    vectors = find_vectors(embeddings, settings.embedding_size) if embeddings else None
    taught = Teacher(Ranker.from_pretrained(teacher, resolve_device(device))) if teacher else None
    first = Ranker.from_pretrained(start, resolve_device(device)) if start else None
    reports: list[list[EvaluationReport]] = []
    origins: list[dict[str, str]] = []
    seconds: list[float] = []
    for seed, run in folders.items():
        own, lines = at_hand(replace(settings, seed=seed)), (EpochLines(console),)
        ranker = train_or_load(
            parts.training,
            parts.dev,
            run,
            own,
            vectors=vectors,
            start=first,
            teacher=taught,
            device=device,
            callbacks=lines,
        )
        assert ranker.config is not None
        origins.append(remember(run, origin))
        seconds.append(ranker.config.training["seconds"])
        reports.append(_measure(parts, ranker, cosine=cosine))
        test = reports[-1][0]
        console.print(f"seed {seed}: test MRR {test.model['MRR']:.3f} (BM25 {test.bm25['MRR']:.3f})")
    measured, *searched = [Measured.of(list(each)) for each in zip(*reports, strict=True)]
    return Row(
        data=name,
        config=f"{row_name}, plain cosine" if cosine else row_name,
        model=settings.model,
        seeds=seeds,
        settings=describe_settings(settings),
        test=measured,
        end_to_end=searched[0] if searched else None,
        training_seconds=seconds,
        machines=[each["machine"] for each in origins],
        commits=[each["commit"] for each in origins],
        command=_written_out(name, config, folder, origin["embeddings"], teacher=teacher, start=start)
        + " --cosine" * cosine,
    ).add(results, partial(render, papers=read_papers()))


def _measure(parts: Parts, ranker: Ranker, *, cosine: bool) -> list[EvaluationReport]:
    """The reports on the test questions: with the candidates that came with the data and, if asked for, end to end."""
    assert ranker.config is not None
    language = ranker.bm25_language
    if cosine:  # in pools alone
        return [report_cosine(ranker, parts.dev, parts.test, language)]
    evaluation_set = EvaluationSet(parts.test, language=language)
    if parts.search is None:
        return [evaluation_set.report(ranker)]
    retriever = ranker if ranker.has_vectors else None
    if retriever is not None:
        ranker.cache = EncodingCache(
            CACHE_BYTES, ranker.state_dtype(None)
        )  # retrieval and ranking need the same states
    search = EvaluationSet(parts.search, language=language, retriever=retriever)
    # A retriever's own best candidates are others than a pool's, and so is what BM25's score adds there.
    questions = sample_questions(without_pools(parts.dev), SEARCHES, 1)
    dev = EvaluationSet(questions, language=language, retriever=retriever)
    scores, searched, dev_scores = score_together([evaluation_set, search, dev], ranker)
    signals, right = dev.informative(dev_scores)
    weights = fit_weight(signals, right, Weights(), added="bm25")
    return [
        evaluation_set.report_of(scores, Weights(bm25=ranker.config.bm25_weight)),
        search.report_of(searched, weights),
    ]


def score_together(evaluation_sets: Sequence[EvaluationSet], ranker: Ranker) -> list[CandidateScores]:
    """Score each set's candidates; answers that several sets share are encoded only once.

    Args:
        evaluation_sets: sets over the same answers; questions and candidates may differ.
        ranker: the model.

    Returns:
        CandidateScores whose times are those of all sets together.
    """
    dataset = evaluation_sets[0].dataset
    assert all(evaluation_set.dataset.answers == dataset.answers for evaluation_set in evaluation_sets)
    questions = [question for evaluation_set in evaluation_sets for question in evaluation_set.questions]
    pools = [pool for evaluation_set in evaluation_sets for pool in evaluation_set.pools]
    scores = score_candidates(ranker, dataset, questions, pools)
    rest = iter(scores.by_question)
    return [
        replace(scores, by_question=list(islice(rest, len(each.questions))), cosines=None, question_vectors=None)
        for each in evaluation_sets
    ]


def _check_embeddings(run: Path, wanted: str) -> None:
    """A checkpoint's settings do not say which word vectors it began with."""
    if (run / ORIGIN).exists() and (found := read_origin(run)["embeddings"]) != wanted:
        raise InputError(
            f"{run}: expected a run with the word vectors {wanted!r}, found one with {found!r}. "
            "Name another folder with --runs, or remove this one."
        )


def _written_out(name: str, config: Path, folder: Path, embeddings: str, **checkpoints: Path | None) -> str:
    """The command that makes the row again, but for its seeds; another user's data lies elsewhere."""
    words = ["python", "examples/reproduce/run.py", f"examples/reproduce/{name}/{config.name}"]
    words += ["--data", folder.resolve().name]
    words += ["--embeddings", embeddings] if embeddings != "none" else []
    for option, checkpoint in checkpoints.items():
        words += [f"--{option}", checkpoint.name] if checkpoint else []
    return shlex.join(words)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
