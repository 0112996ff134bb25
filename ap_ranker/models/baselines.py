"""Baselines that need only word counts: BM25, IDF-weighted bags of word vectors, weighted sequential dependence.

BM25 (Robertson et al. 1994, as Lucene computes it), tf and |a| without punctuation marks:

    s(q, a) = Σ over q's words w, with repetitions, of  idf(w) · tf / (tf + k1 (1 - b + b |a| / mean |a|))
    idf(w) = ln(1 + (N - df + 0.5) / (df + 0.5))

Bag of words (the first baseline of Feng et al. 2015, section 4), e the word vectors:

    r = Σ over the words w of a text of  idf(w) · e(w)
    s(q, a) = cos(r_q, r_a)

Weighted sequential dependence: words, neighbours, words near each other (Bendersky, Metzler & Croft 2010).

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

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from ap_ranker.models.base import AnswerModel, JudgedCandidates, Siamese, States
from ap_ranker.models.operations import CorpusStatistics, term_frequency
from ap_ranker.models.spec import Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.text.tokenizer import PAD, UNKNOWN, TokenBatch

MOST_ROUNDS = 20
LEAST_GAIN = 1e-5
"""Of coordinate ascent: passes over all weights; in MAP, to change a weight."""

Questions = list[tuple[np.ndarray, np.ndarray]]


class CountingModel(AnswerModel):
    """A model of the words of two texts, without punctuation marks."""

    statistics: CorpusStatistics

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(options)
        self.statistics = CorpusStatistics(inputs.words)

    def encode(self, batch: TokenBatch) -> States:
        return States(batch.mask, {"ids": self.statistics.without_punctuation(batch.ids)})


class BM25(CountingModel):
    """The word overlap that search engines rank by; nothing is learnt."""

    def match(self, questions: States, answers: States) -> Tensor:
        q = questions.per_token["ids"]
        a = answers.per_token["ids"]
        counts = self.statistics
        mean = (counts.collection_frequency[~counts.punctuation].sum() / counts.documents.clamp(min=1)).clamp(min=1)
        length = (a != PAD).sum(dim=1) / mean  # (N,)
        k1 = self.options.k1
        b = self.options.b
        norm = k1 * (1 - b + b * length)
        tf = term_frequency(q, a)  # (B, N, M)
        saturated = tf / (tf + norm.clamp(min=1e-9).unsqueeze(1))
        return (counts.idf(q).unsqueeze(1) * saturated).sum(dim=2)

    def scale(self, scores: Tensor) -> Tensor:
        return nn.functional.softsign(scores)  # s / (1 + s): scores are never negative


class BagOfWords(Siamese):
    """A text is the sum of its words' vectors, rare words counting more."""

    statistics: CorpusStatistics

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.statistics = CorpusStatistics(inputs.words)

    def represent(self, batch: TokenBatch) -> Tensor:
        return (self._weights(batch.ids).unsqueeze(2) * self.embedding(batch)).sum(dim=1)

    def word_vectors(self) -> Tensor:
        vectors = self.embedding.vectors.weight.detach()
        return self._weights(torch.arange(len(vectors), device=vectors.device)).unsqueeze(1) * vectors

    def _weights(self, ids: Tensor) -> Tensor:
        return self.statistics.idf(self.statistics.without_punctuation(ids))


