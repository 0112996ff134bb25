"""Compares the search with a new checkpoint with the one before it, on the dev questions of its training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.evaluation.calibration_fit import (
    HIDDEN,
    Rankings,
    by_ranked_scores,
    entry_background,
    fit,
    has_a_wording_left,
    lowered_floor,
    with_hidden,
)
from ap_ranker.evaluation.cross_fitting import others
from ap_ranker.evaluation.dev_choice import DevChoice, Epoch
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.models.registry import model_spec
from ap_ranker.progress import quiet
from ap_ranker.ranking.decision import Decider
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration, Signals, Weights
from ap_ranker.ranking.verdict import Verdict
from ap_ranker.text.near_copies import near_any, near_groups
from ap_ranker.training.calibrate import PRECISIONS
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.recommendation import Served, verdict
from ap_ranker.training.untrained import untrained_ranker

UNTRAINED = "untrained"
WORDS_ALONE = "BM25"
"""Names of the searches before any training: by the pretrained encoder, and without one."""

MOST_ANSWERS = 5_000
"""Number of candidates that are encoded by the search before: with more, fewer questions are compared."""


@dataclass(frozen=True)
class SearchBefore:
    """A search that a new checkpoint may replace; `None` for the ranker where no encoder is at hand: BM25 alone.

    `learnt` is the number of questions that it has learnt from.
    """

    name: str
    ranker: Ranker | None
    learnt: int = 0

    @classmethod
    def of(cls, ranker: Ranker) -> SearchBefore:
        """That of a checkpoint."""
        assert ranker.config is not None
        training = ranker.config.training
        learnt = 0
        if training.get("epochs") != 0:
            learnt = int(training.get("pairs", 0))
        return cls(ranker.source, ranker, learnt)

    def new_to_it(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """(Q,) whether it has neither learnt from a question or a near copy, nor was chosen by it.

        Of a checkpoint that does not say so, none counts as new.
        """
        if self.ranker is None:
            return np.ones(len(texts), dtype=bool)
        chosen = self.ranker.chosen_by(texts) or [False] * len(texts)
        return ~(has_learnt_from(self.ranker, texts) | np.array(chosen, dtype=bool))

    def served(self, evaluation_set: EvaluationSet) -> Served:
        """What it gives the questions of a set."""
        if self.ranker is None:
            nothing = np.zeros(len(evaluation_set.questions), dtype=bool)
            return Served(nothing, nothing, evaluation_set.bm25_each["MRR"])
        own = evaluation_set.with_language(self.ranker.bm25_language)
        signals = _signals(own, own.scores(self.ranker), self.ranker)
        return Served.of(signals, own.right, [self.ranker.decider()] * len(signals))


def has_learnt_from(ranker: Ranker, texts: Sequence[str]) -> NDArray[np.bool_]:
    """(Q,) whether a checkpoint has learnt from each question or a near copy; from all, if it does not say."""
    if ranker.config is None or ranker.config.training.get("epochs") == 0:
        return np.zeros(len(texts), dtype=bool)
    near = ranker.near_training(texts)
    if near is None:
        return np.ones(len(texts), dtype=bool)
    return np.array(near, dtype=bool)


def untrained_search(data: Dataset, config: TrainingConfig, device: str | None) -> SearchBefore:
    """The search before any training, with the encoder of the model, or else the default one."""
    options: Mapping[str, Any] = {}
    if model_spec(config.model).pretrained:
        options = {name: value for name, value in config.options.items() if name not in ("frozen", "trained_layers")}
    wordings = [list(answer.wordings) for answer in data.answers]
    for question in data.questions:
        for row in question.positives:
            wordings[row].append(question.text)
    try:
        ranker = _untrained_ranker(
            tuple(data.answer_texts),
            tuple(map(tuple, wordings)),
            language=config.language,
            stored=_have_questions(data),
            options=json.dumps(options, sort_keys=True),
            device=device,
        )
    except InputError:  # without the default encoder, there is no such search
        return SearchBefore(WORDS_ALONE, None)
    return SearchBefore(UNTRAINED, ranker)


@lru_cache(maxsize=1)  # `compare` and `tune` train many models of the same texts
def _untrained_ranker(
    texts: tuple[str, ...],
    wordings: tuple[tuple[str, ...], ...],
    *,
    language: str | None,
    stored: bool,
    options: str,
    device: str | None,
) -> Ranker:
    with quiet("ap_ranker"):  # the training has told what there is to tell of the texts
        return untrained_ranker(
            texts, language, stored=stored, options=json.loads(options), wordings=wordings, device=device
        )


def _signals(evaluation_set: EvaluationSet, scores: CandidateScores, ranker: Ranker) -> list[Signals]:
    """What is known of the candidates of each question, as in a search: also what entries score for other matters."""
    with_background: list[Signals] = []
    for signals, rows in zip(evaluation_set.signals(scores), evaluation_set.pools, strict=True):
        background_of = entry_background(ranker, evaluation_set.dataset, rows)
        with_background.append(replace(signals, background_of=background_of))
    return with_background


@dataclass(frozen=True)
class TrainedSearch:
    """What was trained, on the dev questions: each by an epoch, weights and a calibration that others have chosen.

    `prior` is the calibration of each kind of score without any question.
    """

    choice: DevChoice
    ranker: Ranker
    prior: Mapping[str, Calibration]

    def served(self, rows: Sequence[int]) -> Served:
        """What it gives some of the dev questions."""
        whole = self.choice.best.evaluation_set
        deciders = self.deciders()
        signals = _signals(whole, self.choice.cross_fitted.scores, self.ranker)
        right_of_rows = [whole.right[row] for row in rows]
        return Served.of([signals[row] for row in rows], right_of_rows, [deciders[row] for row in rows])

    def deciders(self) -> list[Decider]:
        """That of each question; where all are near copies of each other, it is fitted to all."""
        total = len(self.choice.best.evaluation_set.questions)
        if not self.choice.parts:
            best = self.choice.best
            return [self._decider(best, self._signals_of(best), self.choice.weights, np.arange(total))] * total
        crossed = self.choice.cross_fitted
        epochs = {epoch.number: epoch for epoch in self.choice.epochs}
        signals_of: dict[int, list[Signals]] = {}  # of each chosen epoch, which several parts may share
        decider_of: dict[int, Decider] = {}
        for part in self.choice.parts:
            first = part[0]  # all questions of a part have the same epoch and weights
            number = crossed.epochs[first]
            if number not in signals_of:
                signals_of[number] = self._signals_of(epochs[number])
            decider = self._decider(epochs[number], signals_of[number], crossed.weights[first], others(part, total))
            decider_of |= dict.fromkeys(part.tolist(), decider)
        return [decider_of[row] for row in range(total)]

    def _signals_of(self, epoch: Epoch) -> list[Signals]:
        return _signals(epoch.evaluation_set, epoch.scores, self.ranker)

    @cached_property
    def _is_usable(self) -> NDArray[np.bool_]:
        """(Q,) whether a dev question is one to calibrate on."""
        whole = self.choice.best.evaluation_set
        return has_a_wording_left(replace(whole.dataset, questions=whole.questions))

    def _decider(self, epoch: Epoch, signals: Sequence[Signals], weights: Weights, rows: NDArray[np.int64]) -> Decider:
        """With a calibration that is fitted to some rows of an epoch, or with the prior where there are none."""
        rows = rows[self._is_usable[rows]]
        ranked: list[Signals] = []
        right: list[NDArray[np.bool_]] = []
        for row in rows.tolist():
            ranked.append(by_ranked_scores(signals[row], weights))
            right.append(epoch.evaluation_set.right[row])
        is_answerable = np.array([is_right.any() for is_right in right])
        rankings = Rankings(ranked, right, is_answerable, np.ones(len(ranked)))
        kind = FUSED if weights.bm25 else MODEL
        prior = self.prior.get(kind) or self.prior.get(MODEL)
        floor = None
        calibrations: dict[str, Calibration] = {}
        if prior is not None:
            floor = prior.floor
            if floor is not None:
                floor = lowered_floor(floor, rankings.tops)
            calibrations = {kind: replace(prior, floor=floor)}
        with suppress(InputError):  # no questions, or nothing but right answers
            fitted = fit(with_hidden(rankings, HIDDEN), PRECISIONS, prior)
            calibrations = {kind: replace(fitted, floor=floor)}
        return Decider(self.ranker.source, weights, calibrations, self.ranker.model.scale)


def verdict_of_training(
    choice: DevChoice,
    ranker: Ranker,
    data: Dataset,
    config: TrainingConfig,
    *,
    before: Ranker | None,
    prior: Mapping[str, Calibration],
    device: str | None,
) -> Verdict:
    """Compare what `choice` has found with the search before, that of a checkpoint or else the untrained one.

    `prior` is the calibration of the new checkpoint without any question.
    Both are asked the dev questions that are new to both: near copies of what one has learnt from would flatter it.
    """
    whole = choice.best.evaluation_set
    texts = whole.question_texts
    learnt = near_any(set(texts), set(data.question_texts))
    is_new = np.array([text not in learnt for text in texts], dtype=bool)
    earlier = untrained_search(data, config, device) if before is None else SearchBefore.of(before)
    rows = _compared(whole, is_new & earlier.new_to_it(texts))
    was = Served.of([], [], [])
    groups: list[int] = []
    if rows:
        was = earlier.served(_subset(whole, rows))
        groups = near_groups([texts[row] for row in rows]).tolist()
    now = TrainedSearch(choice, ranker, prior).served(rows)
    return verdict(was, now, groups, earlier.name, learnt=data.pairs, learnt_before=earlier.learnt)


def _compared(whole: EvaluationSet, is_new: NDArray[np.bool_]) -> list[int]:
    """The rows of the new questions, as many as have `MOST_ANSWERS` candidates together."""
    rows: list[int] = []
    candidates: set[int] = set()
    for row in np.flatnonzero(is_new).tolist():
        candidates.update(whole.pools[row])
        if rows and len(candidates) > MOST_ANSWERS:
            break
        rows.append(row)
    return rows


def _subset(whole: EvaluationSet, rows: Sequence[int]) -> EvaluationSet:
    """Some of the questions, with the candidates that they have."""
    questions = [replace(whole.questions[row], candidates=tuple(whole.pools[row])) for row in rows]
    data = replace(whole.dataset, questions=questions)
    return EvaluationSet(data, as_new=whole.as_new, language=whole.language)


def _have_questions(data: Dataset) -> bool:
    """Whether most entries have a stored question."""
    return sum(bool(answer.wordings) for answer in data.answers) > len(data.answers) / 2
