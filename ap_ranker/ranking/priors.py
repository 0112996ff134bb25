"""What was learnt from public FAQs about untrained encoders: how probable is it that a first answer is right?

    p = sigmoid(a (f - g) + b m + c)        f the score, m the margin (`rule.py`), g the FAQ's background

The background g (`random_questions.py`) is measured on the FAQ to be searched, so that FAQs whose scores are all
higher, as those in a language that the encoder has not read, need no other numbers. `examples/no_answer` fits a prior
for each encoder that it is given, and writes `priors.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from ap_ranker.ranking.rule import Basis, Calibration
from ap_ranker.settings import read_fields, settings

FILE = "priors.json"

_ENCODER = "encoder.backbone."  # where a model's pretrained weights begin


@settings
class Prior:
    """What is known of an untrained encoder: a, b and c; the thresholds of target precisions; `floor`, above g.

    `encoder` is its name, `faqs` and `questions` are those that it was fitted to.
    """

    encoder: str
    score: Annotated[float, Field(ge=0)]
    margin: Annotated[float, Field(ge=0)]
    bias: float
    thresholds: Mapping[str, Annotated[float, Field(ge=0, le=1)]]
    floor: float
    faqs: Sequence[str]
    questions: int

    def calibration(self, background: float) -> Calibration:
        """The calibration of a FAQ with this background."""
        bias = self.bias - self.score * background
        return Calibration(
            self.score, self.margin, bias, self.thresholds, floor=background + self.floor, basis=Basis.PRIOR
        )


def find_prior(weights: Mapping[str, Tensor]) -> Prior | None:
    """The prior of the encoder in a model with these weights; `None` if it is none that a prior was fitted with."""
    return _priors().get(encoder_key(weights))


def encoder_key(weights: Mapping[str, Tensor]) -> str:
    """A hash of the last matrix of a model's encoder, whatever its name and folder; empty for a model without any."""
    matrices = [value for name, value in weights.items() if name.startswith(_ENCODER) and value.dim() == 2]
    if not matrices:
        return ""
    last = matrices[-1]
    return blake2b(last.detach().cpu().to(torch.float32).numpy().tobytes(), digest_size=8).hexdigest()


@cache
def _priors() -> Mapping[str, Prior]:
    text = (files("ap_ranker.ranking") / FILE).read_text(encoding="utf-8")
    return {key: read_fields(Prior, values, f"{FILE}: {key}") for key, values in json.loads(text).items()}
