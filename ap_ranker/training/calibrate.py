"""Calibrates a checkpoint: fits the probability that an answer is right, and thresholds to return no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset, leave_one_out
from ap_ranker.data.faq import read_faq
from ap_ranker.data.reader import find_split
from ap_ranker.data.split import DEV
from ap_ranker.data.wordings import NO_WORDINGS, read_with_wordings, read_wordings, searched_faq, with_wordings
from ap_ranker.errors import InputError
from ap_ranker.evaluation.calibration_fit import (
    HIDDEN,
    Certainty,
    CrossFit,
    Fit,
    Rankings,
    cross_fits,
    cross_measure,
    fit_with_certainty,
    has_a_wording_left,
    measure,
    prior_fit,
    rankings_by_kind,
    with_hidden,
    with_random_questions,
    without_random_questions,
)
from ap_ranker.evaluation.evaluate import trained_match
from ap_ranker.evaluation.evaluation_set import easy_warnings
from ap_ranker.files import restore, write_text_atomically
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.checkpoint import CARD, CheckpointConfig, write_calibration
from ap_ranker.ranking.decision import PRECISION
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Basis, Calibration, threshold_key
from ap_ranker.training.calibration_gain import CalibrationGain
from ap_ranker.training.card import calibration_section, card_with_calibration
from ap_ranker.training.prior_calibration import prior_calibration

SCORES = {MODEL: "the model's score", FUSED: "BM25's score added"}
"""Kind of score -> its name in words."""

PRECISIONS = (0.8, 0.9, 0.95)


@dataclass(frozen=True)
class SplitReport:
    """What `measure` tells of each kind of score on one set of questions; the mean number of their candidates.

    If no question is unanswerable, each counts again with its right answers hidden, `hidden_share` of the total.
    """

    title: str
    data: str
    n_questions: int
    unanswerable: int
    hidden_share: float | None
    scores: Mapping[str, Mapping[str, Any]]
    candidates: float

    @property
    def title_of_card(self) -> str:
        """The title, with what tells how questions are counted."""
        if self.hidden_share is None:
            return self.title
        return f"{self.title}; each is counted again with its right answers hidden"


@dataclass(frozen=True)
class CalibrationReport:
    """What `calibrate` measured on `dev` and, if given, `test`; the files it wrote; what to be wary of, in words.

    `certainty` tells for the `key` of each target precision, of the score that answers are ranked by, how sure its
    threshold is. `gain` compares with what was learnt from other FAQs, or from the FAQ's own wordings, at the default
    target precision: `None` if nothing was learnt, or if the questions chose the checkpoint. Where it is a loss, the
    checkpoint stays as it was, and `files` is empty.
    """

    splits: Mapping[str, SplitReport]
    files: Sequence[str]
    warnings: Sequence[str]
    precisions: Sequence[float]
    certainty: Mapping[str, Certainty]
    gain: CalibrationGain | None

    def as_json(self) -> dict[str, Any]:
        """Split -> kind of score -> what `measure` tells of it."""
        return {split: dict(report.scores) for split, report in self.splits.items()}


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
    on_progress: Progress = untold,
) -> CalibrationReport:
    """Fit the probability that an answer is right, and thresholds below which no answer is returned.

    Both are written to the checkpoint's `config.json` and model card, each atomically. `Ranker.rank` and `AnswerRanker`
    then return probabilities and accept these target precisions.

    The questions, data sets, files or folders, are `dev` to fit to, by default those that training has set aside
    (`dev.jsonl` in the checkpoint), and `test` to measure on, if there are others. Without any, the known wordings of
    the FAQ `answers` are asked, each as if nobody had known it. One question is enough: what was learnt from other FAQs
    counts beside them, the less the more questions there are. `certainty` of the report says how much they tell.
    Questions that are the only wording of their entry are left out (`has_a_wording_left`); where all are, what was
    learnt from other FAQs stays.

    What is told of `dev` is measured on each question by a fit to the others, none of which is a near copy of it. If
    the search would be worse than without them, nothing is written (`gain`).

    Some questions should be unanswerable; if none is, right answers are hidden, so that a `share` of them (.1) is.
    `precisions` are target shares of right answers among those returned, by default `PRECISIONS`; others lie between
    these (`Calibration.threshold`). `answers` (the FAQ of the training), `wordings` (`train.*` of a folder), `device`
    and `columns` are as for `evaluate`. `on_progress` gets the step in words, how many answers are read, and their
    number.

    Raises:
        InputError: no such checkpoint on this machine, unusable data, no question, a number out of range.
        WriteError: the checkpoint cannot be written.
    """
    folder = Path(checkpoint)
    _check_shares("precisions", precisions)
    _check_shares("share", None if share is None else [share])
    restore(folder)
    if not folder.is_dir():
        raise InputError(
            f"Expected a checkpoint folder on this machine, as calibrate writes into it; found none at "
            f"{str(folder)!r}. Download one from the hub first: hf download NAME --local-dir DIR"
        )
    ranker = Ranker.from_pretrained(folder, device)
    assert ranker.config is not None
    basis = Basis.QUESTIONS
    answers_of_dev = answers
    read = partial(read_with_wordings, wordings=wordings, match=trained_match(ranker), columns=columns)
    if dev is None and answers is not None and not (folder / DEV).is_file():
        dev = _wordings_as_questions(answers, ranker, wordings=wordings, columns=columns)
        basis = Basis.WORDINGS
    elif dev is None:
        dev = folder / DEV
        answers_of_dev = answers or _trained_answers(folder, ranker.config.training)
    data = {"dev": read(dev, "dev", answers=answers_of_dev)}
    if test is not None:
        data["test"] = read(test, "test", answers=answers)
    if not isinstance(dev, Dataset) and find_split(Path(dev), "train"):
        data["dev"] = with_wordings(data["dev"], data["dev"])  # the FAQ that is searched has them, as in training
    if share is not None and all(_has_unanswerable(dataset) for dataset in data.values()):
        raise InputError(
            f"{data['dev'].name}: expected a right answer to each question beside share, found questions without one. "
            "Leave share out."
        )
    prior = _prior_of(ranker.config, basis) or prior_calibration(ranker, data["dev"].answers)
    is_usable = has_a_wording_left(data["dev"])
    warnings: list[str] = []
    if not is_usable.all():
        warnings.append(_left_out(is_usable))
    if is_usable.any():
        data["dev"] = replace(data["dev"], questions=[*compress(data["dev"].questions, is_usable)])
    ranked = {split: _Ranked.of(dataset, ranker, share, on_progress) for split, dataset in data.items()}
    targets = sorted(set(precisions or PRECISIONS))
    fitted_targets = sorted({*targets, PRECISION})  # at which searches are compared, and asked unless one is named
    if is_usable.any() or not prior.keys() >= ranked["dev"].rankings.keys():
        fitted = _Fitted.to(ranked["dev"], fitted_targets, prior, basis)
    else:
        fitted = _Fitted.of_prior({kind: prior[kind] for kind in ranked["dev"].rankings})
    crossed = ranked["dev"].cross_fits(fitted, fitted_targets, prior)
    gain = _gain(ranker, ranked["dev"], crossed, prior)
    splits: dict[str, SplitReport] = {}
    for split, own in ranked.items():
        warnings += own.warnings(ranker)
        splits[split] = own.report(fitted, crossed if split == "dev" else None)
    last = list(splits.values())[-1]
    section = calibration_section(questions=last.title_of_card, scores=SCORES, measured=last.scores)
    files: list[str] = []
    if gain is None or not gain.is_loss:
        files = _write(folder, section, faq=data["dev"], fits=fitted.calibrations, prior=prior)
    return CalibrationReport(
        splits=splits,
        files=files,
        warnings=list(dict.fromkeys(warnings)),
        precisions=targets,
        certainty=fitted.certainty(ranked["dev"], targets),
        gain=gain,
    )


def _gain(
    ranker: Ranker, dev: _Ranked, crossed: Mapping[str, Sequence[CrossFit]], prior: Mapping[str, Calibration]
) -> CalibrationGain | None:
    """Compared with what decides without these questions, of the score that answers are ranked by.

    An earlier calibration on questions is not compared with: it may have been fitted to the same ones.
    """
    kind = FUSED if ranker.decider().weights.bm25 else MODEL
    if kind not in prior or not crossed.get(kind):
        return None
    if any(ranker.chosen_by(dev.data.question_texts) or []):  # with those, the training has compared the searches
        return None
    return CalibrationGain.of(prior[kind], crossed[kind])


def _check_shares(name: str, values: Sequence[float] | None) -> None:
    """InputError if numbers are named, unless there are some and all lie between 0 and 1."""
    if values is not None and not (values and all(0 < value < 1 for value in values)):
        raise InputError(f"Expected {name} between 0 and 1, such as 0.9; found {list(values)}.")


def _has_unanswerable(dataset: Dataset) -> bool:
    return len(dataset.answerable) < len(dataset.questions)


@dataclass(frozen=True)
class _Ranked:
    """The questions of a split: of each kind of score their rankings, and the floor of what is worth showing.

    Where the data has an answer to each question, `rankings` also have the questions with their answers `hidden`, as
    this share of all; `asked` are those without.
    """

    data: Dataset
    asked: Mapping[str, Rankings]
    rankings: Mapping[str, Rankings]
    floors: Mapping[str, float | None]
    hidden: float | None

    @classmethod
    def of(cls, dataset: Dataset, ranker: Ranker, share: float | None, on_progress: Progress) -> _Ranked:
        """Rank all candidates of each question, and of the questions about other matters."""
        hidden = None if _has_unanswerable(dataset) else share or HIDDEN
        count = len(dataset.questions)
        everything = rankings_by_kind(
            ranker, with_random_questions(dataset), partial(on_progress, "reading the answers")
        )
        asked: dict[str, Rankings] = {}
        floors: dict[str, float | None] = {}
        for kind, with_random in everything.items():
            asked[kind], floors[kind] = without_random_questions(with_random, count)
        rankings = asked
        if hidden is not None:
            rankings = {kind: with_hidden(own, hidden) for kind, own in asked.items()}
        return cls(dataset, asked, rankings, floors, hidden)

    def warnings(self, ranker: Ranker) -> list[str]:
        """Why the questions may be too easy; how many rows of the data were left out or merged, with the reason."""
        notes = [f"{count:,} {reason}" for reason, count in self.data.notes.items()]
        return [*easy_warnings(self.data, ranker.seen_in_training(self.data.question_texts)), *notes]

    def report(self, fitted: _Fitted, crossed: Mapping[str, Sequence[CrossFit]] | None) -> SplitReport:
        """What the calibrations do on these questions; by cross-fitting (`crossed`), if they are fitted to them."""
        count = len(self.data.questions)
        unanswerable = count - len(self.data.answerable)
        title = f"{count:,} questions of {self.data.name}"
        measured: dict[str, Mapping[str, Any]] = {}
        for kind, rankings in self.rankings.items():
            calibration = fitted.calibrations[kind]
            if crossed:
                measured[kind] = cross_measure(calibration, crossed[kind])
            else:
                measured[kind] = measure(calibration, rankings)
        if crossed:
            title += ", each by a fit to others"
        elif crossed is not None and fitted.is_prior:
            title += ", by what was learnt from other FAQs"
        elif crossed is not None:
            title += ", fitted to them"
        candidates = float(np.mean([len(right) for right in self.rankings[MODEL].right[:count]]))
        return SplitReport(
            title=title,
            data=self.data.name,
            n_questions=count,
            unanswerable=unanswerable,
            hidden_share=self.hidden,
            scores=measured,
            candidates=candidates,
        )

    def cross_fits(
        self, fitted: _Fitted, precisions: Sequence[float], prior: Mapping[str, Calibration]
    ) -> dict[str, list[CrossFit]]:
        """Kind of score -> fits like these to parts of the questions.

        Empty if the questions cannot be divided, or if nothing was fitted to them.
        """
        if fitted.is_prior:
            return {}
        texts = self.data.question_texts
        crossed: dict[str, list[CrossFit]] = {}
        for kind, own in self.asked.items():
            calibration = fitted.calibrations[kind]
            crossed[kind] = cross_fits(calibration, own, texts, precisions, prior=prior.get(kind), hidden=self.hidden)
        return crossed if all(crossed.values()) else {}


@dataclass(frozen=True)
class _Fitted:
    """The calibration of each kind of score, and how sure it is; `is_prior`: no question was fitted to."""

    fits: Mapping[str, Fit]
    calibrations: Mapping[str, Calibration]
    is_prior: bool

    @classmethod
    def to(
        cls, ranked: _Ranked, precisions: Sequence[float], prior: Mapping[str, Calibration], basis: Basis
    ) -> _Fitted:
        """Those of these questions, with the prior beside them."""
        fits: dict[str, Fit] = {}
        calibrations: dict[str, Calibration] = {}
        for kind, rankings in ranked.rankings.items():
            fits[kind] = fit_with_certainty(rankings, precisions, prior.get(kind))
            calibrations[kind] = replace(fits[kind].calibration, floor=ranked.floors[kind], basis=basis)
        return cls(fits, calibrations, False)

    @classmethod
    def of_prior(cls, prior: Mapping[str, Calibration]) -> _Fitted:
        """What was learnt from other FAQs, as it is."""
        fits = {kind: prior_fit(calibration) for kind, calibration in prior.items()}
        return cls(fits, prior, True)

    def certainty(self, ranked: _Ranked, precisions: Sequence[float]) -> dict[str, Certainty]:
        """How sure each threshold is, of the score that answers are ranked by: the last kind."""
        kind = list(self.fits)[-1]
        rankings = ranked.rankings[kind]
        return {threshold_key(precision): self.fits[kind].certainty(rankings, precision) for precision in precisions}


def _left_out(is_usable: NDArray[np.bool_]) -> str:
    """Which dev questions say nothing of users' ones, and what that means."""
    left_out = int((~is_usable).sum())
    reason = (
        f"{left_out:,} of {len(is_usable):,} questions are the only wording of their entry, so they are harder than "
        "what users ask. "
    )
    if is_usable.any():
        return reason + "They are left out."
    return reason + "What was learnt from other FAQs stays the calibration. Questions of users would make it surer."


