"""What the vectors of an encoder are worth alone: the cosine by which an untrained bi-encoder ranks."""

from __future__ import annotations

from ap_ranker.data.dataset import Dataset
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.weight_fit import fit_weight
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Weights

CACHE_BYTES = 10**9
"""For the vectors of all answers, which dev and test questions share."""


def cosine_of(ranker: Ranker) -> Ranker:
    """The same without attention, known wordings and weights of its checkpoint."""
    pooled = ranker.model.pooled_only()
    assert pooled is not None, "only a model with a pretrained encoder has a cosine of its own"
    return Ranker(pooled, ranker.tokenizer, ranker.device, cache=EncodingCache(CACHE_BYTES))


def report_cosine(ranker: Ranker, dev: Dataset, test: Dataset, language: str | None) -> EvaluationReport:
    """What it reaches on the test questions; the dev questions choose the weight of BM25."""
    alone = cosine_of(ranker)
    chosen, asked = (EvaluationSet(part, language=language) for part in (dev, test))
    signals, right = chosen.informative(chosen.timed_scores(alone))
    weights = fit_weight(signals, right, Weights(), added="bm25")
    return asked.report_of(asked.timed_scores(alone), weights)
