"""Whether a question has an answer: the one place that decides, for pages, pipelines and the command line.

answer   p >= t, or the question is a known wording: p is the probability that the first answer is right, t the
         threshold of the target precision; with a minimum score in its place, the first score reaches that
none     f - e < floor: questions about other matters score as high, so nothing is worth showing (e: `rule.py`)
maybe    everything else: worth showing, not worth asserting

What is no question, such as a greeting, `typed_rule.py` decides.

Every target precision between 0 and 1 has a threshold. Without a calibration, nothing tells how probable an answer is:
no precision can be promised, and all but a known question is a maybe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.rule import (
    FUSED,
    MODEL,
    Basis,
    Calibration,
    Numbers,
    Ranking,
    Signals,
    Weights,
    rank,
    threshold_key,
)
from ap_ranker.text.typed import Kind

PRECISION = 0.8
"""The target precision of a search that names none: four of five asserted answers are right."""


@dataclass(frozen=True)
class Decision:
    """The outcome for a question, the probability that its first answer is right, and what that rests on.

    The probability is `None` without a calibration or candidates. `is_fused`: BM25's score is a part of it, for which
    there is a calibration of its own. `kind` is what was typed; of a question in another language than the FAQ's,
    `language` is the code of that one.
    """

    outcome: Outcome
    probability: float | None
    basis: Basis
    is_fused: bool = False
    kind: Kind = Kind.QUESTION
    language: str | None = None

    def as_json(self) -> dict[str, Any]:
        """What users see of it, as basic types."""
        return {
            "outcome": str(self.outcome),
            "probability": self.probability,
            "basis": str(self.basis),
            "kind": str(self.kind),
            "language": self.language,
        }


@dataclass(frozen=True)
class Decider:
    """Ranks by the checkpoint's weights, converts scores to probabilities, and decides what is returned.

    `source` is the checkpoint's name, for messages; `scale` maps the model's scores to 0..1 without a calibration,
    where `floor` is the minimum score of what is worth showing, if it is known.
    """

    source: str
    weights: Weights
    calibrations: Mapping[str, Calibration]
    scale: Callable[[Tensor], Tensor]
    floor: float | None = None

    def answer(
        self,
        signals: Signals,
        *,
        top_k: int | None = None,
        scale_score: bool = True,
        score_threshold: float | None = None,
        precision: float | None = None,
        offer: bool = False,
    ) -> tuple[list[tuple[int, float]], Decision]:
        """The candidates to return, best first, each with its score, and the decision; ties keep the given order.

        The decision depends on the two best different candidates alone; its target is `PRECISION` where none is given.

        Args:
            signals: what is known of the candidates. No threshold leaves out those of which the question is a known
                wording, word for word: a score below the threshold is raised to it.
            top_k: maximum number of answers; `None` for no limit.
            scale_score: return scores from 0 to 1: probabilities, if there is a calibration.
            score_threshold: leave out lower scores, after scaling; an answer's score reaches it.
            precision: target precision: leave out probabilities below the threshold that was calibrated for it, and
                all of them where the decision is no answer.
            offer: leave out only what `score_threshold` does beside an answer: all else may be worth showing, as a
                maybe or below the answer.

        Raises:
            ValueError: both thresholds are given.
        """
        check_limits(score_threshold, precision)
        fused = signals.uses_bm25(self.weights)
        ranking = rank(signals, self.weights, self.calibration(fused=fused))
        least = self.threshold(PRECISION if precision is None else precision, fused=fused)
        scores = self._scaled(ranking, fused=fused) if scale_score else ranking.scores
        reached = None if score_threshold is None else scores >= score_threshold
        decision = self._decision(signals, ranking, least, reached)
        decision = _of_typed(decision, signals, ranking)
        returned = scores
        is_kept = np.ones(len(scores), bool)
        exact = signals.is_exact
        if precision is not None and not offer:
            is_kept = exact
            if decision.outcome is Outcome.ANSWER and ranking.probabilities is not None:
                is_kept = exact | (ranking.probabilities >= least)
        if score_threshold is not None and (decision.outcome is Outcome.ANSWER or not offer):
            is_kept = exact | (scores >= score_threshold)
            raised = min(score_threshold, 1.0) if scale_score else score_threshold
            returned = np.where(exact, np.maximum(scores, raised), scores)
        rows = ranking.order[is_kept[ranking.order]][:top_k]
        return list(zip(rows.tolist(), returned[rows].tolist(), strict=True)), decision

    def _decision(
        self, signals: Signals, ranking: Ranking, least: float, reached: NDArray[np.bool_] | None
    ) -> Decision:
        """As at the head of this file; `least` is t; `reached` (N,), whether scores reach theirs, is in its place."""
        if not len(ranking.order):
            return Decision(Outcome.NONE, None, Basis.NOTHING)
        is_fused = signals.uses_bm25(self.weights)
        calibration = self.calibration(fused=is_fused)
        first = ranking.order[0]
        probability = None if ranking.probabilities is None else float(ranking.probabilities[first])
        if signals.is_exact[first]:
            return Decision(Outcome.ANSWER, probability, Basis.EXACT, is_fused)
        basis = Basis.NOTHING if calibration is None else calibration.basis
        floor = self.floor if calibration is None else calibration.floor
        if floor is not None and ranking.scores[first] - ranking.excess < floor:
            return Decision(Outcome.NONE, probability, basis, is_fused)
        is_answer = probability is not None and probability >= least
        if reached is not None:
            is_answer = bool(reached[first])
        return Decision(Outcome.ANSWER if is_answer else Outcome.MAYBE, probability, basis, is_fused)

    def with_precision(self, decision: Decision, precision: float) -> Decision:
        """The decision on the same ranking with another target precision, whatever it was made with.

        `none` stays `none`, and a known question an answer. What is no question is never asserted that was not: why it
        was a maybe is not known here. Nor is the language of a question that was an answer and becomes a maybe.
        """
        least = self.threshold(precision, fused=decision.is_fused)
        if decision.basis is Basis.EXACT or decision.outcome is Outcome.NONE:
            return decision
        is_answer = decision.probability is not None and decision.probability >= least
        if not is_answer:
            return replace(decision, outcome=Outcome.MAYBE)
        if decision.kind in (Kind.QUESTION, Kind.LANGUAGE):
            return replace(decision, outcome=Outcome.ANSWER, kind=Kind.QUESTION, language=None)
        return decision

    def _scaled(self, ranking: Ranking, *, fused: bool) -> Numbers:
        if ranking.probabilities is not None:
            return ranking.probabilities
        scores = torch.from_numpy(ranking.scores)  # without a calibration, any map to 0..1 that keeps the order
        return (0.5 + scores.atan() / math.pi if fused else self.scale(scores)).numpy()

    @property
    def served(self) -> Calibration | None:
        """The calibration of the scores that answers are ranked by: of fused ones if BM25's are added."""
        return self.calibration(fused=self.weights.bm25 != 0)

    def threshold(self, precision: float, *, fused: bool) -> float:
        """The minimum probability of an answer; without a calibration, there is no probability that reaches it."""
        calibration = self.calibration(fused=fused)
        return math.inf if calibration is None else calibration.threshold(precision)

    def calibration(self, *, fused: bool) -> Calibration | None:
        """That of the model's scores, or of those with BM25's added; `None` if there is none."""
        return self.calibrations.get(FUSED if fused else MODEL)


