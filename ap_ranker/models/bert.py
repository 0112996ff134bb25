"""BERT (Devlin et al. 2019) and RoBERTa, whose positions begin elsewhere; weights are named as in transformers.

Transformers computes the same; but its module of BERT brings along torch's compiler, scipy and 1,500 files more, which
take longer to import than a FAQ takes to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
        size = config.hidden_size
        padding = config.pad_token_id
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
        size = config.hidden_size
        wide = config.intermediate_size
        self._heads = config.num_attention_heads
        own = nn.ModuleDict({name: nn.Linear(size, size) for name in ("query", "key", "value")})
        self.attention: Any = nn.ModuleDict({"self": own, "output": _residual(size, size, config)})
        self.intermediate: Any = nn.ModuleDict({"dense": nn.Linear(size, wide)})
        self.output: Any = _residual(wide, size, config)

    def forward(self, states: Tensor, attended_to: Tensor, attend: Any) -> Tensor:
        own = self.attention.self
        query = self._split_heads(own.query(states))
        key = self._split_heads(own.key(states))
        value = self._split_heads(own.value(states))
        attended = attend(query, key, value, attn_mask=attended_to).transpose(1, 2).flatten(2)
        output = self.attention.output
        states = output.LayerNorm(output.dense(attended) + states)
        return self.output.LayerNorm(self.output.dense(F.gelu(self.intermediate.dense(states))) + states)

    def _split_heads(self, projected: Tensor) -> Tensor:
        """(B, heads, L, size of a head) of (B, L, H)."""
        return projected.unflatten(2, (self._heads, -1)).transpose(1, 2)


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
