"""`ap-ranker tune` and `compare`: many trainings on the same data, of which one is chosen."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import JustifyMethod
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from ap_ranker.cli import options
from ap_ranker.cli.console import ProgressBars, cells, console, describe, numbers, write_json
from ap_ranker.cli.options import argument, command_line, option
from ap_ranker.errors import InputError
from ap_ranker.evaluation.markdown import markdown_table, spread
from ap_ranker.evaluation.question_kinds import COPIES, NEW
from ap_ranker.files import write_text_atomically
from ap_ranker.processes import process_count
from ap_ranker.training.training_data import read_training_data

if TYPE_CHECKING:
    from ap_ranker.evaluation.evaluation_report import EvaluationReport
    from ap_ranker.training.compare import Comparison
    from ap_ranker.training.tune import FrozenTrial, Search


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
    from ap_ranker.training.search_space import read_space

    if process_count() > 1:
        raise InputError(f"Expected one process, found {process_count()}: start ap-ranker tune without torchrun.")
    settings = read_training_config(config, {"match": match, "seed": seed, "embeddings": embeddings})
    search_space = read_space(space, settings)

    from ap_ranker.training.card import About
    from ap_ranker.training.tune import BEST, CHECKPOINT
    from ap_ranker.training.tune import tune as run

    with ProgressBars() as bars:
        training, development = read_training_data(data, dev, answers=answers, config=settings, on_progress=bars.update)
    describe({"Training data": training, "Dev data": development})
    with ProgressBars() as bars:
        result = run(
            training,
            development,
            search_space,
            output,
            settings,
            trials=trials,
            device=device,
            about=About(command_line()),
            on_trial=_report_trial,
            on_progress=bars.update,
        )
    _print_search(result)
    files = {"--dev": dev, "--answers": answers, "--config": output / BEST, "--output": output / "trained"}
    named: list[str] = []
    for name, value in files.items():
        if value is not None:
            named += [name, str(value)]
    console.say(f"The best trial's checkpoint: {output / CHECKPOINT}. To train it again:")
    console.say(shlex.join(["ap-ranker", "train", str(data), *named]))


def _report_trial(trial: FrozenTrial, best: bool) -> None:
    number, mrr, *rest = _cells(trial)
    parts = [f"trial {number:>3}", "failed       " if trial.value is None else f"dev MRR {mrr}", *rest]
    if trial.state.name == "PRUNED":
        parts.append(f"pruned after epoch {trial.last_step}")
    elif trial.value is None:
        parts.append(trial.user_attrs["error"])
    elif best:
        parts.append("best so far")
    console.say("   ".join(parts))


def _cells(trial: FrozenTrial) -> list[str]:
    """Its number, counted from 1, its MRR, of a pruned one that of the last epoch, its settings and its time."""
    values: list[str] = []
    for name, value in trial.params.items():
        values.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    settings = ", ".join(values)
    seconds = 0.0
    if trial.duration:
        seconds = trial.duration.total_seconds()
    return [f"{trial.number + 1}", f"{trial.value or 0.0:.3f}", settings, f"{seconds:.0f} s"]


def _print_search(search: Search) -> None:
    states = [trial.state.name for trial in search.trials]
    complete = [trial for trial, state in zip(search.trials, states, strict=True) if state == "COMPLETE"]
    best = sorted(complete, key=lambda trial: trial.value or 0.0, reverse=True)[:5]
    rows: list[list[str | Text]] = [list(_cells(trial)) for trial in best]
    bm25 = search.bm25["MRR"]
    ahead = sum((trial.value or 0.0) > bm25 for trial in best)
    rows.insert(ahead, [Text("BM25", "bold"), Text(f"{bm25:.3f}", "bold"), "", ""])
    columns: list[Column | str] = [
        numbers("trial", no_wrap=True),
        numbers("dev MRR", no_wrap=True),
        "settings",
        numbers("time", no_wrap=True),
    ]
    console.table(columns, rows)
    console.say(
        f"{len(states)} trials: {states.count('COMPLETE')} complete, {states.count('PRUNED')} pruned, "
        f"{states.count('FAIL')} failed. The settings were chosen on these dev questions, so their MRR is too high: "
        "evaluate on others with ap-ranker evaluate."
    )


def compare(
    data: Annotated[Path, argument("A folder with train.*, test.* and, if there is one, dev.*; or a file.")],
    models: Annotated[
        str, option("Names separated by commas, each with options if need be: ap-cnn:filters=200; or all.")
    ],
    output: Annotated[Path, option("Folder for the checkpoints; if interrupted, run the same command again.")],
    seeds: Annotated[int, option("Runs of each model, with seeds 1, 2 ...", min=1)] = 1,
    dev: Annotated[Path | None, option("Dev questions, which choose the best epochs.")] = None,
    test: Annotated[Path | None, option("Test questions, on which the models are compared.")] = None,
    answers: options.Answers = None,
    peers: Annotated[
        str, option("Of sentence-transformers: bi-encoder,cross-encoder to fine-tune; KIND:NAME or KIND:DIR as it is.")
    ] = "",
    embeddings: options.Embeddings = None,
    match: options.MatchText = None,
    config: options.SharedSettings = None,
    epochs: options.Epochs = None,
    device: options.Device = "auto",
    json_file: options.JsonFile = None,
    table_file: Annotated[Path | None, option("Write the table to this Markdown file.", "--table")] = None,
) -> None:
    """Train several models on your data and compare them with BM25 and with fine-tuned peers."""
    from ap_ranker.data.reader import find_split, read_dataset
    from ap_ranker.training.compare import Contender
    from ap_ranker.training.config import read_training_config
    from ap_ranker.training.peers import check_peers

    named_peers = []
    if peers:
        named_peers = list(dict.fromkeys(map(str.strip, peers.split(","))))
    check_peers(named_peers)
    contenders = Contender.parse_all(models)
    settings = read_training_config(config, {"epochs": epochs, "match": match, "embeddings": embeddings})
    if settings.options:
        raise InputError(
            f"{config}: expected no options, as they are one model's own, found some: write --models NAME:option=value."
        )
    if test is None and not find_split(data, "test"):
        raise InputError(
            f"{data}: expected a folder with a file test.*, found none. Name the test questions with --test FILE."
        )
    with ProgressBars() as bars:
        training, development = read_training_data(data, dev, answers=answers, config=settings, on_progress=bars.update)
    judged = read_dataset(test or data, "test", answers=answers, match=settings.match)

    from ap_ranker.cli.epoch_lines import EpochLines
    from ap_ranker.training.card import About
    from ap_ranker.training.compare import compare as run

    describe({"Training data": training, "Dev data": development, "Test data": judged})
    with ProgressBars() as bars:
        result = run(
            contenders,
            training,
            development,
            judged,
            output,
            settings,
            seeds=range(1, seeds + 1),
            peers=named_peers,
            device=device,
            callbacks=(EpochLines(console, bars),),
            about=About(command_line()),
            on_run=_report_run,
            on_progress=bars.update,
        )
    _print_comparison(result)
    if json_file:
        write_json(json_file, asdict(result))
    if table_file:
        write_text_atomically(table_file, f"{markdown_table(_header(result), _rows(result))}\n\n{_notes(result)}\n")


def _report_run(label: str, seed: int, report: EvaluationReport) -> None:
    console.print(
        f"[bold]{escape(label)}[/], seed {seed}: test MRR {report.model['MRR']:.3f} "
        f"({report.bm25_name} {report.bm25['MRR']:.3f})"
    )


def _rows(comparison: Comparison) -> list[list[str]]:
    """The table's cells: one row per model, BM25 among them by its MRR, and random order last."""
    other_kinds = _other_kinds(comparison)
    rows = []
    for result in comparison.results:
        tests = []
        for name in comparison.baselines:
            tests.append(f"{result.p_values[name]:.4f}" if name in result.p_values else "")
        costs = [
            f"{result.parameters:,}",
            f"{result.training_seconds:,.0f} s",
            f"{result.seconds_per_question * 1000:.2f} ms",
            f"{result.bytes_per_answer:,.0f}",
        ]
        measures = [spread(values) for values in result.measures.values()]
        measures += [spread(result.kinds[kind]["MRR"]) for kind in other_kinds]
        rows.append([result.label, *measures, *tests, *costs])
    empty = [""] * (len(comparison.baselines) + 4)
    row_of_bm25 = cells(comparison.bm25_name, comparison.bm25.values())
    for kind in other_kinds:
        measures_of_bm25 = comparison.bm25_kinds[kind] or {}
        row_of_bm25.append(f"{measures_of_bm25['MRR']:.3f}")
    n_ahead = sum(result.mean("MRR") > comparison.bm25["MRR"] for result in comparison.results)
    rows.insert(n_ahead, [*row_of_bm25, *empty])
    random = cells("random order", comparison.random.values())
    rows.append([*random, *[""] * len(other_kinds), *empty])
    return rows


