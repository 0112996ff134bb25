"""Calibrates a checkpoint: fits the probability that an answer is right, and thresholds to return no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match
from ap_ranker.data.wordings import read_with_wordings
from ap_ranker.data.writer import DEV
from ap_ranker.errors import InputError
from ap_ranker.evaluation.calibration import (
    HIDDEN_SHARE,
    Bin,
    Outcome,
    Rankings,
    calibration_error,
    fit,
    outcome,
    questions_needed,
    rank,
    reliability,
    top_answers,
    with_hidden,
)
from ap_ranker.evaluation.warnings import candidate_warnings, seen_warnings
from ap_ranker.files import restore, write_text_atomically
from ap_ranker.ranking.calibration import FUSED, MODEL, Calibration, key
from ap_ranker.ranking.checkpoint import CARD, CheckpointConfig, read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.training.card import calibration_text, card_with_calibration

SCORES = {MODEL: "the model's score", FUSED: "BM25's score added"}
"""Kind of score -> its name in words."""

PRECISIONS = (0.8, 0.9, 0.95)

NO_TARGET = "-"
"""Stands for a target precision at the threshold 0, which answers every question."""


@dataclass(frozen=True)
class ScoreReport:
    """How well one kind of score is calibrated.

    Attributes:
        bins: first answers grouped by probability, with the share that is right.
        thresholds: target precision, or `NO_TARGET` -> its threshold's effect; `None` if no threshold reaches it.
    """

    bins: Sequence[Bin]
    thresholds: Mapping[str, Outcome | None]

    @property
    def calibration_error(self) -> float:
        """The expected calibration error (ECE)."""
        return calibration_error(self.bins)

    def as_json(self) -> dict[str, Any]:
        """The report as basic types, without targets that no threshold reaches."""
        return {
            "calibration_error": self.calibration_error,
            "reliability": [asdict(group) for group in self.bins],
            "thresholds": {name: asdict(effect) for name, effect in self.thresholds.items() if effect is not None},
        }


@dataclass(frozen=True)
class SplitReport:
    """A calibration measured on one set of questions.

    Attributes:
        data: name of the data.
        n_questions: number of questions.
        unanswerable: number of questions without a right answer.
        hidden_share: if there are none, each question is counted again with its right answers hidden; these copies are
            this share of the total. `None` if there are some.
        scores: `model` and, if the checkpoint has a weight of BM25, `fused` -> the report on this kind of score.
        candidates: mean number of candidates of a question.
    """

    data: str
    n_questions: int
    unanswerable: int
    hidden_share: float | None
    scores: Mapping[str, ScoreReport]
    candidates: float


@dataclass(frozen=True)
class CalibrationReport:
    """The result of `calibrate`.

    Attributes:
        splits: `dev` and, if there are test questions, `test` -> the calibration measured on them.
        files: names of the checkpoint's files that hold the calibration.
        warnings: why the probabilities may be too high, and what was left out, in words.
    """

    splits: Mapping[str, SplitReport]
    files: Sequence[str]
    warnings: Sequence[str] = ()

    @property
    def measured(self) -> SplitReport:
        """The report on the test questions, or else on the dev questions."""
        return self.splits.get("test", self.splits["dev"])

    def title(self, split: str) -> str:
        """The questions of a split, in words."""
        report = self.splits[split]
        return f"{report.n_questions:,} questions of {report.data}" + (", fitted to them" if split == "dev" else "")

    def as_json(self) -> dict[str, Any]:
        """Split -> kind of score -> its report as basic types."""
        return {
            split: {kind: score.as_json() for kind, score in report.scores.items()}
            for split, report in self.splits.items()
        }


def calibrate(
    checkpoint: str | Path,
    dev: Dataset | str | Path | None = None,
    *,
    test: Dataset | str | Path | None = None,
    precisions: Sequence[float] | None = None,
    share: float | None = None,
    answers: Path | None = None,
    wordings: str | Path | None = None,
    device: str | None = None,
    columns: tuple[str, str] | None = None,
) -> CalibrationReport:
    """Fit the probability that an answer is right, and thresholds below which no answer is returned.

    The calibration is written to the checkpoint's `config.json` and model card, each atomically. `Ranker.rank` and
    `AnswerRanker` then return probabilities and accept these target precisions.

    Args:
        checkpoint: a checkpoint folder.
        dev: questions to fit to, ideally some of them unanswerable: a data set, a file, or a folder with `dev.*`. By
            default those that training has set aside (`dev.jsonl` in the checkpoint).
        test: other questions to measure on; by default the dev questions.
        precisions: target precisions: shares of the returned answers that should be right. Each gets a threshold. By
            default those of `PRECISIONS` for which there are enough questions, see `questions_needed`.
        share: share of unanswerable questions if the data has none and they are made by hiding right answers;
            `HIDDEN_SHARE` by default.
        answers: the file of all answers, such as the FAQ of a table of pairs, as for `read_dataset`. Of the questions
            that training has set aside, it is by default the FAQ of the training.
        wordings: a file of known wordings; by default, `train.*` of a folder.
        device: as for `Ranker.from_pretrained`.
        columns: the names of the columns of questions and answers, as for `read_dataset`.

    Raises:
        InputError: no such checkpoint on this machine, unusable data, too few questions, or a precision or share
            that is not between 0 and 1.
        WriteError: the checkpoint cannot be written.
    """
    folder = Path(checkpoint)
    _check(folder, PRECISIONS if precisions is None else precisions, share)
    ranker = Ranker.from_pretrained(folder, device)
    assert ranker.config is not None
    answers_of = {"dev": answers, "test": answers}
    if dev is None:
        dev, answers_of["dev"] = folder / DEV, answers or _trained_answers(folder, ranker.config)
    match = Match(ranker.config.training.get("match", Match.both))
    sources = {"dev": dev} if test is None else {"dev": dev, "test": test}
    data = {
        split: source
        if isinstance(source, Dataset)
        else read_with_wordings(
            source, split, wordings=wordings, answers=answers_of[split], match=match, columns=columns
        )
        for split, source in sources.items()
    }
    precisions, warnings = _reachable(precisions, data["dev"])
    for dataset in data.values():
        seen = ranker.seen_in_training([question.text for question in dataset.questions])
        warnings += [*candidate_warnings(dataset), *seen_warnings(seen)]
        warnings += [f"{count:,} {reason}" for reason, count in dataset.notes.items()]
    if share is not None and not any(map(_all_answerable, data.values())):
        raise InputError(
            f"{data['dev'].name}: it has questions without a right answer, so share, which is for data without them, "
            "has no effect. Leave it out."
        )
    hidden = {split: (share or HIDDEN_SHARE) if _all_answerable(dataset) else None for split, dataset in data.items()}
    rankings = {split: rank(ranker, dataset) for split, dataset in data.items()}
    n_candidates = {
        split: float(np.mean([len(each) for each in kinds[MODEL].scores])) for split, kinds in rankings.items()
    }
    for split, share_hidden in hidden.items():
        if share_hidden is not None:
            rankings[split] = {kind: with_hidden(ranked, share_hidden) for kind, ranked in rankings[split].items()}
    fits = {kind: fit(ranked, precisions) for kind, ranked in rankings["dev"].items()}
    reports = {
        split: SplitReport(
            dataset.name,
            len(dataset.questions),
            len(dataset.questions) - len(dataset.answerable),
            hidden[split],
            {kind: _measure(fits[kind], ranked, precisions) for kind, ranked in rankings[split].items()},
            n_candidates[split],
        )
        for split, dataset in data.items()
    }
    return _write(folder, fits, CalibrationReport(reports, ["config.json"], list(dict.fromkeys(warnings))))


def _trained_answers(folder: Path, config: CheckpointConfig) -> Path | None:
    """The FAQ of the questions that training has set aside: the file with the answers of its training.

    Raises:
        InputError: no questions were set aside, or the FAQ is no longer there.
    """
    if not (folder / DEV).is_file():
        raise InputError(
            f"{folder}: expected questions that training has set aside ({DEV}), found none: it was given dev "
            f"questions, or is of an earlier version. Name some: ap-ranker calibrate {folder} DEV"
        )
    name = config.training.get("answers")
    if not name:  # candidates that were judged one by one
        return None
    if not Path(str(name)).is_file():
        raise InputError(
            f"{folder}: expected the FAQ of its training at {str(name)!r}, found no file. Name it: --answers FAQ.csv"
        )
    return Path(str(name))


def _reachable(wanted: Sequence[float] | None, dev: Dataset) -> tuple[list[float], list[str]]:
    """The target precisions to calibrate for, and warnings about those of `PRECISIONS` that are left out.

    Raises:
        InputError: there are too few questions for one that the user wants, or for all.
    """
    found = len(dev.answerable)
    precisions = sorted(set(PRECISIONS if wanted is None else wanted))
    refused = [precision for precision in precisions if found < questions_needed(precision)]
    if refused and (wanted is not None or refused == precisions):
        precision = refused[-1 if wanted is not None else 0]
        raise InputError(
            f"{dev.name}: expected at least {questions_needed(precision):,} questions with a right answer to calibrate "
            f"for precision {key(precision)}, found {found:,}: even if all were answered right, that could be chance. "
            "Add questions, or choose a lower --precision."
        )
    kept = [precision for precision in precisions if precision not in refused]
    return kept, [
        f"precision {key(precision)} left out: it needs {questions_needed(precision):,} questions, found {found:,}."
        for precision in refused
    ]


def _check(folder: Path, precisions: Sequence[float], share: float | None) -> None:
    if not precisions or not all(0 < value < 1 for value in precisions):
        raise InputError(f"Expected precisions between 0 and 1, such as 0.9; found {list(precisions)}.")
    if share is not None and not 0 < share < 1:
        raise InputError(f"Expected a share above 0 and below 1, found {share:g}.")
    restore(folder)
    if not folder.is_dir():
        raise InputError(
            f"Expected a checkpoint folder on this machine, as calibrate writes into it; found none at "
            f"{str(folder)!r}. Download one from the hub first: hf download NAME --local-dir DIR"
        )


def _all_answerable(dataset: Dataset) -> bool:
    """Whether unanswerable questions have to be made."""
    return len(dataset.answerable) == len(dataset.questions)


def _measure(calibration: Calibration, rankings: Rankings, precisions: Sequence[float]) -> ScoreReport:
    answers = top_answers(calibration, rankings)
    thresholds: dict[str, float | None] = {NO_TARGET: 0.0}
    thresholds |= {key(precision): calibration.threshold(precision) for precision in precisions}
    effects = {name: None if value is None else outcome(answers, value) for name, value in thresholds.items()}
    return ScoreReport(reliability(answers), effects)


def _write(folder: Path, fits: Mapping[str, Calibration], report: CalibrationReport) -> CalibrationReport:
    """Write the calibration to the checkpoint; returns the report with the files written."""
    split = list(report.splits)[-1]
    title = report.title(split)
    if report.measured.hidden_share is not None:
        title += "; each is counted again with its right answers hidden"
    card = card_with_calibration(folder, calibration_text(title, SCORES, report.as_json()[split]))
    write_checkpoint_config(folder, replace(read_checkpoint_config(folder), calibration=fits))
    if card is None:
        return report
    write_text_atomically(folder / CARD, card)
    return replace(report, files=[*report.files, CARD])