class MetzlerBendersky(CountingModel):
    """A linear ranker over `features`, by (6,) weights: of words, ordered and unordered pairs, each with its idf's."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(inputs, options)
        self.weights = nn.Parameter(torch.tensor([0.85, 0.0, 0.10, 0.0, 0.05, 0.0]))

    def features(self, questions: States, answers: States) -> Tensor:
        """(B, N, 6) the features that `weights` combine, for every question with every answer."""
        q = questions.per_token["ids"]
        a = answers.per_token["ids"]
        mu = self.options.mu
        window = self.options.window
        idf = self.statistics.idf(q)  # (B, M)
        is_known = q > UNKNOWN
        same = ((q[:, None, :, None] == a[:, None, :]) & is_known[:, None, :, None]).to(idf.dtype)  # (B, N, M, L)
        x = same[:, :, :-1]
        y = same[:, :, 1:]
        position = torch.arange(a.shape[1], device=a.device)
        apart = (position[:, None] - position).abs()
        near = ((apart > 0) & (apart < window)).to(idf.dtype)

        length = (a != PAD).sum(dim=1, keepdim=True).to(idf.dtype)  # (N, 1)
        frequency = self.statistics.collection_frequency
        n_words = frequency[~self.statistics.punctuation].sum()
        probability = (frequency[q] + 1) / (n_words + 1)
        pair = probability[:, :-1] * probability[:, 1:]
        pair_idf = idf[:, :-1] + idf[:, 1:]
        both_known = is_known[:, :-1] & is_known[:, 1:]

        def feature_sums(tf: Tensor, probability: Tensor, importance: Tensor, exists: Tensor) -> Tensor:
            """Σ_i g f of one kind of concept: (B, N, I), and (B, I) thrice -> (B, N, 2)."""
            f = torch.log((tf + mu * probability[:, None]) / (length + mu))
            g = torch.stack([torch.ones_like(importance), importance], dim=2) * exists.unsqueeze(2)
            return f @ g

        words = feature_sums(same.sum(dim=3), probability, idf, is_known)
        ordered = feature_sums((x[..., :-1] * y[..., 1:]).sum(dim=3), pair, pair_idf, both_known)
        unordered = feature_sums((x @ near * y).sum(dim=3), 2 * (window - 1) * pair, pair_idf, both_known)
        return torch.cat([words, ordered, unordered], dim=2)

    @torch.inference_mode()
    def fit(self, questions: Iterable[JudgedCandidates]) -> None:
        features = []
        relevant = []
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


def average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    """The mean precision at each relevant candidate, 0 without any; (n,), (n,) bool. Ties keep their order."""
    hits = relevant[np.argsort(-scores, kind="stable")]
    ranks = np.flatnonzero(hits) + 1
    if len(ranks):
        return float(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return 0.0


def coordinate_ascent(features: Sequence[np.ndarray], relevant: Sequence[np.ndarray], start: np.ndarray) -> np.ndarray:
    """(F,) weights w whose ranking by `features @ w` has an MAP that no change of a single weight can raise.

    Each step moves one weight to the value with the highest MAP and holds the others (Metzler & Croft 2007, section 4).
    MAP is a step function of one weight: each candidate's score is a straight line in it, and ranks change only where
    two lines cross. So the crossings give the best value exactly, without step sizes.

    Per question, (n, F) features and (n,) bool: which candidates are relevant; a question without any is ignored. The
    sum of absolute weights is that of the (F,) at the `start`: scaling does not change the ranking.
    """
    questions = [(f.astype(float), r.astype(bool)) for f, r in zip(features, relevant, strict=True) if r.any()]
    weights = start.astype(float)
    if not questions:
        return weights
    best = _map(questions, weights)
    for _ in range(MOST_ROUNDS):
        before = best
        for j in range(len(weights)):
            moved = weights.copy()
            moved[j] = _best_value(questions, weights, j)
            moved_map = _map(questions, moved)
            if moved_map > best + LEAST_GAIN:
                weights = moved
                best = moved_map
        if best == before:
            break
    return weights * np.abs(start).sum() / (np.abs(weights).sum() or 1.0)


def _map(questions: Questions, weights: np.ndarray) -> float:
    return float(np.mean([average_precision(_scores(f, weights), r) for f, r in questions]))


def _scores(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    # A sum per row in a fixed order gives equal candidates exactly equal scores; a matrix product may not.
    return (features * weights).sum(axis=1)


def _best_value(questions: Questions, weights: np.ndarray, j: int) -> float:
    """The value of weight j with the highest MAP, the others held; of several, the nearest to the current one."""
    others = weights.copy()
    others[j] = 0.0
    crossings = []
    changes = []
    first = 0.0
    for f, r in questions:
        offset = _scores(f, others)
        slope = f[:, j]
        for k in np.flatnonzero(r).tolist():
            at, precision = _precision(offset, slope, r, k)
            share = 1 / r.sum() / len(questions)
            crossings.append(at)
            changes.append(np.diff(precision) * share)
            first += precision[0] * share
    at = np.concatenate(crossings)
    change = np.concatenate(changes)
    if not len(at):
        return float(weights[j])
    order = np.argsort(at, kind="stable")
    at = at[order]
    means = first + np.concatenate([[0.0], np.cumsum(change[order])])  # MAP before, between and after the crossings
    points = np.concatenate([[at[0] - 1], (at[:-1] + at[1:]) / 2, [at[-1] + 1]])
    gaps = np.concatenate([[np.inf], np.diff(at), [np.inf]])
    means[gaps <= 1e-9 * (1 + np.abs(points))] = -np.inf  # no room between two crossings
    equal = points[means >= means.max() - 1e-12]
    return float(equal[np.abs(equal - weights[j]).argmin()])


def _precision(offset: np.ndarray, slope: np.ndarray, relevant: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(C,) ascending weights w where offset + w · slope crosses k's; (C + 1,) precision at k's rank between them."""
    lead = offset - offset[k]
    steeper = slope - slope[k]
    crosses = steeper != 0
    # For w towards minus infinity the flatter lines are above; parallel ones are above or below for every w.
    above = np.where(crosses, steeper < 0, (lead > 0) | ((lead == 0) & (np.arange(len(offset)) < k)))
    at = -lead[crosses] / steeper[crosses]
    order = np.argsort(at, kind="stable")
    step = np.sign(steeper[crosses])[order]
    rank = 1 + above.sum() + np.concatenate([[0.0], np.cumsum(step)])
    hits = 1 + above[relevant].sum() + np.concatenate([[0.0], np.cumsum(step * relevant[crosses][order])])
    return at[order], hits / rank


OKAPI = ModelSpec(
    name="bm25",
    paper="Robertson, Walker, Jones, Hancock-Beaulieu & Gatford, Okapi at TREC-3",
    year=1994,
    family="baseline",
    cached="token ids",
    build=BM25,
    options={
        "k1": Option(1.2, "how soon a word's repetitions stop counting (Lucene's value)", least=0, most=1_000),
        "b": Option(0.75, "how much long answers are penalised, 0 to 1 (Lucene's value)", least=0, most=1),
    },
    recipe=Recipe("counts"),
    objective="counts",
)

BAG_OF_WORDS = replace(
    OKAPI,
    name="bow-idf",
    paper="Feng, Xiang, Glass, Wang & Zhou, Applying Deep Learning to Answer Selection",
    year=2015,
    cached="one vector",
    build=BagOfWords,
    options={},
)
WEIGHTED_DEPENDENCE = replace(
    OKAPI,
    name="metzler-bendersky",
    paper="Bendersky, Metzler & Croft, Learning Concept Importance Using a Weighted Dependence Model",
    year=2010,
    build=MetzlerBendersky,
    options={
        "mu": Option(2500.0, "pseudo-words that Dirichlet smoothing adds to each answer", least=0.001, most=10**6),
        "window": Option(8, "words within which a pair of words is found in either order", least=2, most=1_000),
    },
    recipe=Recipe("coordinate-ascent"),
    objective="coordinate-ascent",
)