def _other_kinds(comparison: Comparison) -> list[str]:
    """The kinds of questions beside that of the headline; none if all questions are new."""
    counts = comparison.n_of_kind
    if not counts.get(COPIES):
        return []
    return [kind for kind, count in counts.items() if kind != comparison.headline and count]


def _header(comparison: Comparison) -> list[str]:
    tests = [f"p against {name}" for name in comparison.baselines]
    others = [f"MRR, {kind}" for kind in _other_kinds(comparison)]
    return ["model", *comparison.bm25, *others, *tests, "parameters", "training", "per question", "bytes per answer"]


def _notes(comparison: Comparison) -> str:
    runs = "one seed"
    if len(comparison.seeds) > 1:
        runs = f"mean ± standard deviation of {len(comparison.seeds)} seeds"
    return (
        f"{_asked(comparison)} of {comparison.data}; {runs}. p: paired randomisation test on the "
        "questions' MRR, two-sided, Holm-corrected. Parameters beside the word vectors; time per question with the "
        "answers encoded beforehand; bytes as they are stored."
    )


def _asked(comparison: Comparison) -> str:
    """How many questions the measures are of, in words."""
    copies = comparison.n_of_kind.get(COPIES, 0)
    if not copies or comparison.headline != NEW:
        return f"{comparison.n_questions:,} questions"
    return f"{comparison.n_questions:,} new questions (beside {copies:,} near copies of what the models have learnt)"


def _print_comparison(comparison: Comparison) -> None:
    table = Table()
    for title in _header(comparison):
        justify: JustifyMethod = "right" if table.columns else "left"
        table.add_column(title.replace(" ", "\n"), justify=justify, no_wrap=True)
    for row in _rows(comparison):
        style = "bold" if row[0] == comparison.bm25_name else None
        table.add_row(*map(escape, row), style=style)
    # A narrow terminal breaks the lines; rich would cut the numbers.
    table.width = Measurement.get(console, console.options.update(max_width=1_000), table).maximum
    console.print(table)
    console.say(_notes(comparison))
