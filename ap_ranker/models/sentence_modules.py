"""What an encoder does beside its transformer: its prompts, the pooling of token states, and linear layers.

All is computed as the modules of sentence-transformers do (Reimers & Gurevych 2019). A checkpoint keeps what differs
from the usual.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from torch import Tensor, nn
from torch.nn import functional as F

from ap_ranker.errors import InputError
from ap_ranker.models.operations import exact
from ap_ranker.settings import read_fields, settings

KEY = "sentence"  # where a checkpoint's encoder configuration keeps `SentenceSettings`, but for the usual ones

Pooling = Literal["mean", "cls", "lasttoken", "max", "mean_sqrt_len_tokens", "weightedmean"]
"""The mean of the token states, the first, the last, the largest numbers, the sum by the root of their number, or the
mean in which the n-th token counts n times (Muennighoff 2022)."""

Activation = Literal["Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"]

Token = Annotated[int, Field(ge=0)]
Prompt = Annotated[tuple[Token, ...], Field(strict=False)]  # JSON has lists
Gap = Annotated[str, Field(pattern="^ *$", max_length=9)]


@settings
class Layer:
    """A linear layer (`Dense`) of token states or of the pooled vector."""

    size: Annotated[int, Field(ge=1)]  # of its output
    bias: bool = True
    activation: Activation = "Tanh"
    residual: bool = False  # whether its input is added to its output
    normalized: bool = False  # whether its input is scaled to length 1


def _layers(stored: Any) -> Any:
    return tuple(read_fields(Layer, each, "a layer") for each in stored) if isinstance(stored, list) else stored


Layers = Annotated[tuple[Layer, ...], BeforeValidator(_layers)]


@settings
class SentenceSettings:
    """What an encoder does beside its transformer."""

    pooling: Pooling = "mean"  # how token states become one vector
    question_prompt: Prompt = ()  # token ids read before a question's own
    answer_prompt: Prompt = ()
    leading: Token = 0  # number of special tokens before the prompt, such as [CLS]
    question_gap: Gap = ""  # between a prompt and a text, if the tokenizer counts it to the text's first word
    answer_gap: Gap = ""
    include_prompt: bool = True  # whether pooling counts a prompt and what is before it
    token_layers: Layers = ()  # of each token's state, before pooling
    layers: Layers = ()  # of the pooled vector
    dimensions: Token = 0  # numbers of the vector that are kept; 0 for all

    @classmethod
    def of(cls, encoder: Mapping[str, Any]) -> SentenceSettings:
        """Read them from a checkpoint's encoder configuration; InputError if they are damaged."""
        found = read_fields(cls, encoder.get(KEY, {}), f"encoder.{KEY}")
        size, largest = encoder.get("vocab_size"), max(found.question_prompt + found.answer_prompt, default=-1)
        if isinstance(size, int) and largest >= size:
            raise InputError(f"encoder.{KEY}: expected token ids below {size}, found {largest}.")
        return found

    def config(self) -> dict[str, Any]:
        """What the encoder configuration keeps of them: nothing if all are the usual ones."""
        usual = asdict(SentenceSettings())
        kept = {name: value for name, value in asdict(self).items() if value != usual[name]}
        return {KEY: json.loads(json.dumps(kept))} if kept else {}


class Dense(nn.Module):
    """(..., C) -> (..., D); its weights have the names that sentence-transformers stores them by."""

    def __init__(self, inputs: int, layer: Layer) -> None:
        super().__init__()
        self._layer = layer
        self.linear = nn.Linear(inputs, layer.size, bias=layer.bias)
        self.residual = nn.Linear(inputs, layer.size, bias=False) if layer.residual and inputs != layer.size else None
        self._activation: nn.Module = getattr(nn, layer.activation)()

    def forward(self, states: Tensor) -> Tensor:
        values = exact(F.normalize(states, dim=-1) if self._layer.normalized else states)
        bias = self.linear.bias if self.linear.bias is None else exact(self.linear.bias)
        output: Tensor = self._activation(F.linear(values, exact(self.linear.weight), bias))
        if self._layer.residual:
            output = output + (values if self.residual is None else F.linear(values, exact(self.residual.weight)))
        return output.to(states.dtype)


def dense(inputs: int, layers: Sequence[Layer]) -> tuple[nn.Sequential, int]:
    """The layers one after another, and the size of what the last one returns."""
    sizes = [inputs, *(layer.size for layer in layers)]
    return nn.Sequential(*map(Dense, sizes, layers)), sizes[-1]
