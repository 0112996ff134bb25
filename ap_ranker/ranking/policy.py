"""The answer policy: it selects the answers to return, or none, from the scores of one question's candidates."""

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
    """Adds BM25's scores to the model's, converts scores to probabilities, and drops answers below a threshold.

    Attributes:
        source: the checkpoint's name, for messages.
        bm25_weight: the weight of BM25's score beside the model's; 0: it is not added.
        calibrations: those of the model's scores (`model`) and of the fused ones (`fused`), if any.
        scale: maps the model's scores to 0..1 if there is no calibration.
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
        verbatim: Sequence[bool] | None = None,
        top_k: int | None = None,
        scale_score: bool = True,
        score_threshold: float | None = None,
        precision: float | None = None,
    ) -> list[tuple[int, float]]:
        """The candidates to return as answers, best first; ties keep the given order.

        Args:
            scores: (N,) scores of the model.
            bm25: N scores of BM25 to add; `None` if they are unknown: then nothing is added.
            verbatim: whether the question is a known wording of each of the N candidates, word for word. These come
                first, in the order of their scores, and no threshold leaves them out: a score below that of another
                candidate, or below the threshold, is raised to it.
            top_k: maximum number of answers; `None` for no limit.
            scale_score: return scores from 0 to 1: probabilities, if there is a calibration.
            score_threshold: leave out lower scores, after scaling.
            precision: target precision: leave out probabilities below the threshold that was calibrated for it.

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
        raw = returned = scores.tolist()
        if scale_score and probabilities:
            returned = probabilities
        elif scale_score:  # without a calibration, any map to 0..1 that keeps the order
            returned = (0.5 + scores.atan() / math.pi if fused else self.scale(scores)).tolist()
        compared, threshold = returned, score_threshold
        if precision is not None:
            threshold = self.threshold(precision, fused=fused)
            compared = probabilities or []  # never empty here: without a calibration there is no threshold
        known = verbatim or [False] * len(raw)
        # By raw scores: scaling may make scores equal.
        order = sorted(range(len(raw)), key=lambda row: (not known[row], -raw[row]))
        selected = [row for row in order if known[row] or threshold is None or compared[row] >= threshold]
        floor = max((returned[row] for row in order if not known[row]), default=-math.inf)
        if threshold is not None and compared is returned:
            floor = max(floor, min(threshold, 1.0) if scale_score else threshold)
        return [(row, max(returned[row], floor) if known[row] else returned[row]) for row in selected[:top_k]]

    @property
    def calibrated(self) -> bool:
        """Whether scaled scores are probabilities; of fused scores if BM25's are added."""
        return self._calibration(fused=self.bm25_weight != 0) is not None

    def threshold(self, precision: float, *, fused: bool) -> float:
        """The minimum probability of a returned answer.

        Args:
            precision: the target share of right answers.
            fused: whether BM25's scores are added to the model's.

        Raises:
            InputError: the precision is not between 0 and 1, or these scores were not calibrated for it.
        """
        if not 0 < precision < 1:
            raise InputError(f"Expected precision as a number between 0 and 1, such as 0.9, found {key(precision)}.")
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


def _checked(bm25: Sequence[float], count: int) -> Tensor:
    """(N,) scores of BM25.

    Raises:
        ValueError: their number is not `count`, or one of them is not finite.
    """
    scores = torch.tensor(bm25, dtype=torch.float32)
    if scores.shape != (count,) or not scores.isfinite().all():
        raise ValueError(f"BM25's scores must be {count} finite numbers, one for each candidate, but got {bm25}")
    return scores


def check_limits(score_threshold: float | None, precision: float | None) -> None:
    """Check that at most one threshold is given.

    Raises:
        ValueError: both are given.
    """
    if score_threshold is not None and precision is not None:
        raise ValueError(
            "score_threshold and precision both say which answers to leave out; expected one of them, but got "
            f"{score_threshold} and {precision}"
        )
