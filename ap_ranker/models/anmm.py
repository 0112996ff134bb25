"""aNMM: a matching signal's weight depends on its value, not on its position (Yang et al. 2016).

    P_ij = cos(q_i, a_j)                                 the matching signal of two words
    x_jk = sum of question word j's signals in bin k     bins of width 0.1 from -1 up to 1, and one for 1 itself, an
                                                         exact match: 21 in all
    τ_j  = softmax over question words of v · q_j        the question attention network

    aNMM-1    s = sum_j τ_j δ(sum_k w_k x_jk)                        δ is the logistic sigmoid
    aNMM-2    s = sum_j τ_j δ(sum_t r_t δ(sum_k w_kt x_jk))          several sets of weights

A signal's bin has no derivative, but its value has: the word vectors learn through x. Words that the vocabulary lacks
share one vector, so that two of them are an exact match, whichever they are.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from ap_ranker.models.base import Attention, States, WordModel
from ap_ranker.models.operations import masked_softmax, unit
from ap_ranker.models.spec import DROPOUT, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch

PER_UNIT = 10  # bins between 0 and 1
BINS = 2 * PER_UNIT + 1
ROUNDING = 1e-5  # by how much it may lower a word's cosine with itself below 1


class ANMM(WordModel):
    """The weighted mean, over the question's words, of how well each is matched by `network`, (..., 21) -> (..., 1).

    aNMM-2 has `several` sets of weights.
    """

    temperature = 0.05  # the scores lie between 0 and 1

    def __init__(self, inputs: Inputs, options: Options, *, several: bool) -> None:
        network = _network(options.weights if several else 0)
        super().__init__(inputs, options)
        self.network = network
        self.v = nn.Linear(inputs.embedding_size, 1, bias=False)

    def encode(self, batch: TokenBatch) -> States:
        """The words themselves: the vector of one, rounded in a cache, would be no exact match of the same word."""
        return States(batch.mask, {"ids": self.embedding.apply_word_dropout(batch)})

    def encode_questions(self, batch: TokenBatch) -> States:
        embedded = self.embedding(batch)
        attention = masked_softmax(self.v(embedded).squeeze(2), batch.mask)
        return States(batch.mask, {"words": unit(embedded), "attention": attention.unsqueeze(2)})

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention:
        tau = self.encode_questions(questions).per_token["attention"]
        return Attention(tau.squeeze(2).unsqueeze(1).expand(-1, len(answers.ids), -1), None)

    def match(self, questions: States, answers: States) -> Tensor:
        Q = questions.per_token["words"]
        A = self.embedding.framed(answers.per_token["ids"], 0, 0)
        B, M, _ = Q.shape
        N, L = A.indices.shape
        # Not in bfloat16, as a GPU trains: a word's cosine with itself may be below 1 there, which is no exact match.
        with torch.autocast(Q.device.type, enabled=False):
            P = (Q.flatten(0, 1) @ unit(A.vectors).T).index_select(1, A.indices.flatten()).view(B, M, N, L)
        # The signals of padding are zero and add nothing to their bin.
        bins = ((P.detach() + 1) * PER_UNIT).long().clamp(0, BINS - 2).masked_fill(P > 1 - ROUNDING, BINS - 1)
        x = P.new_zeros(B, M, N, BINS).scatter_add(3, bins, P)
        attention = questions.per_token["attention"].unsqueeze(2)
        return (attention * self.network(x)).sum(dim=(1, 3))

    def scale(self, scores: Tensor) -> Tensor:
        return scores


def _network(sets: int) -> nn.Sequential:
    """By one set of weights for the bins; or by several, whose outputs r weights."""
    r = nn.Linear(sets, 1, bias=False) if sets else None
    bins = nn.Linear(BINS, sets or 1, bias=False)
    with torch.no_grad():  # a bin's weight begins near its value, if that is positive: good matches score higher
        bins.weight.add_(torch.linspace(-1, 1, BINS).clamp_min(0))
    if r is None:
        return nn.Sequential(bins, nn.Sigmoid())
    nn.init.constant_(r.weight, 0.5)  # at first every output raises the score
    return nn.Sequential(bins, nn.Sigmoid(), r, nn.Sigmoid())


ANMM_1 = ModelSpec(
    name="anmm-1",
    paper="Yang, Ai, Guo & Croft, aNMM: Ranking Short Answer Texts with Attention-Based Neural Matching Model",
    year=2016,
    cached="token ids",
    build=partial(ANMM, several=False),
    attention_over="question",
    options={"dropout": DROPOUT},
    recipe=Recipe("hinge", "sgd", margin=1.0),  # the objective is the paper's, the rest of it ours
)
ANMM_2 = replace(
    ANMM_1,
    name="anmm-2",
    build=partial(ANMM, several=True),
    options={"weights": Option(5, "sets of weights for the bins (the paper tunes it)"), "dropout": DROPOUT},
)
