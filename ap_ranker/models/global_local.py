"""TF-LSTM and global-local attention: a token's weight depends on all words of its answer (Bachrach et al. 2017).

    x_tf = the 0/1 vector of the words and punctuation marks in text x    (V,)    section III-A
    a_i, q_i = biLSTM(E_a), biLSTM(E_q)                                   (C,)    one per token
    joint(t, r) = [0.5 t/|t| ; 1.0 r/|r|]                                         section IV-B
    f(q) = the mean of the q_i
    b_tf = tanh(W1 a_tf),  b_i = W2 a_i                                           global and local view of the answer
    h_i = joint(b_tf, b_i)
    α = softmax over i of cos(W3 h_i, W4 f(q))
    â = Σ α_i a_i                                                                 section IV-C
    s(q, a) = cos(joint(q_tf, f(q)), joint(a_tf, â))                              section IV-D

The halves have the lengths 0.5 (0 without known words) and 1, so s = (0.25 cos(q_tf, a_tf) + cos(f(q), â)) / 1.25,
without any vocabulary-sized vector. Likewise W1 a_tf is a sum of columns of W1, one for each word of the answer.

TF-LSTM, the baseline of section V-B, has no attention: s(q, a) = cos(joint(tanh(W1 q_tf), f(q)), joint(tanh(W1 a_tf),
f(a))).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ap_ranker.models.base import Attention, CosineModel, Siamese, States, WordModel
from ap_ranker.models.layers import BiLSTM
from ap_ranker.models.operations import bag_cosine, first_occurrence, masked_softmax, mean_pool, unit
from ap_ranker.models.spec import DROPOUT, HIDDEN, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch

GLOBAL = 0.5
"""α of section IV-B, the length of the global half of a joint vector; the local half has length β = 1."""


def joint(t: Tensor, r: Tensor) -> Tensor:
    """Concatenate two vectors (..., F), (..., C), each scaled to its length -> (..., F + C)."""
    return torch.cat([GLOBAL * unit(t), unit(r)], dim=-1)


class GlobalView(nn.Module):
    """tanh(W1 x_tf), with W1 transposed: a row for each word."""

    def __init__(self, vocabulary_size: int, size: int) -> None:
        super().__init__()
        self.W1 = nn.EmbeddingBag(vocabulary_size, size, mode="sum")
        nn.init.normal_(self.W1.weight, std=0.1)  # small: the sum over a hundred words must not saturate tanh

    def forward(self, ids: Tensor) -> Tensor:
        """(N, T) -> (N, F)."""
        return torch.tanh(self.W1(ids, per_sample_weights=first_occurrence(ids).to(self.W1.weight.dtype)))


class TFLSTM(Siamese):
    """A text's vector joins its words and the mean of its biLSTM states."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.lstm = BiLSTM(inputs.embedding_size, options.hidden)
        self.global_view = GlobalView(len(inputs.words), options.tf_size)

    def represent(self, batch: TokenBatch) -> Tensor:
        f = mean_pool(self.lstm(self.embedding(batch), batch.mask), batch.mask)
        return joint(self.global_view(batch.ids), f)


class GlobalLocal(CosineModel, WordModel):
    """The question attends to each token of the answer by its local state and by the words of the whole answer."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.lstm = BiLSTM(inputs.embedding_size, options.hidden)
        self.global_view = GlobalView(len(inputs.words), options.tf_size)
        self.W2 = nn.Linear(self.lstm.state_size, options.attention, bias=False)
        self.W3 = nn.Linear(options.tf_size + options.attention, options.attention, bias=False)
        self.W4 = nn.Linear(self.lstm.state_size, options.attention, bias=False)

    def encode(self, batch: TokenBatch) -> States:
        a = self.lstm(self.embedding(batch), batch.mask)
        b_tf = self.global_view(batch.ids).unsqueeze(1).expand(-1, a.shape[1], -1)
        h = joint(b_tf, self.W2(a))
        views = unit(self.W3(h)) * batch.mask.unsqueeze(2)
        return States(batch.mask, {"states": a, "views": views, "ids": batch.ids})

    def encode_questions(self, batch: TokenBatch) -> States:
        f = mean_pool(self.lstm(self.embedding(batch), batch.mask), batch.mask)
        return States(batch.mask, {"ids": batch.ids}, {"vector": f})

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention:
        return Attention(None, self.alpha(self.encode_questions(questions), self.encode_answers(answers)))

    def alpha(self, questions: States, answers: States) -> Tensor:
        """(B, N, L) the weights α of every pair."""
        raw = torch.einsum("bf,nlf->bnl", unit(self.W4(questions.per_text["vector"])), answers.per_token["views"])
        return masked_softmax(raw, answers.mask)

    def match(self, questions: States, answers: States) -> Tensor:
        f_q = questions.per_text["vector"]
        a = answers.per_token["states"]
        a_hat = (self.alpha(questions, answers).transpose(0, 1) @ a).transpose(0, 1)  # (B, N, C)
        local = (unit(f_q).unsqueeze(1) * unit(a_hat)).sum(dim=2)
        words = bag_cosine(questions.per_token["ids"], answers.per_token["ids"], local.dtype)
        has_question_words = first_occurrence(questions.per_token["ids"]).any(dim=1).to(local.dtype)
        has_answer_words = first_occurrence(answers.per_token["ids"]).any(dim=1).to(local.dtype)
        norms = torch.outer(1 + GLOBAL**2 * has_question_words, 1 + GLOBAL**2 * has_answer_words)
        return (GLOBAL**2 * words + local) / norms.sqrt()


_TF_SIZE = Option(50, "size of the global view b_tf, made of the words alone")

TF_LSTM = ModelSpec(
    name="tf-lstm",
    paper="Bachrach et al., An Attention Mechanism for Neural Answer Selection Using a Combined Global and Local View",
    year=2017,
    family="global-local",
    cached="one vector",
    build=TFLSTM,
    options={"hidden": HIDDEN, "tf_size": _TF_SIZE, "dropout": DROPOUT},
    recipe=Recipe("hinge", "adam", dropout=0.3, own_negatives=True),  # the paper names these, but no numbers
)
GLOBAL_LOCAL = replace(
    TF_LSTM,
    name="global-local",
    cached="token states",
    build=GlobalLocal,
    attention_over="answer",
    options={
        "hidden": HIDDEN,
        "tf_size": _TF_SIZE,
        "attention": Option(140, "size of the local view b_i and of the vectors whose cosine is a token's weight"),
        "dropout": DROPOUT,
    },
)
