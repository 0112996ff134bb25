"""The one rule of ranking: serving, evaluating, calibrating and training rank by `rank` alone.

    w   = t log(exp(cos(q, answer) / t) + sum_j exp(cos(q, wording_j) / t))   of the vectors of whole texts
    s'  = (s + v w) / (1 + v)                         the model's score s, with the known wordings
    f   = s' + u BM25
    order: first the answers of which the question is a known wording, word for word, then the others; both by f, equal
           ones in the order given, which is the retriever's; of what is no question, its own entries first
           (`typed_rule.py`)
    p   = sigmoid(a f + b m + c)                      `Calibration`; m is the lead over the best different answer
    p_1 = sigmoid(a (f - e) + b (m - e) + c)          the first answer in the order; no other is more probable
    e   = EXCESS max(0, background of its entry - background of most of the FAQ)   `Calibration.excess_of`

The background of an entry is what it scores for questions about other matters. An entry that is near to every question,
as "Contact" or "Need more help?" are, must be the nearer to this one by e, its excess. The order stays.

w is a soft maximum: hardly more than the cosine of the best text, unless others are as near (`SOFTNESS`, t). The larger
v is, the more the best text alone decides. An entry without wordings has w = cos(q, answer), so that it loses nothing
beside entries with many; where nobody knows any wording of any entry, s' = s. No answer has a higher score, f, or a
higher probability than one before it: beside a word-for-word one the scores of the others are lowered
(`_not_above_exact`), and so are those after an entry that is for what was typed (`_falling`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ap_ranker.ranking.typed_rule import TypedSignals
from ap_ranker.settings import checked, settings
from ap_ranker.text.reading import nearly_equal

Numbers = NDArray[np.float64]

SOFTNESS = 0.02
"""The t above: n texts that are equally near count t log(n) more than one. With an untrained encoder and v fitted by
`leave_one_out`, dev MRR over that of the maximum: .877 and .864 on users' questions about COVID-19, .980 and .976,
.985 and .985, .801 and .801 on three other FAQs (`examples/known_wordings`)."""

EXCESS = 0.5
"""The share that an entry's score is lowered by, of the difference between its background and that of most of its FAQ.
With three entries such as "Contact" added to each of five FAQs, 5 instead of 17 of 650 questions about other matters
were answered (multilingual-e5-small, target precision .8); most questions that these entries answer become maybes. With
a share of 1, more of them do (`examples/no_answer/general.py hubs`)."""

MODEL = "model"
"""The name of the score f without BM25, and of its calibration."""

FUSED = "fused"
"""The name of the score f with BM25's added, and of its calibration."""


@dataclass(frozen=True)
class Weights:
    """The weights of a checkpoint beside the model's score, v of the known wordings and u of BM25; 0: no help."""

    wording: float = 0.0
    bm25: float = 0.0


@dataclass(frozen=True)
class Signals:
    """What is known of N candidates for one question."""

    model: Numbers  # (N,) the model's scores s
    cosines: Numbers | None = None  # (N,) of the question with each answer; `None` if they are unknown
    # (N,) soft maxima of the cosines with the known wordings of each, -1 without any; `None` if wordings do not count.
    wordings: Numbers | None = None
    bm25: Numbers | None = None  # (N,) BM25's scores; `None` if they are unknown: then nothing is added
    exact: NDArray[np.bool_] | None = None  # (N,) whether the question is a known wording of each, word for word
    answers: Sequence[Sequence[str]] | None = None  # the texts of each, for `same_answer`; `None`: all differ
    matched: Sequence[str | None] = ()  # each entry's best wording, if it is more like the question than the answer
    ties: NDArray[np.int64] | None = None  # (N,) of equal candidates the lower number comes first; `None`: as given
    # The background of the candidate at a position, computed when it is asked for; `None` if none is known.
    background_of: Callable[[int], float] | None = None
    typed: TypedSignals | None = None  # of a text that is no question
    # The code of the FAQ's language, if the question is in another one; asked for where nothing is asserted.
    language: Callable[[], str | None] | None = None

    @cached_property
    def best_wording(self) -> Numbers | None:
        """(N,) w; `None` if wordings do not count."""
        if self.cosines is None or self.wordings is None:
            return None
        return soft_maximum(self.cosines, self.wordings)

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """(N,) `exact`, or all False."""
        return np.zeros(len(self.model), dtype=bool) if self.exact is None else self.exact

    @cached_property
    def is_own(self) -> NDArray[np.bool_]:
        """(N,) whether an entry is for what was typed, which is no question; all False of a question."""
        return np.zeros(len(self.model), dtype=bool) if self.typed is None else self.typed.own_entries()

    def uses_bm25(self, weights: Weights) -> bool:
        """Whether f has a part of BM25: its calibration is then `FUSED`, else `MODEL`."""
        return self.bm25 is not None and weights.bm25 != 0


