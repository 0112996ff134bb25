"""BERT (Devlin et al. 2019) and RoBERTa, whose positions begin elsewhere; weights are named as in transformers.

Transformers computes the same; but its module of BERT brings along torch's compiler, scipy and 1,500 files more, which
take longer to import than a FAQ takes to be read.

`FastBert` is the forward pass for ranking on a CPU: fewer operators and weights in half the bytes. A short text is
bound by reading weights and by the overhead of each operator. So the three projections of a layer's attention are one,
an activation is part of its product, weights lie as oneDNN reads them, and they are bfloat16 where the CPU has
instructions for it. Sums, norms and the result stay in float32. Should a version of torch lack the operators, `checked`
says so and `Bert` reads the texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ap_ranker.models.private_operators import packed_linear

logger = logging.getLogger(__name__)

FAMILIES = ("bert", "roberta", "xlm-roberta", "camembert")
"""Architectures, by transformers' `model_type`, that are this one."""

MINILM = {
    "model_type": "bert",
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,
    "pad_token_id": 0,
}
"""The default encoder's architecture, and what must be known of any."""

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


class Bert(nn.Module):
    """The encoder without its pooler and without dropout; of an architecture that it `reads`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.config = SimpleNamespace(**{**config, "_attn_implementation": "sdpa"})
        self.embeddings = _Embeddings(self.config)
        layers = nn.ModuleList(_Layer(self.config) for _ in range(self.config.num_hidden_layers))
        self.encoder: Any = nn.ModuleDict({"layer": layers})
        for module in self.modules():
            _initialise(module, float(self.config.initializer_range))

    @staticmethod
    def reads(config: Mapping[str, Any]) -> bool:
        """Whether a checkpoint's configuration of an encoder describes this architecture, completely."""
        return (
            config.get("model_type") in FAMILIES
            and config.get("hidden_act") == "gelu"
            and config.get("position_embedding_type") in (None, "absolute")
            and not config.get("is_decoder")
            and config.keys() >= MINILM.keys()
            and isinstance(config["layer_norm_eps"], float)
            and config["hidden_size"] % config["num_attention_heads"] == 0
        )

    @property
    def device(self) -> torch.device:
        return self.embeddings.word_embeddings.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embeddings.word_embeddings.weight.dtype

    def set_attn_implementation(self, name: str) -> None:
        """Compute attention by torch's fused operator, `sdpa`, or step by step, `eager`."""
        self.config._attn_implementation = name

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """The `last_hidden_state` (N, T, H) of (N, T) ids, attending to tokens whose mask (N, T) is 1."""
        attended_to = attention_mask.bool()[:, None, None]
        attend = _eager if self.config._attn_implementation == "eager" else F.scaled_dot_product_attention
        states = self.embeddings(input_ids)
        for layer in self.encoder.layer:
            states = layer(states, attended_to, attend)
        return SimpleNamespace(last_hidden_state=states)


class _Embeddings(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        size, padding = config.hidden_size, config.pad_token_id
        self.first = 0 if config.model_type == "bert" else padding + 1  # as in fairseq, after the padding's
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=padding)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(self.first, self.first + ids.shape[1], device=ids.device)
        words = self.word_embeddings(ids) + self.position_embeddings(positions)
        return self.LayerNorm(words + self.token_type_embeddings.weight[0])


class _Layer(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        size, wide = config.hidden_size, config.intermediate_size
        self._heads = config.num_attention_heads
        own = nn.ModuleDict({name: nn.Linear(size, size) for name in ("query", "key", "value")})
        self.attention: Any = nn.ModuleDict({"self": own, "output": _residual(size, size, config)})
        self.intermediate: Any = nn.ModuleDict({"dense": nn.Linear(size, wide)})
        self.output: Any = _residual(wide, size, config)

    def forward(self, states: Tensor, attended_to: Tensor, attend: Any) -> Tensor:
        own = self.attention.self
        projected = [projection(states) for projection in (own.query, own.key, own.value)]
        query, key, value = (part.unflatten(2, (self._heads, -1)).transpose(1, 2) for part in projected)
        attended = attend(query, key, value, attn_mask=attended_to).transpose(1, 2).flatten(2)
        output = self.attention.output
        states = output.LayerNorm(output.dense(attended) + states)
        return self.output.LayerNorm(self.output.dense(F.gelu(self.intermediate.dense(states))) + states)


def _residual(inputs: int, outputs: int, config: Any) -> nn.Module:
    """What ends both halves of a layer; the layer adds its own input before the norm."""
    norm = nn.LayerNorm(outputs, eps=config.layer_norm_eps)
    return nn.ModuleDict({"dense": nn.Linear(inputs, outputs), "LayerNorm": norm})


def _eager(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor) -> Tensor:
    scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    return scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min).softmax(dim=-1) @ value


@torch.no_grad()
def _initialise(module: nn.Module, deviation: float) -> None:
    """Random weights as transformers begins with; those of a checkpoint replace them."""
    if isinstance(module, nn.Linear | nn.Embedding):
        module.weight.normal_(0.0, deviation)
    if isinstance(module, nn.Linear):
        module.bias.zero_()
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        module.weight[module.padding_idx].zero_()


# --- for ranking on a CPU ---


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
    join, widen, narrow = (
        packed_linear(each.dense, dtype=dtype) for each in (output, layer.intermediate, layer.output)
    )

    def forward(states: Tensor, tokens: _Tokens) -> Tensor:
        query, key, value = tokens.padded(project(states)).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=tokens.attended_to).transpose(1, 2)
        states = output.LayerNorm(states + join(tokens.packed(attended).flatten(1)))
        return layer.output.LayerNorm(states + narrow(widen(states, "gelu")))

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
