"""The rule of ranking, one candidate after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

Same = Callable[[int, int], bool]


class Candidate(NamedTuple):
    """What is known of a candidate; `None` is unknown."""

    model: float
    cosine: float | None = None
    wording: float | None = None
    bm25: float | None = None
    exact: bool = False


def soft_maximum(values: Sequence[float]) -> float:
    """t log of the sum of e^(value / t), t = .02."""
    largest = max(values)
    return largest + 0.02 * math.log1p(sum(math.exp((value - largest) / 0.02) for value in sorted(values)[:-1]))


def score(one: Candidate, wording_weight: float, bm25_weight: float) -> float:
    """f of a candidate."""
    result = one.model
    if wording_weight and one.cosine is not None and one.wording is not None:
        result = (result + wording_weight * soft_maximum([one.cosine, one.wording])) / (1 + wording_weight)
    if bm25_weight and one.bm25 is not None:
        result += bm25_weight * one.bm25
    return result


def order(scores: Sequence[float], exact: Sequence[bool]) -> list[int]:
    """By insertion: a candidate goes before the first one that it beats."""
    ranked: list[int] = []
    for row in range(len(scores)):
        own = exact[row], scores[row]
        beaten = (place for place, other in enumerate(ranked) if own > (exact[other], scores[other]))
        ranked.insert(next(beaten, len(ranked)), row)
    return ranked


def margins(scores: Sequence[float], by_score: Sequence[int], same: Same) -> list[float]:
    """The lead over the best candidate that is another answer than the best one."""
    best_answer: list[int] = []
    for row in by_score:
        if best_answer and not same(by_score[0], row):
            break
        best_answer.append(row)
    others = [row for row in by_score if row not in best_answer]
    if not others:
        return [0.0] * len(scores)
    return [scores[row] - scores[others[0] if row in best_answer else by_score[0]] for row in range(len(scores))]


def probabilities(
    scores: Sequence[float],
    by_score: Sequence[int],
    same: Same,
    slope: float,
    margin: float,
    bias: float,
    excess: float = 0.0,
) -> list[float]:
    """The sigmoid of each candidate's logit; the best, which counts less by the excess, stands first in `by_score`."""
    leads = margins(scores, by_score, same)
    logits = [slope * one + margin * lead + bias for one, lead in zip(scores, leads, strict=True)]
    for place, row in enumerate(by_score):
        if place == 0:
            logits[row] = slope * (scores[row] - excess) + margin * (leads[row] - excess) + bias
        elif excess:
            logits[row] = min(logits[row], logits[by_score[0]])
    return [1 / (1 + math.exp(-logit)) if logit > 0 else math.exp(logit) / (1 + math.exp(logit)) for logit in logits]


def lowered(scores: Sequence[float], exact: Sequence[bool]) -> list[float]:
    """No other answer scores higher than a word-for-word one."""
    known = [score for score, one in zip(scores, exact, strict=True) if one]
    return [score if one else min([score, *known]) for score, one in zip(scores, exact, strict=True)]
