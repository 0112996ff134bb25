"""Calibrates a checkpoint: fits the probability that an answer is right, and thresholds to return no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.wordings import read_with_wordings
from ap_ranker.data.writer import DEV
from ap_ranker.errors import InputError
from ap_ranker.evaluation.calibration_fit import (
    HIDDEN_SHARE,
    ScoreReport,
    fit,
    measure,
    questions_needed,
    rank,
    with_hidden,
)
from ap_ranker.evaluation.evaluate import trained_match
from ap_ranker.evaluation.evaluation_set import easy_warnings
from ap_ranker.files import restore, write_text_atomically
from ap_ranker.ranking.checkpoint import CARD, read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration, key
from ap_ranker.training.card import calibration_text, card_with_calibration

SCORES = {MODEL: "the model's score", FUSED: "BM25's score added"}
"""Kind of score -> its name in words."""

PRECISIONS = (0.8, 0.9, 0.95)


@dataclass(frozen=True)
class SplitReport:
    """A calibration measured on one set of questions.

    Attributes:
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
    _check(folder, precisions, share)
    ranker = Ranker.from_pretrained(folder, device)
    assert ranker.config is not None
    answers_of = {"dev": answers, "test": answers}
    if dev is None:
        dev, answers_of["dev"] = folder / DEV, answers or _trained_answers(folder, ranker.config.training)
    data = {
        split: source
        if isinstance(source, Dataset)
        else read_with_wordings(
            source, split, wordings=wordings, answers=answers_of[split], match=trained_match(ranker), columns=columns
        )
        for split, source in (("dev", dev), ("test", test))
        if source is not None
    }
    precisions, warnings = _reachable(precisions, data["dev"])
    for dataset in data.values():
        warnings += easy_warnings(dataset, ranker.seen_in_training([question.text for question in dataset.questions]))
        warnings += [f"{count:,} {reason}" for reason, count in dataset.notes.items()]
    hidden = {
        split: (share or HIDDEN_SHARE) if len(dataset.answerable) == len(dataset.questions) else None
        for split, dataset in data.items()
    }
    if share is not None and not any(hidden.values()):
        raise InputError(
            f"{data['dev'].name}: it has questions without a right answer, so share, which is for data without them, "
            "has no effect. Leave it out."
        )
    rankings = {split: rank(ranker, dataset) for split, dataset in data.items()}
    candidates = {
        split: float(np.mean([len(right) for right in kinds[MODEL].right])) for split, kinds in rankings.items()
    }
    for split, hidden_share in hidden.items():
        if hidden_share is not None:
            rankings[split] = {kind: with_hidden(ranked, hidden_share) for kind, ranked in rankings[split].items()}
    fits = {kind: fit(ranked, precisions) for kind, ranked in rankings["dev"].items()}
    reports = {
        split: SplitReport(
            dataset.name,
            len(dataset.questions),
            len(dataset.questions) - len(dataset.answerable),
            hidden[split],
            {kind: measure(fits[kind], ranked, precisions) for kind, ranked in rankings[split].items()},
            candidates[split],
        )
        for split, dataset in data.items()
    }
    return _write(folder, fits, CalibrationReport(reports, ["config.json"], list(dict.fromkeys(warnings))))


def _check(folder: Path, precisions: Sequence[float] | None, share: float | None) -> None:
    if precisions is not None and not (precisions and all(0 < value < 1 for value in precisions)):
        raise InputError(f"Expected precisions between 0 and 1, such as 0.9; found {list(precisions)}.")
    if share is not None and not 0 < share < 1:
        raise InputError(f"Expected a share above 0 and below 1, found {share:g}.")
    restore(folder)
    if not folder.is_dir():
        raise InputError(
            f"Expected a checkpoint folder on this machine, as calibrate writes into it; found none at "
            f"{str(folder)!r}. Download one from the hub first: hf download NAME --local-dir DIR"
        )


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


def _trained_answers(folder: Path, training: Mapping[str, Any]) -> Path | None:
    """The FAQ of the questions that training has set aside: the file with the answers of its training."""
    if not (folder / DEV).is_file():
        raise InputError(
            f"{folder}: expected questions that training has set aside ({DEV}), found none: it was given dev "
            f"questions, or is of an earlier version. Name some: ap-ranker calibrate {folder} DEV"
        )
    faq = str(training.get("answers") or "")
    if faq and not Path(faq).is_file():
        raise InputError(
            f"{folder}: expected the FAQ of its training at {faq!r}, found no file. Name it: --answers FAQ.csv"
        )
    return Path(faq) if faq else None  # none: candidates that were judged one by one


def _reachable(wanted: Sequence[float] | None, dev: Dataset) -> tuple[list[float], list[str]]:
    """The target precisions to calibrate for, and warnings about those of `PRECISIONS` that are left out."""
    found = len(dev.answerable)
    precisions = sorted(set(wanted or PRECISIONS))
    refused = [precision for precision in precisions if found < questions_needed(precision)]
    if refused and (wanted or refused == precisions):
        precision = refused[-1 if wanted else 0]
        raise InputError(
            f"{dev.name}: expected at least {questions_needed(precision):,} questions with a right answer to calibrate "
            f"for precision {key(precision)}, found {found:,}: even if all were answered right, that could be chance. "
            "Add questions, or choose a lower --precision."
        )
    return [precision for precision in precisions if precision not in refused], [
        f"precision {key(precision)} left out: it needs {questions_needed(precision):,} questions, found {found:,}."
        for precision in refused
    ]
