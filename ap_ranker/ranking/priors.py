"""What was learnt from public FAQs about untrained encoders: how probable is it that a first answer is right?

    p = sigmoid(a (f - g) + b m + c)        f the score, m the margin (`rule.py`), g the FAQ's background

The background g (`random_questions.py`) is measured on the FAQ to be searched, so that FAQs whose scores are all
higher, as those in a language that the encoder has not read, need no other numbers. `examples/no_answer` fits a prior
for each encoder that it is given, and writes `priors.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files

import torch
from torch import Tensor

from ap_ranker.models.pretrained import BACKBONE
from ap_ranker.ranking.rule import Basis, Calibration

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

    `encoder` is its name, `languages` are the codes of those that it has read.
    """

    encoder: str
    languages: Sequence[str]
    stored: Prior
    documents: Prior
    foreign: Prior

    def of(self, language: str | None, *, stored: bool) -> Prior:
        """That of texts in a language, `None` if it is unknown, with `stored` questions or not."""
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
    found = json.loads((files("ap_ranker.ranking") / FILE).read_text(encoding="utf-8"))
    kinds = ("stored", "documents", "foreign")
    return {
        key: EncoderPriors(**{**values, **{kind: Prior(**values[kind]) for kind in kinds}})
        for key, values in found.items()
    }
