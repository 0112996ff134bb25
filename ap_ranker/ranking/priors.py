"""What was learnt from public FAQs before a FAQ has questions: how probable is it that a first answer is right?

    p = sigmoid(a (f - g) / d + b m / d + c)   f the score, m the margin (`rule.py`), g the FAQ's background, d a unit

The background g is what questions about other matters score on the FAQ to be searched: how much of a score means
nothing. So FAQs whose scores are all higher, as those in a language that the encoder has not read, need no other
numbers. `examples/no_answer` fits a prior for each untrained encoder that it is given, where d is 1 (`priors.json`),
and one for all other checkpoints, of any model, trained or not (`general_prior.json`): there d is the standard
deviation of these scores, as training changes the scale of scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter
from torch import Tensor

from ap_ranker.models.pretrained import BACKBONE
from ap_ranker.ranking.rule import Basis, Calibration

if TYPE_CHECKING:
    from ap_ranker.ranking.ranker import Ranker

FILE = "priors.json"
GENERAL = "general_prior.json"


@dataclass(frozen=True)
class Prior:
    """What is known of checkpoints: a, b and c; the thresholds of target precisions; `floor`, above g, if it is known.

    `faqs` and `questions` are those that it was fitted to.
    """

    score: float
    margin: float
    bias: float
    thresholds: Mapping[str, float]
    floor: float | None
    faqs: Sequence[str]
    questions: int

    def calibration(self, background: float, unit: float = 1.0) -> Calibration:
        """The calibration of a FAQ with this background, g, and unit of scores, d."""
        score = self.score / unit
        margin = self.margin / unit
        floor = None if self.floor is None else background + unit * self.floor
        bias = self.bias - score * background
        return Calibration(score, margin, bias, self.thresholds, floor=floor, basis=Basis.PRIOR)


@dataclass(frozen=True)
class EncoderPriors:
    """The priors of one encoder: of a FAQ with stored questions, of documents, and of languages that it has not read.

    `encoder` is its name, `languages` are the codes of those that it has read; of an encoder that has read all that
    were at hand, `foreign` is not known.
    """

    encoder: str
    languages: Sequence[str]
    stored: Prior
    documents: Prior
    foreign: Prior | None

    def of(self, language: str | None, *, stored: bool) -> Prior | None:
        """That of texts in a language, `None` if it is unknown, with `stored` questions or not; `None`: not known."""
        if language is not None and language not in self.languages:
            return self.foreign
        return self.stored if stored else self.documents


def find_priors(weights: Mapping[str, Tensor]) -> EncoderPriors | None:
    """The priors of the encoder in a model with these weights; `None` if none were fitted with it."""
    return _priors().get(encoder_key(weights))


@cache
def general_prior() -> Prior:
    """That of all checkpoints but those of untrained encoders with a prior of their own."""
    return TypeAdapter(Prior).validate_json((files("ap_ranker.ranking") / GENERAL).read_bytes())


def languages_read_by(encoder: str) -> Sequence[str]:
    """The codes of the languages that an encoder of this name has read; empty if that is not known."""
    name = encoder.rpartition("/")[2]
    for priors in _priors().values():
        if priors.encoder == name:
            return priors.languages
    return ()


def encoder_key(weights: Mapping[str, Tensor]) -> str:
    """A hash of the last matrix of a model's encoder, whatever its name and folder; empty for a model without any.

    It is that of the numbers in half precision, in which checkpoints store them.
    """
    matrices = [value for name, value in weights.items() if name.startswith(BACKBONE) and value.dim() == 2]
    if not matrices:
        return ""
    halves = matrices[-1].detach().cpu().to(torch.float16)
    return blake2b(halves.numpy().tobytes(), digest_size=8).hexdigest()


@cache
def _priors() -> Mapping[str, EncoderPriors]:
    return TypeAdapter(dict[str, EncoderPriors]).validate_json((files("ap_ranker.ranking") / FILE).read_bytes())


SAMPLE = 100
"""Number of texts that are compared with these questions: with more, their mean score hardly changes."""

REACHED = 0.9
"""Share of these questions whose best score the floor of a FAQ lies above: untrained, on the dev questions of seven
FAQs, 85 % of other matters are then below, and 5 % of what can be answered; at .95, 92 and 8 % (see `examples`)."""


def sampled(texts: Sequence[str]) -> list[int]:
    """The rows of a sample of texts: the same texts in any order of all, and mostly with one more."""

    def hash_of(row: int) -> bytes:
        return blake2b(texts[row].encode("utf-8", "replace")).digest()

    return sorted(range(len(texts)), key=hash_of)[:SAMPLE]


def random_scores(
    ranker: Ranker, texts: Sequence[str], wordings: Sequence[Sequence[str]] | None = None
) -> NDArray[np.float64]:
    """(Q, N) the scores of these questions with a sample of the entries of a FAQ, with their wordings if these count.

    Their mean is the FAQ's background: it tells apart FAQs, and languages that an encoder has not read, whose scores
    are all higher or all lower.
    """
    sample = sampled(texts)
    wordings_of_sample = None
    if wordings is not None:
        wordings_of_sample = [wordings[row] for row in sample]
    return ranker.scores_of_random_questions([texts[row] for row in sample], wordings_of_sample)


def usual_background(scores: NDArray[np.float64]) -> float:
    """What most entries of a FAQ score at most for these questions, on average, given their (Q, N) scores (`USUAL`)."""
    return float(np.quantile(scores.mean(axis=0), USUAL))


USUAL = 0.9
"""Share of a FAQ's entries that are no nearer to other matters than usual: the others count less as an answer by a part
of what they score beyond (`Calibration.excess_of`)."""


def floor_of(best: NDArray[np.float64]) -> float:
    """What most of these questions do not reach, of their (Q,) best scores: less is not worth showing."""
    return float(np.quantile(best, REACHED))
