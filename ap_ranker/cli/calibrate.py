"""`ap-ranker calibrate`: fits probabilities and thresholds to return no answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.table import Table

from ap_ranker.cli.console import console, numbers, write_json
from ap_ranker.cli.options import Answers, Columns, Device, JsonFile, KnownWordings, argument, option
from ap_ranker.errors import InputError
from ap_ranker.evaluation.plots import check_plotting, plot_reliability

if TYPE_CHECKING:
    from ap_ranker.training.calibrate import SplitReport


def calibrate(
    checkpoint: Annotated[Path, argument("A checkpoint folder; the calibration is written to it.")],
    dev: Annotated[
        Path | None,
        argument(
            "Questions, ideally some unanswerable: a file, or a folder with dev.*; by default those that training "
            "has set aside."
        ),
    ] = None,
    test: Annotated[Path | None, option("Other questions to measure on: a file, or a folder with test.*")] = None,
    precision: Annotated[
        str | None,
        option(
            "Target precisions (shares of the returned answers that should be right), comma-separated; by default "
            "those of 0.8,0.9,0.95 that the number of questions allows."
        ),
    ] = None,
    share: Annotated[
        float | None, option("Assumed share of unanswerable questions if the data has none; 0.1 by default.")
    ] = None,
    answers: Answers = None,
    columns: Columns = None,
    wordings: KnownWordings = None,
    plot: Annotated[Path | None, option("Write a reliability diagram (PNG) to this file.")] = None,
    json_file: JsonFile = None,
    device: Device = "auto",
) -> None:
    """Fit the probability that an answer is right, and thresholds below which no answer is returned."""
    from ap_ranker.ranking.calibration import key
    from ap_ranker.training.calibrate import SCORES
    from ap_ranker.training.calibrate import calibrate as run

    if plot:
        check_plotting()
    report = run(
        checkpoint,
        dev,
        test=test,
        precisions=None if precision is None else _precisions(precision),
        share=share,
        answers=answers,
        wordings=wordings,
        device=device,
        columns=columns,
    )
    for split in report.splits.values():
        _print_unanswerable(split)
    for warning in report.warnings:
        console.warn(warning)
    for split in report.splits.values():
        _print(split, ["-", *map(key, report.precisions)])
    if plot:
        measured = list(report.splits.values())[-1]
        curves = {
            f"{SCORES[kind]}, ECE {score['calibration_error']:.3f}": score["reliability"]
            for kind, score in measured.scores.items()
        }
        plot_reliability(curves, measured.title, plot)
    if json_file:
        write_json(json_file, report.as_json())
    console.say(f"Wrote the calibration into {checkpoint}: {' and '.join(report.files)}.")


def _precisions(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 < value < 1 for value in values):
        raise InputError(f"Expected --precision as numbers between 0 and 1, such as 0.9,0.95; found {text!r}.")
    return values


def _print_unanswerable(split: SplitReport) -> None:
    questions = f"{split.n_questions:,} questions of {split.data}"
    if split.hidden_share is None:
        console.say(f"{split.unanswerable:,} of {questions} have no right answer.")
    else:
        console.say(
            f"All {questions} have a right answer. Each is counted again with its right answers hidden; these copies "
            f"count as {split.hidden_share:.0%} of the questions."
        )
    console.say(f"Candidates: {split.candidates:,.0f} per question.")


def _print(split: SplitReport, targets: Sequence[str]) -> None:
    """Print the thresholds and their effects."""
    from ap_ranker.training.calibrate import SCORES

    titles = ("target precision", "threshold", "precision", "answered", "unanswerable rejected")
    table = Table("ranked by", *map(numbers, titles), title=escape(split.title))
    for kind, score in split.scores.items():
        name = SCORES[kind]
        for target in targets:
            cells = ["not reached"]
            if effect := score["thresholds"].get(target):
                shares = (effect[share] for share in ("precision", "answered", "rejected"))
                cells = [f"{effect['threshold']:.3f}", *("-" if part is None else f"{part:.1%}" for part in shares)]
            table.add_row(name, target, *cells)
            name = ""
        table.add_section()
    console.print(table)
    errors = ", ".join(f"{SCORES[kind]} {score['calibration_error']:.3f}" for kind, score in split.scores.items())
    console.say(f"Calibration error (ECE): {errors}.")
