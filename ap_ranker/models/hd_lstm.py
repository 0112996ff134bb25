"""HD-LSTM: two LSTMs read question and answer; circular correlation joins them (Tay et al. 2017, section 3).

    q = the last state of Q-LSTM, a = the last state of A-LSTM         two stacks of LSTM layers, one embedding
    [q ⋆ a]_k = Σ_i q_i a_{(k+i) mod C}                                circular correlation
              = F⁻¹(conj(F(q)) ⊙ F(a))_k                               by the fast Fourier transform: C log C, not C²
    sim(q, a) = q^T M a                                                bilinear similarity
    h = tanh(W_h [q ⋆ a ; sim(q, a) ; X_feat] + b_h)                   the holographic hidden layer
    softmax(W_f h + b_f)

X_feat are two word-overlap features of Severyn & Moschitti 2015, over the sets of known words and
punctuation marks of both texts:
|q ∩ a| / (|q| + |a|), and the same with each shared word counted as its idf. The idf is of the training answers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ap_ranker.models.base import CLASSIFIER, Classifier, States, hidden_layer
from ap_ranker.models.layers import LSTM
from ap_ranker.models.operations import CorpusStatistics, first_occurrence, in_float32, last_pool
from ap_ranker.models.spec import Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import TokenBatch


class HDLSTM(Classifier):
    """One vector per text, from one LSTM per side; their correlation is classified."""

    statistics: CorpusStatistics

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.statistics = CorpusStatistics(inputs.words)
        self.q_lstm = LSTM(inputs.embedding_size, options.hidden, layers=options.layers)
        self.a_lstm = LSTM(inputs.embedding_size, options.hidden, layers=options.layers)
        self.M = nn.Linear(options.hidden, options.hidden, bias=False)
        self.head = hidden_layer(options.hidden + 3, options.head, options.classes, nn.Tanh)

    def encode(self, batch: TokenBatch) -> States:
        return self.read(batch, self.a_lstm)

    def encode_questions(self, batch: TokenBatch) -> States:
        return self.read(batch, self.q_lstm)

    def read(self, batch: TokenBatch, lstm: LSTM) -> States:
        """A token's `overlap` is its contribution to |q ∩ a| and to the idf-weighted form: (1, idf), once per word."""
        idf = self.statistics.idf(batch.ids)
        first = first_occurrence(batch.ids)
        overlap = torch.stack([torch.ones_like(idf), idf], dim=2) * first.unsqueeze(2)
        vector = last_pool(lstm(self.embedding(batch), batch.mask), batch.mask)
        size = first.sum(dim=1, keepdim=True)  # |q| or |a|
        return States(batch.mask, {"ids": batch.ids, "overlap": overlap}, {"vector": vector, "size": size})

    def features(self, questions: States, answers: States) -> Tensor:
        q = questions.per_text["vector"]
        a = answers.per_text["vector"]
        similarity = (q * self.M(a)).sum(dim=1, keepdim=True)
        shared = (questions.per_token["ids"][:, :, None] == answers.per_token["ids"][:, None, :]).any(dim=2)
        sizes = questions.per_text["size"] + answers.per_text["size"]  # 0 where neither text has a known word
        overlap = (questions.per_token["overlap"] * shared.unsqueeze(2)).sum(dim=1) / sizes.clamp(min=1)
        return torch.cat([correlate(q, a), similarity, overlap], dim=1)


def correlate(q: Tensor, a: Tensor) -> Tensor:
    """(P, C), (P, C) -> (P, C): circular correlation q ⋆ a."""
    # In half precision a GPU transforms powers of two only, a CPU nothing.
    q = in_float32(q)
    a = in_float32(a)
    return torch.fft.irfft(torch.fft.rfft(q).conj() * torch.fft.rfft(a), n=q.shape[1])


# Sizes and recipe: ours.
SPEC = ModelSpec(
    name="hd-lstm",
    paper="Tay, Phan, Luu & Hui, Learning to Rank Question Answer Pairs with Holographic Dual LSTM Architecture",
    year=2017,
    cached="one vector",
    build=HDLSTM,
    options={
        "hidden": Option(200, "units of each LSTM layer, so also the size of a text's vector (a GPU may have 640)"),
        "layers": Option(2, "LSTM layers on each side", most=16),
        "head": Option(200, "units of the holographic hidden layer"),
        **CLASSIFIER,
    },
    recipe=Recipe("pointwise", "adam", 1e-3, weight_decay=1e-5),
    objective="listwise",
)
