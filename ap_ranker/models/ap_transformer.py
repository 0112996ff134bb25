"""Attentive pooling over a pretrained transformer (ours; attentive pooling after dos Santos et al. 2016).

    H = transformer(text)                              (T, H)   one state per subword
    Q, A = H_q P^T, H_a P^T                            (M, C), (L, C)
    s(q, a) = attentive pooling of Q and A, as in attentive.py

P begins as the C directions in which the texts' mean states differ most, and U as a small multiple of the identity: the
attention is then nearly even, and the untrained score nearly the cosine of mean-pooled states, which the encoder was
trained for. With C = H it is exactly that cosine, except for what the attention adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ap_ranker.models.attentive import SHARPNESS, AttentivePooling
from ap_ranker.models.base import States
from ap_ranker.models.pooling import mean_pool
from ap_ranker.models.pretrained import DEFAULT_ENCODER, MINILM
from ap_ranker.models.spec import SHARE, Bounds, Inputs, ModelSpec, Option, Recipe
from ap_ranker.models.transformer_encoder import TransformerEncoder
from ap_ranker.text.batch import TokenBatch

ATTENTION = 0.02
"""What U makes of the product of two equal token states, sharpness included: little enough to change no ranking."""

ATTENTION_RATE = 0.01
"""The share of the learning rate at which the attention over a pretrained encoder learns. Its U begins as a small
multiple of the identity, and Adam's steps are of one size: at the full rate the first few make noise of it. Example FAQ
with 500 pairs, frozen encoder: dev MRR 0.717 untrained, 0.746 at this rate, 0.732 at the full one."""


class AttentivePoolingTransformer(AttentivePooling):
    """Attentive pooling whose token states a pretrained transformer makes."""

    encoder: TransformerEncoder

    def __init__(self, encoder: TransformerEncoder, sharpness: float) -> None:
        super().__init__(encoder.state_size, sharpness)
        self.encoder = encoder

    def encode(self, batch: TokenBatch) -> States:
        states: States = self.encoder(batch)
        return states

    def parameter_groups(self, rate: float, encoder_rate: float) -> list[dict[str, Any]]:
        """The encoder, which knows a language already, and the attention learn at rates of their own."""
        encoder = set(self.encoder.backbone.parameters())
        learnt = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return [
            {"params": [p for p in learnt if p not in encoder and p is not self.U], "lr": rate},
            {"params": [p for p in learnt if p in encoder], "lr": encoder_rate},
            {"params": [self.U], "lr": rate * ATTENTION_RATE},
        ]

    def cache_frozen_states(self) -> AbstractContextManager[None]:
        return self.encoder.cache_frozen_states()

    def load_pretrained(self, folder: Path, sample: Iterable[TokenBatch]) -> None:
        self.encoder.load_pretrained(folder)
        self.imitate_encoder(sample)

    @torch.inference_mode()
    def imitate_encoder(self, sample: Iterable[TokenBatch]) -> None:
        """Set P and U so that the untrained score is nearly the pretrained encoder's own (see the top of this file)."""
        encoder = self.encoder.eval()
        hidden = [(encoder.hidden(batch), batch.mask) for batch in sample]
        means = torch.cat([nn.functional.normalize(mean_pool(h, mask), dim=1) for h, mask in hidden])
        # The right singular vectors, largest first. Those of M^T M, because M has fewer of them than H with few texts.
        directions = torch.linalg.eigh(means.double().T @ means.double()).eigenvectors.T.flip(0)
        encoder.projection.weight.copy_(directions[: encoder.state_size])
        lengths = torch.cat([(h[mask] @ encoder.projection.weight.T).pow(2).sum(dim=1) for h, mask in hidden])
        self.U.copy_(
            ATTENTION / (self.sharpness * lengths.mean()) * torch.eye(encoder.state_size, device=self.U.device)
        )


def ap_transformer(
    inputs: Inputs, *, encoder: str, size: int, sharpness: float, dropout: float, frozen: bool
) -> AttentivePooling:
    """AP over a transformer, still with random weights; `encoder` names the pretrained ones for training."""
    del encoder
    states = TransformerEncoder(inputs.encoder or MINILM, size, dropout, frozen=frozen)
    return AttentivePoolingTransformer(states, sharpness)


SPECS = [
    ModelSpec(
        name="ap-transformer",
        paper="after dos Santos, Tan, Xiang & Zhou, Attentive Pooling Networks",
        year=2016,
        family="attentive-pooling",
        cached="token states",
        build=ap_transformer,
        attention_over="both",
        options={
            "encoder": Option(DEFAULT_ENCODER, "a pretrained encoder: a folder, or the name of a model on the hub"),
            "size": Option(
                0, "numbers of a token's state; 0 for as many as the encoder has", bounds=Bounds(least=0, most=4_096)
            ),
            "sharpness": replace(SHARPNESS, default=5.0),
            "dropout": Option(0.1, "share of the subwords hidden while training", bounds=SHARE),
            "frozen": Option(False, "keep the encoder as it is: trains in minutes on a CPU"),
        },
        recipe=Recipe("softmax", learning_rate=5e-4, schedule="linear", batch_size=64),
        pretrained=True,
    ),
]