class Basis(StrEnum):
    """What a decision rests on, the best first."""

    EXACT = "known question"  # the question is a known wording, word for word
    QUESTIONS = "questions"  # a calibration with questions of users
    WORDINGS = "wordings"  # one with the FAQ's own questions, and what was learnt from other FAQs
    PRIOR = "prior"  # what was learnt from other FAQs alone
    NOTHING = "nothing"  # no calibration


def _is_precision(key: str) -> bool:
    """Whether the key of a threshold is a target precision."""
    try:
        return 0 < float(key) < 1
    except ValueError:
        return False


@settings
class Calibration:
    """A logistic model over a ranking: p_i = sigmoid(a s_i + b m_i + c), m_i the margin over the best different answer.

    This is Platt scaling (Platt 1999) with a second feature, the margin: a high score means less if other answers have
    one, too. Without it, the example FAQ's test questions are told apart with an AUC of .846 instead of .876, and 37 %
    instead of 45 % of them are answered at precision .95. Neither weight is negative, so a better score never has a
    lower probability.

    `score`, `margin` and `bias` are a, b and c; `thresholds` has the minimum probability of a returned answer for the
    `threshold_key` of each target precision. `floor` is the minimum score f of anything that is worth showing:
    questions about other matters hardly reach it; `None` if it is unknown. `basis` tells what it was fitted to, and
    `questions` to how many of users or wordings. `background` is that of most entries of its FAQ, which they do not
    exceed; `None` in earlier checkpoints, for which no entry has an excess.
    """

    score: Annotated[float, Field(ge=0)]
    margin: Annotated[float, Field(ge=0)]
    bias: float
    thresholds: Annotated[
        Mapping[
            Annotated[str, Field(max_length=30), checked(_is_precision, "a precision between 0 and 1, such as 0.9")],
            Annotated[float, Field(ge=0, le=1)],
        ],
        Field(max_length=100),
    ]
    floor: float | None = None
    basis: Annotated[Basis, Field(strict=False)] = Basis.QUESTIONS
    background: float | None = None
    questions: Annotated[int, Field(ge=0)] = 0

    def probabilities(
        self,
        scores: NDArray[np.floating],
        answers: Sequence[Sequence[str]] | None,
        *,
        order: NDArray[np.int64],
        excess: float,
    ) -> NDArray[np.float64]:
        """(N,) probabilities that each answer is right, given the scores of all N candidates, as for `margins`.

        The first one counts as if its score were lower by the `excess`; no other is more probable than one before it.
        """
        values = np.asarray(scores, dtype=np.float64)
        leads = margins(values, answers, order)
        logits = self.score * values + self.margin * leads + self.bias
        # Not where the lead is the largest: copies of the best answer that are alone all have a lead of 0.
        logits[order[:1]] -= (self.score + self.margin) * excess
        return (1 + np.tanh(_falling(logits, order) / 2)) / 2  # the sigmoid, without overflow

    def threshold(self, precision: float) -> float:
        """The minimum probability of a returned answer for a target precision.

        Between two known targets it is interpolated linearly; for a precision of 0 it is 0, and for 1 it is 1. Without
        any known target it is therefore the precision itself: if probabilities are right, answers with at least this
        probability are right at least as often.
        """
        thresholds = {0.0: 0.0, 1.0: 1.0} | {float(target): least for target, least in self.thresholds.items()}
        targets = sorted(thresholds)
        return float(np.interp(precision, targets, [thresholds[target] for target in targets]))

    def excess_of(self, background_of_entry: float) -> float:
        """The excess e of an entry with this background, by which its score counts less."""
        if self.background is None:
            return 0.0
        return EXCESS * max(0.0, background_of_entry - self.background)


def soft_maximum(one: Numbers, other: Numbers) -> Numbers:
    """(N,) w of two cosines of each, or of soft maxima of some; where they are far apart, it is the larger one."""
    return np.maximum(one, other) + SOFTNESS * np.log1p(np.exp(-np.abs(one - other) / SOFTNESS))


