"""Is a search with a new checkpoint at least as good as the one before it? Both are compared as users get them.

    d_i           what question i gains: in utility (`WRONG_COSTS`), and in the reciprocal rank of what is shown
    m ~ N(b log(1 + n), t^2)                          the mean gain after a training with n questions, as on other FAQs
    d_i ~ N(m, s^2), s^2 = (K s0^2 + sum (d_i - mean d)^2) / (K + N - 1)        so that a few equal gains prove nothing

The posterior of m is normal, and the certainty that the new search is at least as good is the share of it from 0 on.
Near copies count as one question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ap_ranker.ranking.decision import Decider
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.rule import Signals
from ap_ranker.ranking.verdict import WRONG_COSTS, Verdict

Numbers = NDArray[np.float64]

CERTAIN = 0.65
"""The certainty from which on a checkpoint is recommended, of both the utility and MRR. Without any dev question, other
FAQs alone recommend a training with some 60 questions and more."""

SHRUNK = 10
"""K above: the number of questions that the deviation of other FAQs' gains counts as."""


@dataclass(frozen=True)
class GainPrior:
    """What a training gains, as far as other FAQs tell: the mean, its deviation, and that of a question's gain."""

    mean: float
    deviation: float
    of_question: float

    def certainty(self, gains: Numbers) -> float:
        """The probability that the mean gain is at least 0, given those of N questions."""
        precision = 1 / self.deviation**2
        weighted = self.mean * precision
        n = len(gains)
        if n:
            squares = SHRUNK * self.of_question**2 + float(((gains - gains.mean()) ** 2).sum())
            of_mean = n * (SHRUNK + n - 1) / squares
            precision += of_mean
            weighted += of_mean * float(gains.mean())
        return 0.5 * math.erfc(-weighted / math.sqrt(2 * precision))


@dataclass(frozen=True)
class Served:
    """What a search gives Q questions: (Q,) whether it asserts a right answer, or a wrong one; the reciprocal rank of
    the first right answer that it shows, 0 if there is none."""

    right: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    reciprocal_rank: Numbers

    @classmethod
    def of(cls, signals: Sequence[Signals], right: Sequence[NDArray[np.bool_]], deciders: Sequence[Decider]) -> Served:
        """Search as each question's decider does, at the default precision."""
        answered: list[tuple[Outcome, list[bool]]] = []
        for signals_of_question, is_right, decider in zip(signals, right, deciders, strict=True):
            answers, decision = decider.answer(signals_of_question, scale_score=False, offer=True)
            answered.append((decision.outcome, [bool(is_right[row]) for row, _ in answers]))
        return cls.of_shown(answered)

    @classmethod
    def of_shown(cls, shown: Sequence[tuple[Outcome, Sequence[bool]]]) -> Served:
        """Of the outcome of each question, and whether each answer beside it is right, best first."""
        right: list[bool] = []
        wrong: list[bool] = []
        reciprocal_ranks: list[float] = []
        for outcome, is_right in shown:
            rank = math.inf
            if outcome is not Outcome.NONE and any(is_right):
                rank = is_right.index(True) + 1
            is_asserted = outcome is Outcome.ANSWER
            right.append(is_asserted and rank == 1)
            wrong.append(is_asserted and rank > 1)
            reciprocal_ranks.append(1 / rank)
        return cls(
            np.array(right, dtype=bool), np.array(wrong, dtype=bool), np.array(reciprocal_ranks, dtype=np.float64)
        )

    @property
    def utility(self) -> Numbers:
        """(Q,) that of each question."""
        return utility_of(self.right, self.wrong)


def utility_of(right: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> Numbers:
    """(Q,) what each question counts: 1 if a right answer is asserted, -`WRONG_COSTS` if a wrong one is, else 0."""
    return right - WRONG_COSTS * wrong


UTILITY = "utility"
MRR = "MRR"


@dataclass(frozen=True)
class Gains:
    """b, t and s0 above."""

    slope: float
    deviation: float
    of_question: float

    def prior(self, learnt: int, learnt_before: int = 0) -> GainPrior:
        """That of a training with so many questions, over a search that has learnt from some, 0 if it is untrained."""
        steps = math.log1p(learnt) - math.log1p(min(learnt, learnt_before))
        return GainPrior(self.slope * steps, self.deviation, self.of_question)


GAINS = {UTILITY: Gains(0.0069, 0.072, 0.83), MRR: Gains(0.0034, 0.021, 0.15)}
"""What ten trainings of the default model on six FAQs gained over the untrained search with the same wordings
(`python examples/training_gain/run.py gains`)."""


def verdict(
    before: Served, after: Served, groups: Sequence[int], name: str, *, learnt: int, learnt_before: int = 0
) -> Verdict:
    """Compare two searches on Q questions, each in a group of near copies, after a training with so many questions.

    `name` is that of the search before, which has learnt from `learnt_before` questions of the same FAQ.
    """
    gains = {
        UTILITY: after.utility - before.utility,
        MRR: after.reciprocal_rank - before.reciprocal_rank,
    }
    certainty = 1.0
    for measure, values in gains.items():
        prior = GAINS[measure].prior(learnt, learnt_before)
        certainty = min(certainty, prior.certainty(_means_of_groups(values, groups)))
    return Verdict(
        recommended=certainty >= CERTAIN,
        before=name,
        n_questions=len(groups),
        utility_before=_mean(before.utility),
        utility_after=_mean(after.utility),
        mrr_before=_mean(before.reciprocal_rank),
        mrr_after=_mean(after.reciprocal_rank),
        certainty=certainty,
    )


def _means_of_groups(values: Numbers, groups: Sequence[int]) -> Numbers:
    _, places = np.unique(np.asarray(groups, dtype=np.int64), return_inverse=True)
    sizes = np.bincount(places)
    return np.bincount(places, weights=values) / sizes


def _mean(values: Numbers) -> float:
    return float(values.mean()) if len(values) else 0.0
