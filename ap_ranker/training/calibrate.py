"""A checkpoint learns how probable its answers are, and when to give none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import read_dataset
from ap_ranker.errors import InputError
from ap_ranker.evaluation.calibration import (
    HIDDEN_SHARE,
    Bin,
    Outcome,
    Rankings,
    calibration_error,
    fit,
    outcome,
    rank,
    reliability,
    top_answers,
    with_hidden,
)
from ap_ranker.files import restore, write_text_atomically
from ap_ranker.ranking.calibration import FUSED, MODEL, Calibration, key
from ap_ranker.ranking.checkpoint import CARD, read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.calibration_card import calibration_text, card_with_calibration

SCORES = {MODEL: "the model's score", FUSED: "BM25's score added"}
"""The names of the scores that are calibrated."""

PRECISIONS = (0.8, 0.9, 0.95)

EVERYTHING = "-"
"""The name of the threshold 0, with which every question is answered."""


@dataclass(frozen=True)
class Threshold:
    """A threshold and what it does: only first answers of at least this probability are given.

    Attributes:
        probability: the threshold.
        outcome: what happens to the questions.
    """

    probability: float
    outcome: Outcome


@dataclass(frozen=True)
class ScoreReport:
    """How well one kind of score is calibrated.

    Attributes:
        bins: first answers by their probability, and how many of them are right.
        thresholds: a target precision, or `EVERYTHING` -> its threshold; `None` if the dev questions do not reach it.
    """

    bins: Sequence[Bin]
    thresholds: Mapping[str, Threshold | None]

    @property
    def calibration_error(self) -> float:
        """The ECE: how far the probabilities are from what happens, on average."""
        return calibration_error(self.bins)

    def as_json(self) -> dict[str, Any]:
        """As basic types, without the thresholds that were not reached."""
        reached = {name: one for name, one in self.thresholds.items() if one is not None}
        return {
            "calibration_error": self.calibration_error,
            "reliability": [asdict(each) for each in self.bins],
            "thresholds": {
                name: {"threshold": one.probability, **asdict(one.outcome)} for name, one in reached.items()
            },
        }


@dataclass(frozen=True)
class SplitReport:
    """A calibration measured on one set of questions.

    Attributes:
        data: the name of the data.
        n_questions: how many questions it has.
        unanswerable: how many of them have no right answer.
        hidden_share: where there are none, each question counts once more with its right answers hidden, and these are
            this share of all; `None` where there are some.
        scores: `model` and, if the checkpoint has a weight of BM25, `fused` -> how well they are calibrated.
    """

    data: str
    n_questions: int
    unanswerable: int
    hidden_share: float | None
    scores: Mapping[str, ScoreReport]

    def as_json(self) -> dict[str, Any]:
        """The scores' reports as basic types."""
        return {kind: score.as_json() for kind, score in self.scores.items()}


@dataclass(frozen=True)
class CalibrationReport:
    """What `calibrate` found, and where it is kept.

    Attributes:
        splits: `dev`, and `test` if there were test questions -> the calibration measured on them.
        files: names of the checkpoint's files that now hold the calibration.
    """

    splits: Mapping[str, SplitReport]
    files: Sequence[str]

    @property
    def measured(self) -> SplitReport:
        """On the test questions, if there were any, or else on those that it was fitted to."""
        return self.splits.get("test", self.splits["dev"])

    def title(self, split: str) -> str:
        """What a split was measured on, in words."""
        report = self.splits[split]
        return f"{report.n_questions:,} questions of {report.data}" + (", fitted to them" if split == "dev" else "")

    def as_json(self) -> dict[str, Any]:
        """Split -> kind of score -> its numbers, as basic types."""
        return {split: report.as_json() for split, report in self.splits.items()}


