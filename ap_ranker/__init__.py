"""ap-ranker: small neural answer-selection rankers that put the right FAQ answer on top.

from ap_ranker import train, TrainingConfig, read_dataset, evaluate, calibrate    # what the commands do, as functions
from ap_ranker import Ranker          # without Haystack
from ap_ranker import AnswerRanker    # the Haystack component for any checkpoint; APRanker and others for one family
from ap_ranker import BM25SDocumentStore, BM25SRetriever    # fetch the candidates
from ap_ranker import HybridRetriever                       # fetch them by words and by meaning
from ap_ranker import APTextEmbedder, APDocumentEmbedder    # for other document stores
from ap_ranker import FAQSearch       # both in one component
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ap_ranker.data.dataset import Dataset
    from ap_ranker.data.reader import read_dataset
    from ap_ranker.data.split import split_questions
    from ap_ranker.data.writer import split_file
    from ap_ranker.errors import InputError
    from ap_ranker.evaluation.evaluate import evaluate
    from ap_ranker.evaluation.evaluation_report import EvaluationReport
    from ap_ranker.ranking.explanation import Explanation
    from ap_ranker.ranking.ranker import RankedAnswer, Ranker
    from ap_ranker.training.calibrate import CalibrationReport, calibrate
    from ap_ranker.training.config import TrainingConfig
    from ap_ranker.training.distill import distill
    from ap_ranker.training.train import TrainingResult, train
    from haystack_integrations.components.embedders.ap_ranker.document_embedder import APDocumentEmbedder
    from haystack_integrations.components.embedders.ap_ranker.text_embedder import APTextEmbedder
    from haystack_integrations.components.rankers.ap_ranker.ranker import (
        ABCNNRanker,
        AnswerRanker,
        APRanker,
        GlobalLocalRanker,
    )
    from haystack_integrations.components.retrievers.ap_ranker.bm25_scores import BM25Scores
    from haystack_integrations.components.retrievers.ap_ranker.bm25s import BM25SEmbeddingRetriever, BM25SRetriever
    from haystack_integrations.components.retrievers.ap_ranker.faq_search import AnswerSearch, FAQSearch
    from haystack_integrations.components.retrievers.ap_ranker.hybrid import HybridRetriever
    from haystack_integrations.components.retrievers.ap_ranker.lucene_scores import LuceneScores
    from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore

__all__ = [
    "ABCNNRanker",
    "APDocumentEmbedder",
    "APRanker",
    "APTextEmbedder",
    "AnswerRanker",
    "AnswerSearch",
    "BM25SDocumentStore",
    "BM25SEmbeddingRetriever",
    "BM25SRetriever",
    "BM25Scores",
    "CalibrationReport",
    "Dataset",
    "EvaluationReport",
    "Explanation",
    "FAQSearch",
    "GlobalLocalRanker",
    "HybridRetriever",
    "InputError",
    "LuceneScores",
    "RankedAnswer",
    "Ranker",
    "TrainingConfig",
    "TrainingResult",
    "calibrate",
    "distill",
    "evaluate",
    "read_dataset",
    "split_file",
    "split_questions",
    "train",
]

_COMPONENTS = "haystack_integrations.components.rankers.ap_ranker.ranker"
_HOMES = {
    "ABCNNRanker": _COMPONENTS,
    "APDocumentEmbedder": "haystack_integrations.components.embedders.ap_ranker.document_embedder",
    "APRanker": _COMPONENTS,
    "APTextEmbedder": "haystack_integrations.components.embedders.ap_ranker.text_embedder",
    "AnswerRanker": _COMPONENTS,
    "AnswerSearch": "haystack_integrations.components.retrievers.ap_ranker.faq_search",
    "BM25SDocumentStore": "haystack_integrations.document_stores.ap_ranker.bm25s",
    "BM25SEmbeddingRetriever": "haystack_integrations.components.retrievers.ap_ranker.bm25s",
    "BM25SRetriever": "haystack_integrations.components.retrievers.ap_ranker.bm25s",
    "BM25Scores": "haystack_integrations.components.retrievers.ap_ranker.bm25_scores",
    "CalibrationReport": "ap_ranker.training.calibrate",
    "Dataset": "ap_ranker.data.dataset",
    "EvaluationReport": "ap_ranker.evaluation.evaluation_report",
    "Explanation": "ap_ranker.ranking.explanation",
    "FAQSearch": "haystack_integrations.components.retrievers.ap_ranker.faq_search",
    "GlobalLocalRanker": _COMPONENTS,
    "HybridRetriever": "haystack_integrations.components.retrievers.ap_ranker.hybrid",
    "InputError": "ap_ranker.errors",
    "LuceneScores": "haystack_integrations.components.retrievers.ap_ranker.lucene_scores",
    "RankedAnswer": "ap_ranker.ranking.ranker",
    "Ranker": "ap_ranker.ranking.ranker",
    "TrainingConfig": "ap_ranker.training.config",
    "TrainingResult": "ap_ranker.training.train",
    "calibrate": "ap_ranker.training.calibrate",
    "distill": "ap_ranker.training.distill",
    "evaluate": "ap_ranker.evaluation.evaluate",
    "read_dataset": "ap_ranker.data.reader",
    "split_file": "ap_ranker.data.writer",
    "split_questions": "ap_ranker.data.split",
    "train": "ap_ranker.training.train",
}


def __getattr__(name: str) -> Any:
    # Names load when first used, so that `import ap_ranker` and `ap-ranker --help` do not wait for torch.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
