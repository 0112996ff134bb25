"""`ap-ranker evaluate`: a checkpoint and BM25 on the same candidates."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.changes import changes_as_json, print_changes
from ap_ranker.cli.console import Console
from ap_ranker.cli.options import Answers, Device, MatchText
from ap_ranker.errors import InputError
from ap_ranker.explain.plots import check_plotting, plot_lengths
from ap_ranker.files import write_text_atomically

if TYPE_CHECKING:
    from ap_ranker.evaluation.evaluate import EvaluationReport

console = Console(soft_wrap=True)


def evaluate(
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint folder or a hub name.")],
    data: Annotated[Path, typer.Argument(help="A file of questions, or a folder with test.*")],
    answers: Answers = None,
    pools: Annotated[Path | None, typer.Option(help="Candidate pools (qid, candidate_ids).")] = None,
    no_pools: Annotated[
        bool,
        typer.Option("--no-pools", help="Ignore the data's candidate pools; BM25 retrieves from all answers."),
    ] = False,
    clean: Annotated[
        bool,
        typer.Option("--clean", help="Leave out questions whose candidates are all right."),
    ] = False,
    match: MatchText = None,
    dtype: Annotated[str, typer.Option(help="Dtype of the answers' states: float32, float16 or int8.")] = "float32",
    compare: Annotated[
        str | None, typer.Option(help="An earlier checkpoint to compare with, question by question.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the numbers to this JSON file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot P@1 against answer length to this PNG file.")] = None,
    device: Device = "auto",
) -> None:
    """Measure a checkpoint and BM25 on the same questions and candidates."""
    from ap_ranker.data.faq import Match
    from ap_ranker.data.reader import read_dataset
    from ap_ranker.evaluation.changes import changes
    from ap_ranker.evaluation.evaluate import EvaluationSet
    from ap_ranker.evaluation.lengths import by_length
    from ap_ranker.ranking.cache import EncodingCache
    from ap_ranker.ranking.quantization import parse_dtype
    from ap_ranker.ranking.ranker import Ranker

    if plot:
        check_plotting()
    if pools and no_pools:
        raise InputError("Expected either --pools, which names the candidates, or --no-pools, found both.")
    rounding = EncodingCache(0, parse_dtype(dtype))  # keeps nothing, but rounds what goes through it
    ranker = Ranker.from_pretrained(checkpoint, device, cache=rounding)
    other = Ranker.from_pretrained(compare, device, cache=rounding) if compare is not None else None
    assert ranker.config is not None
    trained_match = Match(ranker.config.training.get("match", Match.both))
    dataset = read_dataset(data, "test", answers=answers, pools=pools, match=match or trained_match)
    if no_pools:
        dataset = dataset.without_pools()
    if clean:
        dataset = dataset.clean()
    evaluation_set = EvaluationSet(dataset)
    report = evaluation_set.report(ranker)
    _print(report, f"{ranker.config.model} ({checkpoint})", dataset.name)
    for reason, count in dataset.notes.items():
        console.print(f"  {count:,} {reason}")
    compared = {}
    if compare is not None and other is not None:
        earlier = evaluation_set.report(other)
        difference = changes(evaluation_set, earlier, report)
        print_changes(console, compare, earlier, difference)
        other_match = other.config.training.get("match", Match.both) if other.config else trained_match
        if match is None and other_match != trained_match:
            console.print(
                f"[yellow]Note:[/] {escape(compare)} was trained with --match {other_match}; both ranked the texts "
                f"of --match {trained_match}, as {escape(checkpoint)} was.",
                highlight=False,
            )
        compared = {"compare": changes_as_json(compare, earlier, difference)}
    if plot:
        plot_lengths(by_length(dataset, report), ranker.config.model, plot)
    if json_file:
        numbers = {
            "n_questions": report.n_questions,
            "model": report.model,
            "bm25": report.bm25,
            "fusion": report.fusion,
        }
        costs = {
            "encode_seconds": report.encode_seconds,
            "seconds_per_question": report.seconds_per_question,
            "peak_bytes": peak_bytes(),
        }
        everything = numbers | costs | {"candidates": report.candidates} | compared
        write_text_atomically(json_file, json.dumps(everything, indent=2, ensure_ascii=False) + "\n")


def peak_bytes() -> int | None:
    """The most memory that this process has had; `None` where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _print(report: EvaluationReport, name: str, data: str) -> None:
    table = Table(title=f"{report.n_questions:,} questions of {escape(data)}")
    table.add_column("")
    for measure in report.model:
        table.add_column(measure, justify="right")
    table.add_row("BM25", *(f"{value:.3f}" for value in report.bm25.values()))
    table.add_row(escape(name), *(f"{value:.3f}" for value in report.model.values()))
    if report.fusion:
        table.add_row("both scores added", *(f"{value:.3f}" for value in report.fusion.values()))
    gains = (report.model[measure] - value for measure, value in report.bm25.items())
    table.add_row("difference", *(f"{gain:+.3f}" for gain in gains), end_section=True)
    console.print(table)
    console.print(
        f"Candidates: {report.candidates}.\n"
        f"Time: {report.seconds_per_question * 1000:.2f} ms per question, "
        f"after {report.encode_seconds:.1f} s to encode the answers once.",
        highlight=False,
    )
    if peak := peak_bytes():
        console.print(f"Memory: {peak / 1e6:,.0f} MB at most, libraries included.", highlight=False)
    if report.unanswerable:
        console.print(f"Set aside: {report.unanswerable:,} questions without a right answer.", highlight=False)