def calibrate(
    checkpoint: str | Path,
    dev: Dataset | str | Path,
    *,
    test: Dataset | str | Path | None = None,
    precisions: Sequence[float] = PRECISIONS,
    share: float | None = None,
    answers: Path | None = None,
    device: str | None = None,
) -> CalibrationReport:
    """Fit the probability that an answer is right, and thresholds below which it is better to give none.

    The checkpoint keeps the calibration in its `config.json` and its card; each is replaced whole or not at all. From
    then on `Ranker.rank` and `AnswerRanker` know probabilities and the target precisions given here.

    Args:
        checkpoint: a checkpoint folder.
        dev: questions to fit to, at best some without a right answer: a data set, a file, or a folder with `dev.*`.
        test: other questions to measure on, likewise; by default the dev questions.
        precisions: target precisions, shares of the given answers that are to be right; each gets a threshold.
        share: of questions without a right answer among all, where the data has none and they are made by hiding the
            right answers; `HIDDEN_SHARE` by default.
        answers: the file of answers, as for `read_dataset`.
        device: as for `Ranker.from_pretrained`.

    Raises:
        InputError: no such checkpoint on this machine, data that cannot be used, too few questions, or a precision or
            share that is not between 0 and 1.
        WriteError: the checkpoint cannot be written.
    """
    folder = Path(checkpoint)
    _check(folder, precisions, share)
    precisions = sorted(set(precisions))
    ranker = Ranker.from_pretrained(folder, device)
    assert ranker.config is not None
    match = Match(ranker.config.training.get("match", Match.both))
    given = {"dev": dev} if test is None else {"dev": dev, "test": test}
    data = {
        split: source if isinstance(source, Dataset) else read_dataset(source, split, answers=answers, match=match)
        for split, source in given.items()
    }
    if share is not None and not any(map(_hides, data.values())):
        raise InputError(
            f"{data['dev'].name}: it has questions without a right answer, so share, which is for data without them, "
            "says nothing here. Leave it out."
        )
    hidden = {split: (share or HIDDEN_SHARE) if _hides(dataset) else None for split, dataset in data.items()}
    rankings = {split: _rankings(ranker, dataset, hidden[split]) for split, dataset in data.items()}
    fits = {kind: fit(ranked, precisions) for kind, ranked in rankings["dev"].items()}
    reports = {
        split: SplitReport(
            dataset.name,
            len(dataset.questions),
            len(dataset.questions) - len(dataset.answerable),
            hidden[split],
            {kind: _measure(fits[kind], ranked, precisions) for kind, ranked in rankings[split].items()},
        )
        for split, dataset in data.items()
    }
    return _write(folder, fits, CalibrationReport(reports, ["config.json"]))


def _check(folder: Path, precisions: Sequence[float], share: float | None) -> None:
    if not precisions or not all(0 < value < 1 for value in precisions):
        raise InputError(f"Expected precisions between 0 and 1, such as 0.9; found {list(precisions)}.")
    if share is not None and not 0 < share < 1:
        raise InputError(f"Expected a share above 0 and below 1, found {share:g}.")
    restore(folder)
    if not folder.is_dir():
        raise InputError(
            f"Expected a checkpoint folder on this machine, as calibrate writes into it; found none at "
            f"{str(folder)!r}. Fetch one of the hub first: hf download NAME --local-dir DIR"
        )


def _hides(dataset: Dataset) -> bool:
    """Whether questions without a right answer have to be made."""
    return len(dataset.answerable) == len(dataset.questions)


def _rankings(ranker: Ranker, dataset: Dataset, hidden_share: float | None) -> dict[str, Rankings]:
    ranked = rank(ranker, dataset)
    if hidden_share is None:
        return ranked
    return {kind: with_hidden(rankings, hidden_share) for kind, rankings in ranked.items()}


def _measure(calibration: Calibration, rankings: Rankings, precisions: Sequence[float]) -> ScoreReport:
    answers = top_answers(calibration, rankings)
    limits: dict[str, float | None] = {EVERYTHING: 0.0}
    limits |= {key(precision): calibration.threshold(precision) for precision in precisions}
    return ScoreReport(
        reliability(answers),
        {name: None if least is None else Threshold(least, outcome(answers, least)) for name, least in limits.items()},
    )


def _write(folder: Path, fits: Mapping[str, Calibration], report: CalibrationReport) -> CalibrationReport:
    """The report, once the checkpoint has the calibration."""
    title = report.title(list(report.splits)[-1])
    if report.measured.hidden_share is not None:
        title += "; each counts once more with its right answers hidden"
    card = card_with_calibration(folder, calibration_text(title, SCORES, report.measured.as_json()))
    write_checkpoint_config(folder, replace(read_checkpoint_config(folder), calibration=fits))
    if card is None:
        return report
    write_text_atomically(folder / CARD, card)
    return replace(report, files=[*report.files, CARD])
