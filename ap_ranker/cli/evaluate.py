"""`ap-ranker evaluate`: evaluates a checkpoint and BM25 on the same candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

from ap_ranker.cli import options
from ap_ranker.cli.console import ProgressBars, cells, console, numbers, write_json
from ap_ranker.cli.options import argument, option
from ap_ranker.evaluation.question_kinds import AS_ASKED

if TYPE_CHECKING:
    from ap_ranker.evaluation.evaluation_report import EarlierCheckpoint, EvaluationReport
    from ap_ranker.search.evaluate_pipeline import PipelineReport
WIDTH = 100
"""Maximum number of columns to show of a text; the JSON file has all of it."""


@dataclass(frozen=True)
class Conditions:
    """What `ap_ranker.evaluation.evaluate.evaluate` takes beside a checkpoint and data."""

    answers: options.Answers = None
    columns: options.Columns = None
    match: options.MatchText = None
    wordings: options.KnownWordings = None
    dtype: options.StoredDtype = None
    compare: Annotated[str | None, option("An earlier checkpoint to compare with, question by question.")] = None
    device: options.Device = "auto"


def evaluate(
    checkpoint: Annotated[str, argument("A checkpoint folder or a hub name.")],
    data: Annotated[Path, argument("A file of questions, or a folder with test.*")],
    conditions: Conditions,
    pipeline: Annotated[
        Path | None, option("A YAML file with a Haystack pipeline: evaluate the search as it is served, too.")
    ] = None,
    json_file: options.JsonFile = None,
) -> None:
    """Evaluate a checkpoint and BM25 on the same questions and candidates."""
    with ProgressBars() as progress:
        from ap_ranker.evaluation.evaluate import evaluate as run

        report = run(checkpoint, data, on_progress=partial(progress.update, "reading the answers"), **vars(conditions))
    served = None
    if pipeline:
        with ProgressBars() as progress:
            from ap_ranker.search.evaluate_pipeline import evaluate_pipeline

            served = evaluate_pipeline(
                pipeline,
                report.dataset,
                checkpoint=checkpoint,
                faq=conditions.answers,
                columns=conditions.columns,
                match=report.match,
                wordings=[conditions.wordings] if conditions.wordings else [],
                near=report.is_near,
                on_progress=progress.update,
            )
    _print(report, f"{report.model_name} ({checkpoint})", served=served)
    for reason, count in report.dataset.notes.items():
        console.say(f"  {count:,} {reason}")
    for warning in report.warnings:
        console.warn(warning)
    if report.comparison:
        _print_comparison(report.comparison, report)
    if json_file:
        write_json(json_file, report.as_json() | ({"pipeline": asdict(served)} if served else {}))


def _print(report: EvaluationReport, name: str, served: PipelineReport | None) -> None:
    rows: list[list[str] | None] = []
    for kind in report.shown_kinds:
        rows += _rows_of(report, name, served=served, kind=kind)
        rows.append(None)
    title = f"{report.n_questions:,} questions of {report.dataset.name}"
    console.table(["", *map(numbers, report.model)], rows, title=title)
    n_new = report.n_questions - report.n_near
    if not report.n_near:
        console.say("All questions are new: none is a near copy of what the search has seen.")
    elif n_new:
        console.say(
            f"Read the rows of the {n_new:,} new questions: they tell how the search answers the next one. The other "
            f"{report.n_near:,} are equal to what it has seen, in training or as known wordings, or near copies of it."
        )
    else:
        console.say(f"No question is new: all {report.n_near:,} are near copies of what the search has seen.")
    if report.n_known:
        console.say(
            f"{report.n_known:,} of the {report.n_questions:,} questions are word for word what it has seen; known "
            "wordings always get their answer."
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
    if report.unanswerable:
        console.say(f"Left out: {report.unanswerable:,} questions without a right answer.")


def _rows_of(report: EvaluationReport, name: str, served: PipelineReport | None, kind: str) -> list[list[str] | None]:
    """The rows of the questions of a kind."""
    bm25 = report.means_of(kind, report.bm25_each)
    model = report.means_of(kind, report.model_each)
    if bm25 is None or model is None:
        return []
    end = report.shown_kinds[kind]
    measured = {
        report.bm25_name: bm25,
        "answers alone": report.without_wordings if kind == AS_ASKED else None,
        name: model,
        "both scores added": report.means_of(kind, report.fusion_each),
    }
    if served is not None:
        measured |= {f"as served ({served.pipeline})": served.means_of(kind)}
    rows: list[list[str] | None] = [
        cells(title + end, measures.values()) for title, measures in measured.items() if measures
    ]
    gains = (model[measure] - value for measure, value in bm25.items())
    return [*rows, cells(f"difference to BM25{end}", gains, "+.3f")]


def _print_comparison(comparison: EarlierCheckpoint, report: EvaluationReport) -> None:
    before = comparison.before
    changes = comparison.changes
    name = comparison.checkpoint
    compared = {name: (before.model, changes["model"])}
    if changes["fusion"]:
        compared["both scores added"] = (before.fused, changes["fusion"])
    rows: list[list[str] | None] = []
    for title, (values, gain) in compared.items():
        rows += [cells(title, values.values()), cells("difference", gain["difference"].values(), "+.3f")]
        rows += [cells("p-value", gain["p_value"].values(), ".4f"), None]
    console.table(["", *map(numbers, before.model)], rows, title=f"Compared with {name}")
    new = changes["new"]
    if new:
        gain = new.get("fusion") or new["model"]
        console.say(
            f"On the {new['n_questions']:,} new questions alone: MRR {gain['difference']['MRR']:+.3f}, "
            f"p = {gain['p_value']['MRR']:.4f}."
        )
    console.say(
        f"The first right answer ranks higher for {changes['better']:,} questions, lower for {changes['worse']:,} "
        f"of {before.n_questions:,}."
    )
    for title, listed in (("Higher", changes["improved"]), ("Lower", changes["worsened"])):
        for change in listed:
            _print_change(title, change)
    if comparison.trained_match != report.match:
        trained = f"{name} was trained with --match {comparison.trained_match}"
        console.warn(f"{trained}; both ranked the texts of --match {report.match}.", "Note")


def _print_change(title: str, change: Mapping[str, Any]) -> None:
    lines = {f"{title}, {change['rank_before']:g} → {change['rank_after']:g}": change["question"]}
    if change["first_before"] != change["first_after"]:
        lines |= {"  first before": change["first_before"], "  first now": change["first_after"]}
    for name, text in lines.items():
        console.say(f"{name}: {shorten(text, WIDTH, placeholder=' …')}")
