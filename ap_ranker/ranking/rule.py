"""The one rule of ranking: serving, evaluating, calibrating and training rank by `rank` alone.

    w  = max(cos(q, answer), max_j cos(q, wording_j))   of the vectors of whole texts
    s' = (s + v w) / (1 + v)                            the model's score s, with the best known wording
    f  = s' + u b                                       and BM25's score b
    order: first the answers of which the question is a known wording, word for word, then the others; both by f, equal
           ones in the order given, which is the retriever's
    p  = sigmoid(a f + b m + c)                         `Calibration`; m is the lead over the best different answer

An entry without wordings has w = cos(q, answer), so that it loses nothing beside entries with many; if no candidate has
any, s' = s. The score and the probability of a word-for-word answer are at least those of every other answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ap_ranker.ranking.calibration import Calibration

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Weights:
    """The weights of a checkpoint beside the model's score; 0: it does not help.

    Attributes:
        wording: v, of the best known wording.
        bm25: u, of BM25's score.
    """

    wording: float = 0.0
    bm25: float = 0.0


@dataclass(frozen=True)
class Signals:
    """What is known of N candidates for one question.

    Attributes:
        model: (N,) the model's scores s.
        cosines: (N,) the cosine of the question with each answer; `None` if it is unknown.
        wordings: (N,) that with the best known wording of each, -1 without any; `None` if no candidate has one.
        bm25: (N,) BM25's scores b; `None` if they are unknown: then nothing is added.
        exact: (N,) whether the question is a known wording of each, word for word; `None`: of none.
        answers: the texts of each that tell which candidates are the same answer (`same_answer`); `None`: all differ.
    """

    model: Numbers
    cosines: Numbers | None = None
    wordings: Numbers | None = None
    bm25: Numbers | None = None
    exact: NDArray[np.bool_] | None = None
    answers: Sequence[Sequence[str]] | None = None

    @property
    def best_wording(self) -> Numbers | None:
        """(N,) w; `None` if no candidate has a wording."""
        if self.cosines is None or self.wordings is None:
            return None
        return np.maximum(self.cosines, self.wordings)

    def fused(self, weights: Weights) -> bool:
        """Whether f has a part of BM25, for which there is a calibration of its own."""
        return self.bm25 is not None and weights.bm25 != 0


@dataclass(frozen=True)
class Ranking:
    """N ranked candidates.

    Attributes:
        order: (N,) their positions, the best first.
        scores: (N,) f of each candidate, in the order given.
        probabilities: (N,) p likewise; `None` without a calibration.
        levels: (N,) 0 for the first candidate of the order; equal for candidates that only the order given separates.
    """

    order: NDArray[np.int64]
    scores: Numbers
    probabilities: Numbers | None
    levels: NDArray[np.int64]


def rank(signals: Signals, weights: Weights = Weights(), calibration: Calibration | None = None) -> Ranking:
    """Rank the candidates of one question, as above."""
    scores = signals.model
    if weights.wording and (wording := signals.best_wording) is not None:
        scores = (scores + weights.wording * wording) / (1 + weights.wording)
    if signals.bm25 is not None and weights.bm25:
        scores = scores + weights.bm25 * signals.bm25
    exact = np.zeros(len(scores), dtype=bool) if signals.exact is None else signals.exact
    order = np.lexsort((-scores, ~exact))
    falls = (np.diff(scores[order]) != 0) | np.diff(exact[order])
    levels = np.zeros(len(order), dtype=np.int64)
    levels[order[1:]] = np.cumsum(falls)
    probabilities = None if calibration is None else calibration.probabilities(scores, signals.answers)
    if exact.any():
        scores = _raised(scores, exact)
        probabilities = None if probabilities is None else _raised(probabilities, exact)
    return Ranking(order, scores, probabilities, levels)


def _raised(values: Numbers, exact: NDArray[np.bool_]) -> Numbers:
    """The values, those of word-for-word answers at least as high as every other."""
    return np.where(exact, np.maximum(values, values[~exact].max(initial=-np.inf)), values)
