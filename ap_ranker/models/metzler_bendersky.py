"""Weighted sequential dependence: words, neighbours, words near each other (Bendersky, Metzler & Croft 2010).

The concepts of a question q_1 ... q_M are its words (T) and its pairs of neighbours. In the answer, a pair may occur
side by side (O, ordered) or at most 7 words apart in either order (U, within a window of 8). Each concept scores the
answer by a language model with Dirichlet smoothing; its weight depends on its features g:

    s(q, a) = Σ over c in T, O, U of  Σ_i λ_c(concept i) · f_c(concept i, a)
    f(concept, a) = log((tf + μ P) / (|a| + μ))        P: the concept's probability in all answers
    λ_c(concept) = Σ_j w_cj · g_j(concept)             w: the weights, fitted to the training MAP by coordinate ascent

Sums over i first give the features of a pair, F = Σ_i g_j f_c, and s = F · w. With g_1 = 1 alone this is the sequential
dependence model of Metzler & Croft 2005, whose usual weights (0.85, 0.10, 0.05) are the initial ones here.

The paper also uses Google n-grams, Wikipedia titles and query logs. Here only words are counted, so we differ:
- g = (1, idf) instead of the paper's many features; each of T, O, U has its own weights.
- P(w) = (cf + 1) / (|C| + 1), so that words without any count have a probability, too. Pairs are taken as independent:
  P(x) P(y) side by side, and 2 · 7 times that within a window, which has that many positions around x; likewise
  idf(xy) = idf(x) + idf(y).
- The tf of a window is the number of y's around each x, summed over all x.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ap_ranker.models.base import AnswerModel, JudgedCandidates, States
from ap_ranker.models.coordinate_ascent import coordinate_ascent
from ap_ranker.models.spec import Bounds, Inputs, ModelSpec, Option, Recipe
from ap_ranker.models.statistics import CorpusStatistics
from ap_ranker.text.batch import UNKNOWN, TokenBatch


class MetzlerBendersky(AnswerModel):
    """A linear ranker over `features`, by (6,) weights: of words, ordered and unordered pairs, each with its idf's."""

    statistics: CorpusStatistics

    def __init__(self, inputs: Inputs, *, mu: float, window: int) -> None:
        super().__init__()
        self.statistics = CorpusStatistics(inputs.words)
        self.mu, self.window = mu, window
        self.weights = nn.Parameter(torch.tensor([0.85, 0.0, 0.10, 0.0, 0.05, 0.0]))

    def encode(self, batch: TokenBatch) -> States:
        return States(batch.mask, {"ids": self.statistics.without_punctuation(batch.ids)})

    def features(self, questions: States, answers: States) -> Tensor:
        """(B, N, 6) the features that `weights` combine, for every question with every answer."""
        q, a = questions.per_token["ids"], answers.per_token["ids"]
        idf = self.statistics.idf(q)  # (B, M)
        known = q > UNKNOWN
        same = ((q[:, None, :, None] == a[:, None, :]) & known[:, None, :, None]).to(idf.dtype)  # (B, N, M, L)
        x, y = same[:, :, :-1], same[:, :, 1:]
        position = torch.arange(a.shape[1], device=a.device)
        apart = (position[:, None] - position).abs()
        near = ((apart > 0) & (apart < self.window)).to(idf.dtype)

        length = answers.mask.sum(dim=1, keepdim=True).to(idf.dtype)  # (N, 1)
        frequency = self.statistics.collection_frequency
        probability = (frequency[q] + 1) / (frequency.sum() + 1)
        pair = probability[:, :-1] * probability[:, 1:]
        pair_idf = idf[:, :-1] + idf[:, 1:]
        both_known = known[:, :-1] & known[:, 1:]

        def feature_sums(tf: Tensor, probability: Tensor, importance: Tensor, exists: Tensor) -> Tensor:
            """Σ_i g f of one kind of concept: (B, N, I), and (B, I) thrice -> (B, N, 2)."""
            f = torch.log((tf + self.mu * probability[:, None]) / (length + self.mu))
            g = torch.stack([torch.ones_like(importance), importance], dim=2) * exists.unsqueeze(2)
            return f @ g

        return torch.cat(
            [
                feature_sums(same.sum(dim=3), probability, idf, known),
                feature_sums((x[..., :-1] * y[..., 1:]).sum(dim=3), pair, pair_idf, both_known),
                feature_sums((x @ near * y).sum(dim=3), 2 * (self.window - 1) * pair, pair_idf, both_known),
            ],
            dim=2,
        )

    @torch.inference_mode()
    def fit(self, questions: Iterable[JudgedCandidates]) -> None:
        features, relevant = [], []
        for question, candidates, answers_it in questions:
            features.append(self.features(question, candidates)[0].cpu().numpy())
            relevant.append(answers_it.cpu().numpy())
        weights = coordinate_ascent(features, relevant, self.weights.detach().cpu().numpy())
        self.weights.copy_(torch.from_numpy(weights))

    def match(self, questions: States, answers: States) -> Tensor:
        return self.features(questions, answers) @ self.weights

    def scale(self, scores: Tensor) -> Tensor:
        # Sums of logarithms run far below zero, where a sigmoid would give nothing but zeros.
        return (1 + nn.functional.softsign(scores)) / 2


SPECS = [
    ModelSpec(
        name="metzler-bendersky",
        paper="Bendersky, Metzler & Croft, Learning Concept Importance Using a Weighted Dependence Model",
        year=2010,
        family="baseline",
        cached="token ids",
        build=MetzlerBendersky,
        options={
            "mu": Option(
                2500.0,
                "pseudo-words that Dirichlet smoothing adds to each answer",
                bounds=Bounds(above=0, most=1_000_000),
            ),
            "window": Option(
                8, "words within which a pair of words is found in either order", bounds=Bounds(least=2, most=1_000)
            ),
        },
        recipe=Recipe("coordinate-ascent"),
        objective="coordinate-ascent",
    ),
]
