"""Compares the search with a new checkpoint with the one before it, on the dev questions of its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.evaluation.calibration_fit import Rankings, entry_background, fit, with_hidden
from ap_ranker.evaluation.cross_fitting import others
from ap_ranker.evaluation.dev_choice import DevChoice
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.models.registry import model_spec
from ap_ranker.ranking.decision import Decider
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration, Signals, Weights, rank
from ap_ranker.ranking.verdict import Verdict
from ap_ranker.text.near_copies import near_groups
from ap_ranker.training.calibrate import PRECISIONS
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.prior_calibration import prior_calibration
from ap_ranker.training.progress import quiet
from ap_ranker.training.recommendation import Served, verdict
from ap_ranker.training.untrained import write_untrained

UNTRAINED, WORDS_ALONE = "untrained", "BM25"
"""Names of the searches before any training: by the pretrained encoder, and without one."""

MOST_ANSWERS = 5_000
"""Number of candidates that are encoded by the search before: with more, fewer questions are compared."""

HIDDEN = 0.1
"""Share of the questions without an answer, as `calibrate` assumes."""


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
        return cls(ranker.source, ranker, int(training.get("pairs", 0)) if training.get("epochs") != 0 else 0)

    def new_to_it(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """(Q,) whether it has neither learnt from a question or a near copy, nor was chosen by it.

        Of a checkpoint that does not say so, none counts as new.
        """
        if self.ranker is None or self.ranker.config is None or self.ranker.config.training.get("epochs") == 0:
            return np.ones(len(texts), dtype=bool)
        seen = self.ranker.near_training(texts)
        if seen is None:
            return np.zeros(len(texts), dtype=bool)
        chosen = self.ranker.chosen_by(texts) or [False] * len(texts)
        return ~(np.array(seen, dtype=bool) | np.array(chosen, dtype=bool))

    def served(self, evaluation_set: EvaluationSet) -> Served:
        """What it gives the questions of a set."""
        if self.ranker is None:
            nothing = np.zeros(len(evaluation_set.questions), dtype=bool)
            return Served(nothing, nothing, evaluation_set.bm25_each["MRR"])
        own = evaluation_set.with_language(self.ranker.bm25_language)
        signals = with_backgrounds(own, own.signals(own.scores(self.ranker)), self.ranker)
        return Served.of(signals, own.right, [self.ranker.decider()] * len(signals))


def untrained_search(folder: Path, data: Dataset, config: TrainingConfig, device: str | None) -> SearchBefore:
    """The search before any training, written into a folder, with the encoder of the model, or else the default one."""
    options: Mapping[str, Any] = {}
    if model_spec(config.model).pretrained:
        options = {name: value for name, value in config.options.items() if name not in ("frozen", "trained_layers")}
    texts = [answer.text for answer in data.answers]
    wordings = [list(answer.wordings) for answer in data.answers]
    stored = sum(map(bool, wordings)) > len(wordings) / 2
    for question in data.questions:
        for row in question.positives:
            wordings[row].append(question.text)
    try:
        with quiet("ap_ranker"):  # the training has told what there is to tell of the texts
            write_untrained(folder, texts, config.language, stored=stored, options=options, wordings=wordings)
    except InputError:  # without the default encoder, there is no such search
        return SearchBefore(WORDS_ALONE, None)
    return SearchBefore(UNTRAINED, Ranker.from_pretrained(folder, device))


def verdict_of_training(
    choice: DevChoice, ranker: Ranker, data: Dataset, config: TrainingConfig, before: Ranker | None, device: str | None
) -> Verdict:
    """Compare what `choice` has found with the search before, that of a checkpoint or else the untrained one.

    Both are asked the dev questions that are new to them; what was trained decides each by an epoch, by weights and by
    a calibration that others have chosen.
    """
    whole = choice.best.evaluation_set
    texts = [question.text for question in whole.questions]
    with TemporaryDirectory(prefix="ap-ranker-") as folder:
        if before is None:
            earlier = untrained_search(Path(folder) / "untrained", data, config, device)
        else:
            earlier = SearchBefore.of(before)
        rows = _compared(whole, earlier.new_to_it(texts))
        asked = _subset(whole, rows)
        was = earlier.served(asked) if rows else Served.of([], [], [])
    prior = prior_calibration(ranker, whole.dataset.answers)
    signals = with_backgrounds(whole, whole.signals(choice.cross_fitted.scores), ranker)
    deciders = _deciders(choice, ranker, prior)
    now = Served.of([signals[row] for row in rows], [whole.right[row] for row in rows], [deciders[row] for row in rows])
    groups = near_groups([texts[row] for row in rows]).tolist() if rows else []
    return verdict(was, now, groups, earlier.name, learnt=data.pairs, learnt_before=earlier.learnt)


def with_backgrounds(evaluation_set: EvaluationSet, signals: Sequence[Signals], ranker: Ranker) -> list[Signals]:
    """The signals of a set's questions, with what the entries score for questions about other matters."""
    return [
        replace(of_question, background=entry_background(ranker, evaluation_set.dataset, rows))
        for of_question, rows in zip(signals, evaluation_set.pools, strict=True)
    ]


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
    return EvaluationSet(data, unanswerable=True, as_new=whole.as_new, language=whole.language)


def _deciders(choice: DevChoice, ranker: Ranker, prior: Mapping[str, Calibration]) -> list[Decider]:
    """One for each question: its weights, and a calibration that is fitted to the other parts of the questions."""
    total = len(choice.best.evaluation_set.questions)
    deciders = [_decider(choice, ranker, prior, choice.best.number, choice.weights, np.arange(total))] * total
    crossed = choice.cross_fitted
    for part in choice.parts:
        epoch, weights = crossed.epochs[part[0]], crossed.weights[part[0]]
        decider = _decider(choice, ranker, prior, epoch, weights, others(part, total))
        for row in part.tolist():
            deciders[row] = decider
    return deciders


def _decider(
    choice: DevChoice,
    ranker: Ranker,
    prior: Mapping[str, Calibration],
    number: int,
    weights: Weights,
    rows: NDArray[np.int64],
) -> Decider:
    """By an epoch and weights, with a calibration that is fitted to some rows, or the prior where these are too few."""
    epoch = next(each for each in choice.epochs if each.number == number)
    kind = FUSED if weights.bm25 else MODEL
    evaluation_set = epoch.evaluation_set
    signals = with_backgrounds(evaluation_set, evaluation_set.signals(epoch.scores), ranker)
    ranked = [
        Signals(rank(signals[row], weights).scores, answers=signals[row].answers, background=signals[row].background)
        for row in rows.tolist()
    ]
    right = [evaluation_set.right[row] for row in rows.tolist()]
    own_prior = prior.get(kind) or prior.get(MODEL)
    rankings = Rankings(ranked, right, np.array([each.any() for each in right]), np.ones(len(ranked)))
    try:
        fitted = fit(with_hidden(rankings, HIDDEN), PRECISIONS, own_prior)
        calibration = replace(fitted, floor=None if own_prior is None else own_prior.floor)
    except InputError:  # too few of them, or nothing but right answers
        if own_prior is None:
            return Decider(ranker.source, weights, {}, ranker.model.scale, None)
        calibration = own_prior
    return Decider(ranker.source, weights, {kind: calibration}, ranker.model.scale, None)
