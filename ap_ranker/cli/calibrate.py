"""`ap-ranker calibrate`: fits probabilities and thresholds to return no answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ap_ranker.cli import options
from ap_ranker.cli.console import ProgressBars, console, numbers, write_json
from ap_ranker.cli.options import argument, option
from ap_ranker.errors import InputError

if TYPE_CHECKING:
    from ap_ranker.training.calibrate import CalibrationReport, SplitReport
    from ap_ranker.training.calibration_gain import CalibrationGain


@dataclass(frozen=True)
class CalibrationData:
    """What `ap_ranker.training.calibrate.calibrate` takes beside a checkpoint and precisions."""

    dev: Annotated[
        Path | None,
        argument("Questions, some unanswerable: a file or a folder; by default those that training has set aside."),
    ] = None
    test: Annotated[Path | None, option("Other questions to measure on: a file, or a folder with test.*")] = None
    share: Annotated[
        float | None, option("Assumed share of unanswerable questions if the data has none; 0.1 by default.")
    ] = None
    answers: options.Answers = None
    columns: options.Columns = None
    wordings: options.KnownWordings = None
    device: options.Device = "auto"


def calibrate(
    checkpoint: Annotated[Path, argument("A checkpoint folder; the calibration is written to it.")],
    data: CalibrationData,
    precision: Annotated[
        str | None,
        option("Target precisions: shares of returned answers that are right; by default 0.8,0.9,0.95."),
    ] = None,
    json_file: options.JsonFile = None,
) -> None:
    """Fit the probability that an answer is right, and thresholds below which no answer is returned."""
    try:
        precisions = None
        if precision is not None:
            precisions = [float(part) for part in precision.split(",")]
    except ValueError as error:
        raise InputError(f"Expected --precision as numbers such as 0.9,0.95; found {precision!r}.") from error
    with ProgressBars() as bars:
        from ap_ranker.ranking.rule import threshold_key
        from ap_ranker.training.calibrate import calibrate as run

        report = run(checkpoint, precisions=precisions, on_progress=bars.update, **vars(data))
    for split in report.splits.values():
        _print_unanswerable(split)
    for warning in report.warnings:
        console.warn(warning)
    for split in report.splits.values():
        _print(split, ["-", *map(threshold_key, report.precisions)])
    if json_file:
        write_json(json_file, report.as_json())
    for sentence in advice(report):
        console.say(sentence)
    if report.gain is not None:
        console.say(_compared(report.gain))
    if report.files:
        console.say(f"Wrote the calibration into {checkpoint}: {' and '.join(report.files)}.")
    else:
        console.warn(
            f"{checkpoint} keeps the calibration that it had: with one on these questions the search would be worse. "
            "More questions of users would make a better one."
        )


def advice(report: CalibrationReport) -> Iterator[str]:
    """What each target precision means for those who ask, and what would help most, in sentences."""
    from ap_ranker.search.diagnosis import ENOUGH_TO_CALIBRATE

    measured = list(report.splits.values())[-1]
    effects = list(measured.scores.values())[-1]["thresholds"]
    asked = report.splits["dev"].n_questions
    for target in report.precisions:
        effect = effects[f"{target:g}"]
        certainty = report.certainty[f"{target:g}"]
        answered = effect["answered"]
        none = effect["none"]
        yield (
            f"At {target:g} this search answers {answered:.0%} of the questions, shows {1 - answered - none:.0%} a "
            f"maybe, and has nothing for {none:.0%}. Expected precision: {certainty.expected:.2f}; with a probability "
            f"of 95 % at least {certainty.lower:.2f}."
        )
    if asked < ENOUGH_TO_CALIBRATE:
        yield (
            f"This rests on {asked:,} question{'s' if asked != 1 else ''} and on what was learnt from other FAQs. "
            f"{ENOUGH_TO_CALIBRATE - asked} more questions of users would make it more certain."
        )


def _compared(gain: CalibrationGain) -> str:
    """The search without and with the calibration, in a sentence."""
    from ap_ranker.ranking.verdict import WRONG_COSTS

    return (
        f"Right answers asserted minus {WRONG_COSTS:g} times wrong ones: {gain.utility_before:+.2f} a question without "
        f"these questions, {gain.utility_after:+.2f} with a calibration on them."
    )


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
    from ap_ranker.training.calibrate import SCORES

    rows: list[list[str] | None] = []
    for kind, score in split.scores.items():
        name = SCORES[kind]
        for target in targets:
            effect = score["thresholds"][target]
            shares = (effect[share] for share in ("precision", "answered", "rejected"))
            percents = []
            for part in shares:
                percents.append("-" if part is None else f"{part:.1%}")
            rows.append([name, target, f"{effect['threshold']:.3f}", *percents])
            name = ""
        rows.append(None)
    titles = ("target precision", "threshold", "precision", "answered", "unanswerable rejected")
    console.table(["ranked by", *map(numbers, titles)], rows, title=split.title)
    errors = ", ".join(f"{SCORES[kind]} {score['calibration_error']:.3f}" for kind, score in split.scores.items())
    console.say(f"Calibration error (ECE): {errors}.")
