"""A pooled vector and the best match of each word, both from a pretrained transformer (ours).

    H = transformer(text)                              (T, H)   one state per subword
    p = R pooling(H), as the encoder was trained       (H,)     the mean of its rows, or the first
    Q = H_q P^T, rows of length 1                      (M, C)
    A = H_a P^T, rows of length 1, pairs of neighbours averaged, rows of length 1 again       (L/2, C)
    alpha = softmax(gamma log(idf) + H_q u)            (M,)     how much each question token counts
    word(q, a) = sum_i alpha_i max_j Q_i . A_j                  late interaction (Khattab & Zaharia 2020, equation 3)
    s(q, a) = (cos(p_q, p_a) + w word(q, a)) / (1 + w)          in -1..1

The question attends to the answer: its token i to the answer's pair of tokens most like it, so that a pair counts as
much as the question's tokens which it matches best. Attentive pooling (dos Santos et al. 2016) pools both texts by such
maxima again into one vector each; over states of a transformer that added nothing to their mean (docs/results).

gamma begins as 1, u as 0, so that alpha begins as rarity alone; w begins as what ranks a sample of the training
questions best while the encoder is as it was pretrained (`fit`). P begins as the C directions in which the states of
texts are largest; with C = H it only rotates them. R begins as the identity, and learns where the encoder does not.
With w = 0 the untrained score is the encoder's own.

An answer is one whole vector and a small state for every two tokens in int8: 4 KB for 110 tokens
(docs/archive/scaling.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ap_ranker.models.base import AnswerModel, Attention, CosineModel, JudgedCandidates, States
from ap_ranker.models.bert import MINILM
from ap_ranker.models.operations import CorpusStatistics, exact, masked_softmax, unit
from ap_ranker.models.pretrained import DEFAULT_ENCODER
from ap_ranker.models.spec import Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.models.transformer_encoder import TransformerEncoder
from ap_ranker.text.tokenizer import TokenBatch

WORD_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
"""The weights w that `fit` tries. A hundred questions sometimes choose a larger one by chance, which costs the example
FAQ a point of MRR; where a larger one is better, WikiQA and TREC-QA, it is so by 0.003."""

SCALAR_RATE = 20  # times the learning rate, for w and gamma: at the rate of a matrix, a single number would hardly move
TOKENS_PER_STATE = 2  # neighbours in an answer: on the example FAQ three cost a point of dev MRR, two at most half
SMALLEST_IDF = 1e-3  # the rarity of a token that every answer holds: it needs a logarithm


class PooledTransformer(CosineModel):
    """The cosine of pooled states: what a bi-encoder does. An answer is one vector."""

    capturable = True

    def __init__(self, encoder: TransformerEncoder, options: Options | None = None) -> None:
        super().__init__(options)
        self.encoder = encoder

    def encode(self, batch: TokenBatch) -> States:
        _, mask, pooled = self.encoder(batch, self.encoder.settings.answer_prompt)
        return States(mask, per_text={"pooled": pooled})

    def encode_questions(self, batch: TokenBatch) -> States:
        _, mask, pooled = self.encoder(batch, self.encoder.settings.question_prompt)
        return States(mask, per_text={"pooled": pooled})

    def match(self, questions: States, answers: States) -> Tensor:
        return _cosines(questions, answers).to(answers.per_text["pooled"].dtype)

    def text_vectors(self, states: States) -> Tensor:
        return states.per_text["pooled"]


class AttentiveTransformer(PooledTransformer):
    """The cosine of pooled vectors beside the best match of each question token, weighted by attention."""

    statistics: CorpusStatistics
    stored_bits = 8
    fit_questions = 100  # each may have a hundred answers of its own to encode

    def __init__(self, inputs: Inputs, options: Options) -> None:
        """The encoder's weights are random; `load_pretrained` has those of the option `encoder`."""
        frozen = options.frozen
        last = options.trained_layers
        encoder = TransformerEncoder(inputs.encoder or MINILM, options.dropout, frozen=frozen, trained_layers=last)
        super().__init__(encoder, options)
        self.statistics = CorpusStatistics(inputs.words)
        hidden_size = self.encoder.state_size
        self.projection = nn.Linear(hidden_size, min(options.size or hidden_size, hidden_size), bias=False)
        self.rarity = nn.Parameter(torch.ones(()))
        self.importance = nn.Parameter(torch.zeros(hidden_size))
        self.word_weight = nn.Parameter(torch.ones(()))

    def encode(self, batch: TokenBatch) -> States:
        hidden, mask, pooled = self.encoder(batch, self.encoder.settings.answer_prompt, stored=True)
        states, present = _neighbours_summed(self._token_states(hidden), mask)
        return States(present, {"states": unit(states).to(states.dtype)}, {"pooled": pooled})

    def encode_questions(self, batch: TokenBatch) -> States:
        hidden, mask, pooled = self.encoder(batch, self.encoder.settings.question_prompt)
        log_idf = self.statistics.idf(batch.ids).clamp(min=SMALLEST_IDF).log()
        weights = masked_softmax(self.rarity * log_idf + exact(hidden) @ exact(self.importance), mask).to(hidden.dtype)
        return States(mask, {"states": self._token_states(hidden), "weights": weights.unsqueeze(2)}, {"pooled": pooled})

    def _token_states(self, hidden: Tensor) -> Tensor:
        """(N, T, H) -> (N, T, C), rows of length 1; zero stays zero."""
        projected = F.linear(exact(hidden), exact(self.projection.weight))
        return unit(projected.to(hidden.dtype)).to(hidden.dtype)

    def match(self, questions: States, answers: States) -> Tensor:
        cosines = _cosines(questions, answers)
        # Not negative, or a step of training could leave the range of the score; with a gradient also below.
        weight = self.word_weight.clamp(min=0)
        if torch.is_grad_enabled():
            weight = self.word_weight + (weight - self.word_weight).detach()
        scores = (cosines + weight * self.word_scores(questions, answers)) / (1 + weight)
        return scores.to(answers.per_text["pooled"].dtype)

    def word_scores(self, questions: States, answers: States) -> Tensor:
        """(B, N) word(q, a)."""
        similarities = self._similarities(questions, answers)
        # `amax` spreads its gradient over ties and is slow backwards, `max` must find the place.
        best = similarities.max(dim=1).values if similarities.requires_grad else similarities.amax(dim=1)
        return torch.einsum("nmb,bm->bn", exact(best), exact(questions.per_token["weights"].squeeze(2)))

    def _similarities(self, questions: States, answers: States) -> Tensor:
        """(N, L, M, B) cosines of all tokens; one matrix product, in which padding of answers is -1."""
        rows = questions.per_token["states"].transpose(0, 1)  # (M, B, C)
        similarities = answers.per_token["states"] @ rows.flatten(0, 1).T
        hidden = similarities.detach()  # padding gets no gradient anyway, since a real token is at least as large
        hidden.masked_fill_(~answers.mask.unsqueeze(2), -1.0)
        return similarities.unflatten(2, rows.shape[:2])

    def attention_weights(self, questions: TokenBatch, answers: TokenBatch) -> Attention:
        """Alpha, and of each answer's token the sum of alpha over the question's tokens that it matches best."""
        own = self.encode_questions(questions)
        others = self.encode_answers(answers)
        places = self._similarities(own, others).argmax(dim=1).permute(2, 0, 1)  # (B, N, M)
        alpha = own.per_token["weights"].squeeze(2).unsqueeze(1).expand(places.shape)
        received = alpha.new_zeros(*places.shape[:2], others.mask.shape[1]).scatter_add(2, places, alpha)
        return Attention(alpha, _shared_among_tokens(received, answers.mask))

    def pooled_only(self) -> AnswerModel:
        return PooledTransformer(self.encoder)

    def parameter_groups(self, rate: float, encoder_rate: float) -> list[dict[str, Any]]:
        """The encoder, which knows a language already, and the single numbers learn at rates of their own."""
        encoder = [parameter for parameter in self.encoder.pretrained_parameters() if parameter.requires_grad]
        adapter = [parameter for parameter in self.encoder.adapter.parameters() if parameter.requires_grad]
        return [
            {"params": [self.projection.weight, self.importance, *adapter], "lr": rate},
            {"params": [self.word_weight, self.rarity], "lr": rate * SCALAR_RATE},
            {"params": encoder, "lr": encoder_rate},
        ]

    def cache_frozen_states(self, *, outlives: bool = True) -> AbstractContextManager[None]:
        return self.encoder.cache_frozen_states(outlives=outlives)

    def load_pretrained(self, folder: Path, sample: Iterable[TokenBatch]) -> None:
        self.encoder.load_pretrained(folder)
        self.fit_projection(sample)

    @torch.inference_mode()
    def fit_projection(self, sample: Iterable[TokenBatch]) -> None:
        """Set P to the leading right singular vectors of the sample's token states, each of length 1."""
        encoder = self.encoder.eval()
        products = torch.zeros(encoder.state_size, encoder.state_size, dtype=torch.double)
        for batch in sample:
            hidden, mask, _ = encoder(batch)
            states = F.normalize(hidden[mask], dim=1).double().cpu()
            products += states.T @ states
        directions = torch.linalg.eigh(products).eigenvectors.T.flip(0)
        self.projection.weight.copy_(directions[: len(self.projection.weight)])

    @torch.inference_mode()
    def fit(self, questions: Iterable[JudgedCandidates]) -> None:
        """Set w to the weight that ranks the questions best by MRR; the smallest of those as good."""
        ranks: list[Tensor] = []
        weights = self.word_weight.new_tensor(WORD_WEIGHTS)
        for question, answers, relevant in questions:
            if relevant.any() and not relevant.all():
                scores = _cosines(question, answers) + weights.unsqueeze(1) * self.word_scores(question, answers)
                best = scores[:, relevant].amax(dim=1, keepdim=True)
                ranks.append(1 + (scores[:, ~relevant] >= best).sum(dim=1))
        if ranks:
            mrr = torch.stack(ranks).double().reciprocal().mean(dim=0)
            self.word_weight.fill_(WORD_WEIGHTS[int(mrr.argmax())])


