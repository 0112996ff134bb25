"""LW-biLSTM: a second biLSTM weights a text's tokens without seeing the other text (Rücklé & Gurevych 2017).

H = biLSTM(E)                      (T, C)
H' = biLSTM'(H)                    (T, C')   reads the states of the first
α = softmax over t of w^T h'(t)
r = Σ α(t) h(t)                    (C,)
s(q, a) = cos(r_q, r_a)

Unlike other attention it needs only one text, so an answer's vector is computed once for all questions.
"""

from __future__ import annotations

from torch import Tensor, nn

from ap_ranker.models.base import Attention
from ap_ranker.models.encoders import BiLSTM
from ap_ranker.models.kinds import SIMILARITY, Siamese
from ap_ranker.models.operations import masked_softmax
from ap_ranker.models.spec import DROPOUT, HIDDEN, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.batch import TokenBatch


class LWBiLSTM(Siamese):
    """A text's vector is the sum of its states, weighted by their importance."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.encoder = BiLSTM(inputs.embedding_size, options.hidden)
        self.importance = BiLSTM(self.encoder.state_size, options.importance)
        self.w = nn.Linear(self.importance.state_size, 1, bias=False)

    def read(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """H (N, T, C) and α (N, T)."""
        H = self.encoder(self.embedding(batch), batch.mask)
        scores = self.w(self.importance(H, batch.mask)).squeeze(2)
        return H, masked_softmax(scores, batch.mask)

    def represent(self, batch: TokenBatch) -> Tensor:
        H, alpha = self.read(batch)
        return (alpha.unsqueeze(1) @ H).squeeze(1)

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention:
        """α of either text, which does not depend on the other text."""
        (_, alpha_q), (_, alpha_a) = self.read(questions), self.read(answers)
        return Attention(alpha_q.unsqueeze(1).expand(-1, len(alpha_a), -1), alpha_a.expand(len(alpha_q), -1, -1))


# Sizes and recipe: the authors' configuration for InsuranceQA v2, where questions and answers share all weights.
SPEC = ModelSpec(
    name="lw-bilstm",
    paper="Rücklé & Gurevych, Representation Learning for Answer Selection with LSTM-Based Importance Weighting",
    year=2017,
    cached="one vector",
    build=LWBiLSTM,
    attention_over="both",
    options={
        "hidden": HIDDEN,
        "importance": Option(141, "units, in each direction, of the LSTM that weights the tokens"),
        "similarity": SIMILARITY,
        "dropout": DROPOUT,
    },
    recipe=Recipe("hinge", "adam", 4e-4, batch_size=20, margin=0.2),
)
