"""What was learnt from public FAQs about untrained encoders: how probable is it that a first answer is right?

    p = sigmoid(a (f - g) + b m + c)        f the score, m the margin (`rule.py`), g the FAQ's background

The background g is what questions about other matters score on the FAQ to be searched: how much of a score means
nothing. So FAQs whose scores are all higher, as those in a language that the encoder has not read, need no other
numbers. `examples/no_answer` fits a prior for each encoder that it is given, and writes `priors.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
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


@dataclass(frozen=True)
class Prior:
    """What is known of an untrained encoder: a, b and c; the thresholds of target precisions; `floor`, above g.

    `faqs` and `questions` are those that it was fitted to.
    """

    score: float
    margin: float
    bias: float
    thresholds: Mapping[str, float]
    floor: float
    faqs: Sequence[str]
    questions: int

    def calibration(self, background: float) -> Calibration:
        """The calibration of a FAQ with this background."""
        bias = self.bias - self.score * background
        floor = background + self.floor
        return Calibration(self.score, self.margin, bias, self.thresholds, floor=floor, basis=Basis.PRIOR)


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


def languages_read_by(encoder: str) -> Sequence[str]:
    """The codes of the languages that an encoder of this name has read; empty if that is not known."""
    name = encoder.rpartition("/")[2]
    return next((each.languages for each in _priors().values() if each.encoder == name), ())


def encoder_key(weights: Mapping[str, Tensor]) -> str:
    """A hash of the last matrix of a model's encoder, whatever its name and folder; empty for a model without any.

    It is that of the numbers in half precision, in which checkpoints store them.
    """
    matrices = [value for name, value in weights.items() if name.startswith(BACKBONE) and value.dim() == 2]
    if not matrices:
        return ""
    return blake2b(matrices[-1].detach().cpu().to(torch.float16).numpy().tobytes(), digest_size=8).hexdigest()


@cache
def _priors() -> Mapping[str, EncoderPriors]:
    return TypeAdapter(dict[str, EncoderPriors]).validate_json((files("ap_ranker.ranking") / FILE).read_bytes())


RANDOM_QUESTIONS = tuple(Path(__file__).with_name("random_questions.txt").read_text(encoding="utf-8").splitlines())
"""Letters at random, and questions in several languages that hardly any FAQ answers."""

SAMPLE = 100
"""Number of texts that are compared with these questions: with more, their mean score hardly changes."""

REACHED = 0.9
"""Share of these questions whose best score the floor of a FAQ lies above: untrained, on the dev questions of seven
FAQs, 85 % of other matters are then below, and 5 % of what can be answered; at .95, 92 and 8 % (see `examples`)."""


def random_scores(ranker: Ranker, texts: Sequence[str]) -> NDArray[np.float64]:
    """(Q, N) the model's scores of these questions with a sample of the texts of a FAQ.

    Their mean is the FAQ's background: it tells apart FAQs, and languages that an encoder has not read, whose scores
    are all higher or all lower. The sample is the same in any order of the texts, and mostly with one more.
    """
    sample = sorted(texts, key=lambda text: blake2b(text.encode("utf-8", "replace")).digest())[:SAMPLE]
    asked = ranker.encode_questions(RANDOM_QUESTIONS)
    parts = ranker.answer_states(sample, rounded=True)
    with torch.inference_mode():
        scores = torch.cat([ranker.model.match(asked, states) for _, states in parts], dim=1)
    return scores.double().cpu().numpy()


def floor_of(best: NDArray[np.float64]) -> float:
    """What most of these questions do not reach, of their (Q,) best scores: less is not worth showing."""
    return float(np.quantile(best, REACHED))
