"""The answer policy: from the scores of one question's candidates to the answers that are given, or none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.ranking.calibration import FUSED, MODEL, Calibration, key


@dataclass(frozen=True)
class AnswerPolicy:
    """Adds BM25's scores to the model's, turns scores into probabilities, and leaves out what is not good enough.

    Attributes:
        source: the checkpoint's name, for messages.
        bm25_weight: what BM25's score counts beside the model's; 0: it is not added.
        calibrations: of the model's scores (`model`) and of the fused ones (`fused`), where there are any.
        scale: maps the model's scores to 0..1 where there is no calibration.
    """

    source: str
    bm25_weight: float
    calibrations: Mapping[str, Calibration]
    scale: Callable[[Tensor], Tensor]

    def answers(
        self,
        scores: Tensor,
        bm25: Sequence[float] | None = None,
        *,
        top_k: int | None = None,
        scale_score: bool = True,
        score_threshold: float | None = None,
        precision: float | None = None,
    ) -> list[tuple[int, float]]:
        """The candidates that are given as answers, best first; equal scores keep the given order.

        Args:
            scores: (N,) of the model.
            bm25: N scores of BM25, to be added; `None` where they are not known, and then nothing is added.
            top_k: how many answers at most; `None` for any number.
            scale_score: return scores from 0 to 1: probabilities, if there is a calibration.
            score_threshold: leave out lower scores, after scaling.
            precision: leave out probabilities below the threshold that was calibrated for this share of right answers.

        Returns:
            (position, score) pairs.

        Raises:
            ValueError: `bm25` are not N finite numbers, or both `score_threshold` and `precision` are given.
            InputError: there is no calibration for `precision`.
        """
        check_limits(score_threshold, precision)
        added = None if bm25 is None else _checked(bm25, len(scores))
        fused = added is not None and self.bm25_weight != 0
        if added is not None and fused:
            scores = scores + self.bm25_weight * added
        calibration = self._calibration(fused=fused)
        probabilities = calibration.probabilities(scores.numpy()).tolist() if calibration else None
        raw = shown = scores.tolist()
        if scale_score:
            shown = probabilities or self._scaled(scores, fused=fused).tolist()
        compared, least = shown, score_threshold
        if precision is not None:
            least = self.threshold(precision, fused=fused)
            compared = probabilities or []  # there are some, or there were no threshold
        order = sorted(range(len(raw)), key=lambda row: -raw[row])  # scaling may make scores equal
        given = [row for row in order if least is None or compared[row] >= least]
        return [(row, shown[row]) for row in given[:top_k]]

    def threshold(self, precision: float, *, fused: bool) -> float:
        """The least probability of an answer that is given.

        Args:
            precision: the share of given answers that is to be right.
            fused: of the model's scores with BM25's added, rather than of the model's alone.

        Raises:
            InputError: these scores were not calibrated for it.
        """
        calibration = self._calibration(fused=fused)
        threshold = calibration.threshold(precision) if calibration else None
        if threshold is None:
            stored = f"one for {', '.join(calibration.thresholds) or 'none'}" if calibration else "one without any"
            raise InputError(
                f"{self.source}: expected a checkpoint calibrated for precision {key(precision)}, found {stored}. "
                f"Calibrate it: ap-ranker calibrate {self.source} DEV --precision {key(precision)}"
            )
        return threshold

    def _calibration(self, *, fused: bool) -> Calibration | None:
        return self.calibrations.get(FUSED if fused else MODEL)

    def _scaled(self, scores: Tensor, *, fused: bool) -> Tensor:
        """What stands for probabilities without a calibration."""
        return 0.5 + scores.atan() / math.pi if fused else self.scale(scores)


def _checked(bm25: Sequence[float], count: int) -> Tensor:
    """(N,) scores of BM25.

    Raises:
        ValueError: there are more or fewer of them, or one is not a finite number.
    """
    scores = torch.tensor(bm25, dtype=torch.float32)
    if scores.shape != (count,) or not scores.isfinite().all():
        raise ValueError(f"BM25's scores must be {count} finite numbers, one for each candidate, but got {bm25}")
    return scores


def check_limits(score_threshold: float | None, precision: float | None) -> None:
    """Both say which answers to leave out.

    Raises:
        ValueError: both are given.
    """
    if score_threshold is not None and precision is not None:
        raise ValueError(
            "score_threshold and precision both say which answers to leave out; expected one of them, but got "
            f"{score_threshold} and {precision}"
        )
