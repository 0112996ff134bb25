"""The calibration section of a checkpoint's README.md, the only one that `ap-ranker calibrate` rewrites."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ap_ranker.errors import InputError
from ap_ranker.evaluation.markdown import markdown_table
from ap_ranker.ranking.checkpoint import CARD

BEGIN, END = "<!-- calibration -->", "<!-- end of calibration -->"
"""Mark the section; invisible on the rendered page."""

UNCALIBRATED = (
    "None: scores order the answers of one question, they are not probabilities. `ap-ranker calibrate` makes them so."
)


def calibration_block(text: str | None) -> str:
    """The section with its marks; `None`: there is no calibration."""
    return f"{BEGIN}\n## Calibration\n\n{text or UNCALIBRATED}\n{END}"


def calibration_text(questions: str, scores: Mapping[str, str], report: Mapping[str, Any]) -> str:
    """The effect of the thresholds, as a table.

    Args:
        questions: the questions that were measured on, in words.
        scores: kind of score -> its name.
        report: kind of score -> `calibration_error`, and `thresholds`: target precision -> `threshold`, `precision`,
            `answered`, `rejected`; "-" is no target.
    """
    rows = [
        [scores[kind], target, f"{each['threshold']:.3f}", *map(_share, (each[part] for part in _PARTS))]
        for kind, measured in report.items()
        for target, each in measured["thresholds"].items()
    ]
    errors = ", ".join(f"{scores[kind]} {measured['calibration_error']:.3f}" for kind, measured in report.items())
    return (
        "Scaled scores are probabilities that the answer is right; `precision` of the ranker, or `score_threshold`,\n"
        f"leaves out what is too improbable. Measured on {questions}.\n\n"
        + markdown_table(["ranked by", "target precision", "threshold", *_PARTS.values()], rows)
        + f"\n\nCalibration error (ECE): {errors}."
    )


_PARTS = {"precision": "precision", "answered": "answered", "rejected": "unanswerable rejected"}


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def card_with_calibration(folder: Path, text: str) -> str | None:
    """The folder's card with a new calibration section and otherwise unchanged; `None` if there is no card.

    Where the marks are missing, as in a card that a user has rewritten, the section is added at the end.

    Raises:
        InputError: the card is not UTF-8.
    """
    path = folder / CARD
    if not path.is_file():
        return None
    try:
        card = path.read_bytes().decode("utf-8")  # read_text would change its line ends
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8, found other bytes ({error.reason}). Encode it anew.") from error
    before, begin, rest = card.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        return before + calibration_block(text) + after
    return f"{card.rstrip()}\n\n{calibration_block(text)}\n"
