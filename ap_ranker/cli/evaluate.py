"""`ap-ranker evaluate`: evaluates a checkpoint and BM25 on the same candidates."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ap_ranker.cli.console import console, numbers, write_json
from ap_ranker.cli.options import (
    Answers,
    Columns,
    Device,
    JsonFile,
    KnownWordings,
    MatchText,
    Pools,
    StoredDtype,
    argument,
    option,
)
from ap_ranker.evaluation.plots import check_plotting, plot_lengths

if TYPE_CHECKING:
    from ap_ranker.data.faq import Match
    from ap_ranker.evaluation.evaluation_report import EarlierCheckpoint, EvaluationReport
    from ap_ranker.search.evaluate_pipeline import PipelineReport
WIDTH = 100
"""Maximum number of columns to show of a text; the JSON file has all of it."""


def evaluate(
    checkpoint: Annotated[str, argument("A checkpoint folder or a hub name.")],
    data: Annotated[Path, argument("A file of questions, or a folder with test.*")],
    answers: Answers = None,
    columns: Columns = None,
    pools: Pools = None,
    no_pools: Annotated[
        bool, option("Ignore the data's candidate pools: all answers are candidates.", "--no-pools")
    ] = False,
    clean: Annotated[bool, option("Leave out questions whose candidates are all right.", "--clean")] = False,
    match: MatchText = None,
    wordings: KnownWordings = None,
    hybrid: Annotated[
        bool, option("Of more than 1,000 answers, rank the best by the model's vectors, too.", "--hybrid")
    ] = False,
    dtype: StoredDtype = None,
    pipeline: Annotated[
        Path | None, option("A YAML file with a Haystack pipeline: evaluate the search as it is served, too.")
    ] = None,
    compare: Annotated[str | None, option("An earlier checkpoint to compare with, question by question.")] = None,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, option("Plot P@1 against answer length to this PNG file.")] = None,
    device: Device = "auto",
) -> None:
    """Evaluate a checkpoint and BM25 on the same questions and candidates."""
    from ap_ranker.evaluation.evaluate import evaluate as run

    if plot:
        check_plotting()
    report = run(
        checkpoint,
        data,
        compare=compare,
        answers=answers,
        pools=pools,
        no_pools=no_pools,
        clean=clean,
        match=match,
        wordings=wordings,
        hybrid=hybrid,
        dtype=dtype,
        device=device,
        columns=columns,
    )
    served = None
    if pipeline:
        from ap_ranker.search.evaluate_pipeline import evaluate_pipeline

        served = evaluate_pipeline(
            pipeline,
            report.dataset,
            checkpoint=checkpoint,
            faq=answers,
            columns=columns,
            match=report.match,
            wordings=[wordings] if wordings else [],
            known=report.known,
        )
    _print(report, f"{report.model_name} ({checkpoint})", served)
    for reason, count in report.dataset.notes.items():
        console.say(f"  {count:,} {reason}")
    for warning in report.warnings:
        console.warn(warning)
    if report.comparison:
        _print_comparison(report.comparison, report.match)
    if plot:
        plot_lengths(report.by_length(), report.model_name, plot)
    if json_file:
        found = report.as_json() | {"peak_bytes": peak_bytes()} | ({"pipeline": asdict(served)} if served else {})
        write_json(json_file, found)


def peak_bytes() -> int | None:
    """Peak memory of this process; `None` if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _print(report: EvaluationReport, name: str, served: PipelineReport | None) -> None:
    title = f"{report.n_questions:,} questions of {escape(report.dataset.name)}"
    table = Table("", *map(numbers, report.model), title=title)
    rows = {report.bm25_name: report.bm25}
    if report.without_wordings:
        rows["answers alone"] = report.without_wordings
    rows |= {escape(name): report.model, "both scores added": report.fusion or {}}
    _add_rows(table, rows)
    gains = (report.model[measure] - value for measure, value in report.bm25.items())
    table.add_row("difference", *(f"{gain:+.3f}" for gain in gains), end_section=True)
    if served:
        _add_rows(table, {f"as served ({escape(served.pipeline)})": served.measures})
        table.add_section()
    new = {report.bm25_name: report.new(report.bm25_each), escape(name): report.new(report.model_each)}
    new |= {"both scores added": report.new(report.fusion_each), "as served": served.new if served else None}
    _add_rows(table, {f"{title}, new questions": measures or {} for title, measures in new.items()})
    console.print(table)
    if report.n_known:
        console.say(
            f"{report.n_known:,} of the {report.n_questions:,} questions are not new: seen in training, or known "
            "wordings, which always get their answer."
        )
    if served:
        console.say(
            f"As served: the pipeline fetched {served.fetched:.0f} documents per question, with a right answer for "
            f"{served.recall:.1%} of the questions; the others count as misses."
        )
    console.say(
        f"Candidates: {report.candidates}.\n"
        f"Time: {report.seconds_per_question * 1000:.2f} ms per question, "
        f"after {report.encode_seconds:.1f} s to encode the answers once."
    )
    if peak := peak_bytes():
        console.say(f"Peak memory: {peak / 1e6:,.0f} MB, libraries included.")
    if report.unanswerable:
        console.say(f"Left out: {report.unanswerable:,} questions without a right answer.")


def _add_rows(table: Table, rows: Mapping[str, Mapping[str, float]]) -> None:
    for title, measures in rows.items():
        if measures:
            table.add_row(title, *(f"{value:.3f}" for value in measures.values()))


def _print_comparison(comparison: EarlierCheckpoint, match: Match) -> None:
    """Print the earlier checkpoint's measures, the differences, and the questions that changed most."""
    before, changes, name = comparison.before, comparison.changes, escape(comparison.checkpoint)
    table = Table("", *map(numbers, before.model), title=f"Compared with {name}")
    rows = {name: (before.model, changes["model"])}
    if changes["fusion"]:
        rows["both scores added"] = (before.fused, changes["fusion"])
    for title, (values, gain) in rows.items():
        table.add_row(title, *(f"{value:.3f}" for value in values.values()))
        table.add_row("difference", *(f"{value:+.3f}" for value in gain["difference"].values()))
        table.add_row("p-value", *(f"{value:.4f}" for value in gain["p_value"].values()), end_section=True)
    console.print(table)
    console.say(
        f"The first right answer ranks higher for {changes['better']:,} questions, lower for {changes['worse']:,} "
        f"of {before.n_questions:,}."
    )
    for title, listed in (("Higher", changes["improved"]), ("Lower", changes["worsened"])):
        for change in listed:
            _print_change(title, change)
    if comparison.trained_match != match:
        console.print(
            f"[yellow]Note:[/] {name} was trained with --match {comparison.trained_match}; both ranked the texts of "
            f"--match {match}.",
        )


def _print_change(title: str, change: Mapping[str, Any]) -> None:
    lines = {f"{title}, {change['rank_before']:g} → {change['rank_after']:g}": change["question"]}
    if change["first_before"] != change["first_after"]:
        lines |= {"  first before": change["first_before"], "  first now": change["first_after"]}
    for name, text in lines.items():
        line = Text(" ".join(text.split()))
        line.truncate(WIDTH, overflow="ellipsis")
        console.print(Text(f"{name}: ").append_text(line))