def _write(
    folder: Path, section: str, *, faq: Dataset, fits: Mapping[str, Calibration], prior: Mapping[str, Calibration]
) -> list[str]:
    """Write what was fitted on a FAQ into its checkpoint and card, and return the names of these files."""
    card = card_with_calibration(folder, section)
    write_calibration(folder, calibration=fits, prior=prior, faq=FAQSketch.with_language(faq.answer_texts))
    if card is None:
        return ["config.json"]
    write_text_atomically(folder / CARD, card)
    return ["config.json", CARD]


def _prior_of(config: CheckpointConfig, basis: Basis) -> dict[str, Calibration]:
    """What counts beside what is fitted to: never an earlier fit of the same kind, so that no question counts twice."""
    earlier = [Basis.PRIOR] if basis is Basis.WORDINGS else [Basis.PRIOR, Basis.WORDINGS]
    prior: dict[str, Calibration] = {}
    for kind, calibration in (*config.prior.items(), *config.calibration.items()):
        if calibration.basis in earlier:
            prior[kind] = calibration
    return prior


def _wordings_as_questions(
    faq: Path, ranker: Ranker, *, wordings: str | Path | None, columns: tuple[str, str] | None
) -> Dataset:
    """A FAQ's own further wordings as questions to its entries as they are searched; InputError if there are none."""
    known_wordings = NO_WORDINGS if wordings is None else read_wordings(wordings)
    data = leave_one_out(searched_faq(str(faq), read_faq(faq, columns), trained_match(ranker), known_wordings))
    if not data.questions:
        raise InputError(
            f"{faq}: expected wordings of entries beside their stored questions, found none. Add some in a column "
            "wordings, or name questions of users: ap-ranker calibrate CHECKPOINT DEV.csv"
        )
    return replace(data, answers_file="")  # no warning that a search may have more answers: these are all


def _trained_answers(folder: Path, training: Mapping[str, Any]) -> Path | None:
    """The FAQ of the questions that training has set aside; `None` if their candidates were judged one by one."""
    if not (folder / DEV).is_file():
        raise InputError(
            f"{folder}: expected questions that training has set aside ({DEV}), found none: it was given dev "
            f"questions, or there was no training. Name some: ap-ranker calibrate {folder} DEV"
        )
    faq = Path(str(training["answers"])) if training.get("answers") else None
    if faq and not faq.is_file():
        raise InputError(f"{folder}: expected the FAQ of its training, {faq}, found none. Name it: --answers FAQ.csv")
    return faq