def _cosines(questions: States, answers: States) -> Tensor:
    return exact(questions.per_text["pooled"]) @ exact(answers.per_text["pooled"]).T


def _neighbours_summed(states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Sum neighbouring tokens: (N, T, C) and (N, T) -> (N, ceil(T / 2), C) and which sums have a token."""
    missing = -states.shape[1] % TOKENS_PER_STATE
    groups = F.pad(states, (0, 0, 0, missing)).unflatten(1, (-1, TOKENS_PER_STATE))
    return groups.sum(dim=2), F.pad(mask, (0, missing)).unflatten(1, (-1, TOKENS_PER_STATE)).any(dim=2)


def _shared_among_tokens(weights: Tensor, mask: Tensor) -> Tensor:
    """(B, N, ceil(T / 2)) weights of sums -> (B, N, T): the tokens of a sum share its weight evenly."""
    groups = F.pad(mask, (0, -mask.shape[1] % TOKENS_PER_STATE)).unflatten(1, (-1, TOKENS_PER_STATE))
    shares = groups / groups.sum(dim=2, keepdim=True).clamp(min=1)
    return (weights.unsqueeze(3) * shares).flatten(2)[..., : mask.shape[1]]


SPEC = ModelSpec(
    name="ap-transformer",
    paper="ours, after ColBERT of Khattab & Zaharia and Attentive Pooling Networks of dos Santos et al.",
    year=2020,
    family="attentive-pooling",
    cached="a pooled vector and token states",
    build=AttentiveTransformer,
    attention_over="both",
    options={
        "encoder": Option(DEFAULT_ENCODER, "a pretrained encoder: a folder, or the name of a model on the hub"),
        "size": Option(64, "numbers of a token's state; 0 for as many as the encoder has", least=0),
        "dropout": Option(0.1, "share of the subwords dropped while training", least=0, most=0.99),
        "frozen": Option(False, "keep the encoder as it is: trains in minutes on a CPU"),
        "question_prompt": Option("", "what the encoder reads before a question; by default what its files say"),
        "answer_prompt": Option("", "what the encoder reads before an answer; by default what its files say"),
        "dimensions": Option(0, "first numbers of a text's vector to keep; 0 for all", least=0),
        "linked": Option(False, "a checkpoint names its encoder, if it is unchanged, instead of copying it"),
        "trained_layers": Option(0, "with frozen: the last layers, which learn all the same", least=0),
    },
    recipe=Recipe("softmax", "adam", 5e-4, "linear", batch_size=64, epochs=4, dropout=0.1, max_grad_norm=5.0),
    pretrained=True,
    format_version=4,  # 1 pooled both texts by attention, 2 kept each token of an answer, 3 had no adapter
)
