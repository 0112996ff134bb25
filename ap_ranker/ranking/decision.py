"""The decision which ranked answers to return, or none: scores that users read, and thresholds for these."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration, Numbers, Ranking, Signals, Weights, key, rank


@dataclass(frozen=True)
class Decision:
    """Ranks by the checkpoint's weights, converts scores to probabilities, and drops answers below a threshold.

    `source` is the checkpoint's name, for messages; `scale` maps the model's scores to 0..1 without a calibration.
    """

    source: str
    weights: Weights
    calibrations: Mapping[str, Calibration]
    scale: Callable[[Tensor], Tensor]

    def answers(
        self,
        signals: Signals,
        *,
        top_k: int | None = None,
        scale_score: bool = True,
        score_threshold: float | None = None,
        precision: float | None = None,
    ) -> list[tuple[int, float]]:
        """The candidates to return as answers, best first, each with its score; ties keep the given order.

        Args:
            signals: what is known of the candidates. No threshold leaves out those of which the question is a known
                wording, word for word: a score below the threshold is raised to it.
            top_k: maximum number of answers; `None` for no limit.
            scale_score: return scores from 0 to 1: probabilities, if there is a calibration.
            score_threshold: leave out lower scores, after scaling.
            precision: target precision: leave out probabilities below the threshold that was calibrated for it.
        """
        check_limits(score_threshold, precision)
        ranking, fused = self.rank(signals), signals.fused(self.weights)
        scores = self._scaled(ranking, fused=fused) if scale_score else ranking.scores
        exact, returned = signals.is_exact, scores
        kept = np.ones(len(scores), bool)
        if precision is not None:
            threshold = self.threshold(precision, fused=fused)
            assert ranking.probabilities is not None  # without a calibration there is no threshold
            kept = exact | (ranking.probabilities >= threshold)
        elif score_threshold is not None:
            kept = exact | (scores >= score_threshold)
            least = min(score_threshold, 1.0) if scale_score else score_threshold
            returned = np.where(exact, np.maximum(scores, least), scores)
        return [(row, float(returned[row])) for row in ranking.order.tolist() if kept[row]][:top_k]

    def rank(self, signals: Signals) -> Ranking:
        """All candidates, ranked as users get them."""
        return rank(signals, self.weights, self.calibration(fused=signals.fused(self.weights)))

    def _scaled(self, ranking: Ranking, *, fused: bool) -> Numbers:
        if ranking.probabilities is not None:
            return ranking.probabilities
        scores = torch.from_numpy(ranking.scores)  # without a calibration, any map to 0..1 that keeps the order
        return (0.5 + scores.atan() / math.pi if fused else self.scale(scores)).numpy()

    @property
    def calibrated(self) -> bool:
        """Whether scaled scores are probabilities; of fused scores if BM25's are added."""
        return self.calibration(fused=self.weights.bm25 != 0) is not None

    def threshold(self, precision: float, *, fused: bool) -> float:
        """The minimum probability of a returned answer; an InputError if nothing is calibrated for this precision."""
        if not 0 < precision < 1:
            raise InputError(f"Expected precision as a number between 0 and 1, such as 0.9, found {key(precision)}.")
        calibration = self.calibration(fused=fused)
        threshold = calibration.threshold(precision) if calibration else None
        if threshold is None:
            stored = f"one for {', '.join(calibration.thresholds) or 'none'}" if calibration else "one without any"
            raise InputError(
                f"{self.source}: expected a checkpoint calibrated for precision {key(precision)}, found {stored}. "
                f"Calibrate it: ap-ranker calibrate {self.source} DEV --precision {key(precision)}"
            )
        return threshold

    def calibration(self, *, fused: bool) -> Calibration | None:
        """That of the model's scores, or of those with BM25's added; `None` if there is none."""
        return self.calibrations.get(FUSED if fused else MODEL)


def check_limits(score_threshold: float | None, precision: float | None) -> None:
    """Raise ValueError if both thresholds are given."""
    if score_threshold is not None and precision is not None:
        raise ValueError(f"Expected score_threshold or precision, found both: {score_threshold} and {precision}.")
