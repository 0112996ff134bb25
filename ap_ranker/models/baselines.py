"""Untrained baselines that need only word counts: BM25, and IDF-weighted bags of word vectors.

BM25 (Robertson et al. 1994, as Lucene computes it), tf and |a| without punctuation marks:

    s(q, a) = Σ over q's words w, with repetitions, of  idf(w) · tf / (tf + k1 (1 - b + b |a| / mean |a|))
    idf(w) = ln(1 + (N - df + 0.5) / (df + 0.5))

Bag of words (the first baseline of Feng et al. 2015, section 4), e the word vectors:

    r = Σ over the words w of a text of  idf(w) · e(w)
    s(q, a) = cos(r_q, r_a)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ap_ranker.models.base import AnswerModel, States
from ap_ranker.models.kinds import Siamese
from ap_ranker.models.spec import Bounds, Inputs, ModelSpec, Option, Options, Recipe
from ap_ranker.models.statistics import CorpusStatistics, term_frequency
from ap_ranker.text.batch import PAD, TokenBatch


class BM25(AnswerModel):
    """The word overlap that search engines rank by; nothing is learnt."""

    statistics: CorpusStatistics

    def __init__(self, inputs: Inputs, options: Options) -> None:
        super().__init__(options)
        self.statistics = CorpusStatistics(inputs.words)

    def encode(self, batch: TokenBatch) -> States:
        return States(batch.mask, {"ids": self.statistics.without_punctuation(batch.ids)})

    def match(self, questions: States, answers: States) -> Tensor:
        q, a, counts = questions.per_token["ids"], answers.per_token["ids"], self.statistics
        mean = (counts.collection_frequency[~counts.punctuation].sum() / counts.documents.clamp(min=1)).clamp(min=1)
        length = (a != PAD).sum(dim=1) / mean  # (N,)
        k1, b = self.options.k1, self.options.b
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


OKAPI = ModelSpec(
    name="bm25",
    paper="Robertson, Walker, Jones, Hancock-Beaulieu & Gatford, Okapi at TREC-3",
    year=1994,
    family="baseline",
    cached="token ids",
    build=BM25,
    options={
        "k1": Option(1.2, "how soon a word's repetitions stop counting (Lucene's value)", bounds=Bounds(0, 1_000)),
        "b": Option(0.75, "how much long answers are penalised, 0 to 1 (Lucene's value)", bounds=Bounds(0, 1)),
    },
    recipe=Recipe("counts"),
    objective="counts",
)

BAG_OF_WORDS = ModelSpec(
    name="bow-idf",
    paper="Feng, Xiang, Glass, Wang & Zhou, Applying Deep Learning to Answer Selection",
    year=2015,
    family="baseline",
    cached="one vector",
    build=BagOfWords,
    recipe=Recipe("counts"),
    objective="counts",
)
