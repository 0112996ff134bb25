"""`FastBert` is the forward pass for ranking on a CPU: fewer operators and weights in half the bytes. A short text is
bound by reading weights and by the overhead of each operator. So the three projections of a layer's attention are one,
an activation is part of its product, weights lie as oneDNN reads them, and they are bfloat16 where the CPU has
instructions for it. Sums, norms and the result stay in float32. Should a version of torch lack the operators, `checked`
says so and `Bert` reads the texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from ap_ranker.models.bert import Bert
from ap_ranker.models.private_operators import packed_linear

logger = logging.getLogger(__name__)

FEW_TOKENS = 32
"""Up to here, products have as many rows as tokens. Above, their number is rounded up: each new one leaves 2.6 MB with
all-MiniLM-L6-v2, among it oneDNN's programs; a server grew by 250 MB a process in five thousand questions."""

LEAST_ROWS = 2
"""Of a product. oneDNN gives a row the same sums among any 2 to 2,048 rows, at any place among them (AVX2, AVX-512 and
its bfloat16; 1 to 16 threads). A row alone is summed in another order if it has 1,536 numbers or more."""

ATTENTION_WIDTH = 16
"""Texts are attended to at multiples of this width: torch computes a softmax in vectors of 16 numbers and what is left
one by one, which changes a score by up to .007. At 16, 32, ... 256 states are equal to the last bit, at no cost."""

LEAST_COSINE = 0.999
"""Of a token's state and what transformers computes; with bfloat16, those of all-MiniLM-L6-v2 have 0.9999."""


class FastBert:
    """A copy, with matrices of a dtype, of the weights of a backbone on a CPU, to be made again when they change."""

    reads_apart = True
    """Whether a text has the same states, to the last bit, whatever is read beside it; `checked` tries."""

    def __init__(self, backbone: Bert, dtype: torch.dtype) -> None:
        table, heads, self._dtype = backbone.embeddings, int(backbone.config.num_attention_heads), dtype
        self._words, self._norm = table.word_embeddings, table.LayerNorm
        places = table.position_embeddings.weight.detach()[table.first :]
        places = places + table.token_type_embeddings.weight.detach()[0]
        self._places = F.pad(places, (0, 0, 0, ATTENTION_WIDTH))  # those beyond are padding's
        self._layers = [_packed_layer(layer, heads, dtype) for layer in backbone.encoder.layer]

    @classmethod
    def checked(cls, backbone: Bert, dtype: torch.dtype) -> Self | None:
        """A copy that computes what the backbone does; `None`, which is logged, if there can be none."""
        ids = torch.arange(10, 34).reshape(2, 12) % backbone.config.vocab_size
        mask = torch.ones_like(ids, dtype=torch.bool)
        mask[1, 9:] = False
        expected = backbone(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        try:
            fast = cls(backbone, dtype)
            found = fast(ids, mask)
            cosine = F.cosine_similarity(found, expected, dim=2)[mask].min().item()
            alone, among_many = fast(ids[1:, :9], mask[1:, :9]), fast(ids.repeat(4, 1), mask.repeat(4, 1))
            fast.reads_apart = all(bool((others[1::2, :9] == alone).all()) for others in (found, among_many))
            if dtype == torch.bfloat16 and torch.cpu.get_capabilities().get("amx_bf16"):
                fast.reads_apart = False  # seldom, AMX rounds a sum otherwise among more than 32 rows
            reason = f"its states have a cosine of {cosine:.4f} with theirs"
        except (AttributeError, NotImplementedError, RuntimeError, TypeError) as error:  # operators of this torch
            cosine, reason = 0.0, repr(error)
        if cosine >= LEAST_COSINE:
            return fast
        logger.warning("Texts are read by transformers, more slowly than by our own forward pass: %s.", reason)
        return None

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(N, T, H) hidden states of (N, T) ids, attending to those of the mask (N, T); zero where it is not set."""
        length = ids.shape[1]
        ids, mask = (F.pad(part, (0, -length % ATTENTION_WIDTH)) for part in (ids, mask))
        tokens = _Tokens(mask, length, self._dtype)
        places = tokens.packed(torch.arange(ids.shape[1]).expand(ids.shape))
        states: Tensor = self._norm(self._words(tokens.packed(ids)) + self._places[places])
        for layer in self._layers:
            states = layer(states, tokens)
        return tokens.padded(states)[:, :length]


def _packed_layer(layer: Any, heads: int, dtype: torch.dtype) -> Callable[[Tensor, _Tokens], Tensor]:
    own, output = layer.attention.self, layer.attention.output
    project = packed_linear(own.query, own.key, own.value, dtype=dtype)
    join, narrow = (packed_linear(each.dense, dtype=dtype) for each in (output, layer.output))
    widen = packed_linear(layer.intermediate.dense, dtype=dtype, activation="gelu")

    def forward(states: Tensor, tokens: _Tokens) -> Tensor:
        query, key, value = tokens.padded(project(states.to(dtype))).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=tokens.attended_to).transpose(1, 2)
        states = output.LayerNorm(states + join(tokens.packed(attended).flatten(1)))
        return layer.output.LayerNorm(states + narrow(widen(states.to(dtype))))

    return forward


class _Tokens:
    """The tokens of N texts one after another: no work is spent on padding but that of `_rows_for`."""

    def __init__(self, mask: Tensor, length: int, dtype: torch.dtype) -> None:
        self._shape, self._count = mask.shape, int(mask.sum())
        self._rows = _rows_for(self._count)
        # Those of one text stand one after another already.
        self._is_one_text = len(mask) == 1 and self._count == length and self._rows <= mask.numel()
        if not self._is_one_text:
            self._places = F.pad(mask.flatten().nonzero().squeeze(1), (0, self._rows - self._count))
        self.attended_to = None  # or what is added to attention's products, so that padding counts nothing
        if self._count < mask.numel():
            self.attended_to = torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, -torch.inf)[:, None, None]

    def packed(self, values: Tensor) -> Tensor:
        """(N, T, ...) -> (tokens, ...)"""
        flat = values.flatten(0, 1)
        return flat[: self._rows] if self._is_one_text else flat[self._places]

    def padded(self, values: Tensor) -> Tensor:
        """(tokens, C) -> (N, T, C), zero on padding."""
        if self._is_one_text:
            return F.pad(values[: self._count], (0, 0, 0, self._shape.numel() - self._count)).unsqueeze(0)
        flat = values.new_zeros(self._shape.numel(), values.shape[1])
        return flat.index_copy_(0, self._places[: self._count], values[: self._count]).unflatten(0, self._shape)


def _rows_for(tokens: int) -> int:
    """The rows of a product for so many tokens, of which the last ones may be padding: 15, or an eighth, at most."""
    step = 1 if tokens <= FEW_TOKENS else 2 ** max(4, tokens.bit_length() - 4)
    return -(-max(tokens, LEAST_ROWS) // step) * step