def threshold_key(precision: float) -> str:
    """The key of a precision in `thresholds`, as text because JSON keys are text."""
    return f"{precision:g}"


@dataclass(frozen=True)
class Ranking:
    """N ranked candidates: their positions, the best first; f and p of each in the order given, p if calibrated.

    Levels begin with 0 for the best; they are equal for candidates that only the order given separates. `excess` is e
    of the first candidate, by which its score counts less in a decision.
    """

    order: NDArray[np.int64]
    scores: Numbers
    probabilities: Numbers | None
    levels: NDArray[np.int64]
    excess: float = 0.0


def ranked_scores(signals: Signals, weights: Weights) -> Numbers:
    """(N,) f of each candidate, as `rank` has it, without the order, which takes most of its time."""
    return _not_above_exact(_combined(signals, weights), signals)


def _combined(signals: Signals, weights: Weights) -> Numbers:
    """(N,) f, before the scores beside a word-for-word candidate are lowered."""
    scores = signals.model
    wording = signals.best_wording if weights.wording else None
    if wording is not None:
        scores = (scores + weights.wording * wording) / (1 + weights.wording)
    if signals.bm25 is not None and weights.bm25:
        scores = scores + weights.bm25 * signals.bm25
    return scores


def _not_above_exact(scores: Numbers, signals: Signals) -> Numbers:
    """(N,) the scores, none of them above that of a word-for-word candidate.

    The others are lowered: of .3 (word for word), .8 and .5, all become .3. Were the .3 raised to .8 instead, its
    probability would depend on what another answer scores.
    """
    exact = signals.is_exact
    if not exact.any():
        return scores
    return np.where(exact, scores, np.minimum(scores, scores[exact].min()))


def rank(signals: Signals, weights: Weights = Weights(), calibration: Calibration | None = None) -> Ranking:
    """Rank the candidates of one question, as above."""
    scores = _combined(signals, weights)
    exact = signals.is_exact
    # The last key counts first.
    keys = (-scores, ~exact) if signals.typed is None else (-scores, ~signals.is_own, ~exact)
    order = np.lexsort(keys if signals.ties is None else (signals.ties, *keys))
    is_new_level = (np.diff(scores[order]) != 0) | np.diff(exact[order]) | np.diff(signals.is_own[order])
    levels = np.zeros(len(order), dtype=np.int64)
    levels[order[1:]] = np.cumsum(is_new_level)
    scores = _not_above_exact(scores, signals)
    falling = _falling(scores, order)
    if calibration is None:
        return Ranking(order, falling, None, levels)
    excess = 0.0
    # Without a background of the FAQ, none is asked for: to compute that of an entry takes time.
    if calibration.background is not None and signals.background_of is not None and len(order):
        first = int(order[0])
        excess = calibration.excess_of(signals.background_of(first))
    probabilities = calibration.probabilities(scores, signals.answers, order=order, excess=excess)
    return Ranking(order, falling, probabilities, levels, excess)


def _falling(values: Numbers, order: NDArray[np.int64]) -> Numbers:
    """(N,) the values, each lowered to the least one before it in the order.

    They rise only after an entry that is for what was typed: it comes first whatever the others score.
    """
    lowered = values.copy()
    lowered[order] = np.minimum.accumulate(values[order])
    return lowered


def margins(scores: Numbers, answers: Sequence[Sequence[str]] | None, order: NDArray[np.int64]) -> Numbers:
    """(N,) the lead of each of (N,) scores over the best different answer; negative for all but the best answer.

    Copies of the best answer that follow it directly are that answer, so that a document which was indexed twice leaves
    no doubt. The margin is 0, the minimum for a best answer, if no other is there. An entry that is for what was typed
    may come first with less than others score: its lead is then negative. `answers` are as in `Signals`; `order` has
    the first one first.
    """
    copies = 1  # of the best answer, itself included
    while answers and copies < len(order) and same_answer(answers[order[0]], answers[order[copies]]):
        copies += 1
    if copies >= len(order):
        return np.zeros(len(scores))
    leads: Numbers = scores - scores[order[0]]
    leads[order[:copies]] = scores[order[:copies]] - scores[order[copies]]
    return leads


def same_answer(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two candidates are copies, perhaps with a word changed: each text of one is nearly that of the other.

    Their texts are what is matched and the answer alone, so that "No." to the same question is another answer than
    "Yes.".
    """
    return all(map(nearly_equal, one, other))