def _of_typed(decision: Decision, signals: Signals, ranking: Ranking) -> Decision:
    """The decision on what was typed, which may be no question, or one in another language than the FAQ's."""
    if decision.basis is Basis.EXACT:
        return decision
    if signals.typed is not None:
        first = int(ranking.order[0]) if len(ranking.order) else 0
        outcome, kind = signals.typed.decide(decision.outcome, first, has_own=bool(signals.is_own.any()))
        return replace(decision, outcome=outcome, kind=kind)
    if decision.outcome is Outcome.ANSWER or signals.language is None:
        return decision
    language = signals.language()
    if language is None:
        return decision
    return replace(decision, kind=Kind.LANGUAGE, language=language)


def check_limits(score_threshold: object, precision: object) -> None:
    """Raise InputError if a threshold is no number, or the precision none between 0 and 1; ValueError for both.

    The lowest threshold may be infinite, the highest may not: a known question reaches it, and has it as its score.
    """
    if not (score_threshold is None or (_is_number(score_threshold) and score_threshold < math.inf)):
        raise InputError(f"Expected score_threshold as a number, such as 0.5, found {score_threshold!r}.")
    if not (precision is None or (_is_number(precision) and 0 < precision < 1)):
        written = repr(precision)
        percent = ""
        if _is_number(precision):
            written = threshold_key(precision)
            if 1 < precision < 100:
                percent = f" For {written} %, write {precision / 100:g}."
        raise InputError(f"Expected precision as a number between 0 and 1, such as 0.9, found {written}.{percent}")
    if score_threshold is not None and precision is not None:
        raise ValueError(f"Expected score_threshold or precision, found both: {score_threshold} and {precision}.")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
