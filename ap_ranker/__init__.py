"""ap-ranker: small neural answer-selection rankers that put the right FAQ answer on top.

from ap_ranker import train, TrainingConfig, read_dataset, evaluate, calibrate    # what the commands do, as functions
from ap_ranker import write_untrained    # a checkpoint that ranks as its pretrained encoder does
from ap_ranker import Ranker          # without Haystack
from ap_ranker import AnswerRanker    # the Haystack component for any checkpoint; APRanker and others for one family
from ap_ranker import BM25SDocumentStore, BM25SRetriever    # fetch the candidates
from ap_ranker import HybridRetriever                       # fetch them by words and by meaning
from ap_ranker import APTextEmbedder, APDocumentEmbedder    # for other document stores
from ap_ranker import FAQSearch       # both in one component
from ap_ranker import faq_search_tool    # that as a tool for agents
from ap_ranker import AnswerRouter    # an answer, a maybe, or none
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ap_ranker.data.dataset import Dataset as Dataset
    from ap_ranker.data.reader import read_dataset as read_dataset
    from ap_ranker.data.split import split_file as split_file
    from ap_ranker.data.split import split_questions as split_questions
    from ap_ranker.errors import InputError as InputError
    from ap_ranker.evaluation.evaluate import evaluate as evaluate
    from ap_ranker.evaluation.evaluation_report import EvaluationReport as EvaluationReport
    from ap_ranker.ranking.decision import Decision as Decision
    from ap_ranker.ranking.explanation import Explanation as Explanation
    from ap_ranker.ranking.ranker import RankedAnswer as RankedAnswer
    from ap_ranker.ranking.ranker import Ranker as Ranker
    from ap_ranker.training.calibrate import CalibrationReport as CalibrationReport
    from ap_ranker.training.calibrate import calibrate as calibrate
    from ap_ranker.training.config import TrainingConfig as TrainingConfig
    from ap_ranker.training.distill import distill as distill
    from ap_ranker.training.train import TrainingResult as TrainingResult
    from ap_ranker.training.train import train as train
    from ap_ranker.training.untrained import write_untrained as write_untrained
    from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder as APDocumentEmbedder
    from haystack_integrations.components.embedders.ap_ranker import APTextEmbedder as APTextEmbedder
    from haystack_integrations.components.rankers.ap_ranker import ABCNNRanker as ABCNNRanker
    from haystack_integrations.components.rankers.ap_ranker import AnswerRanker as AnswerRanker
    from haystack_integrations.components.rankers.ap_ranker import APRanker as APRanker
    from haystack_integrations.components.rankers.ap_ranker import GlobalLocalRanker as GlobalLocalRanker
    from haystack_integrations.components.retrievers.ap_ranker import AnswerSearch as AnswerSearch
    from haystack_integrations.components.retrievers.ap_ranker import BM25Scores as BM25Scores
    from haystack_integrations.components.retrievers.ap_ranker import BM25SEmbeddingRetriever as BM25SEmbeddingRetriever
    from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever as BM25SRetriever
    from haystack_integrations.components.retrievers.ap_ranker import FAQSearch as FAQSearch
    from haystack_integrations.components.retrievers.ap_ranker import HybridRetriever as HybridRetriever
    from haystack_integrations.components.retrievers.ap_ranker import LuceneScores as LuceneScores
    from haystack_integrations.components.routers.ap_ranker import AnswerRouter as AnswerRouter
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore as BM25SDocumentStore
    from haystack_integrations.tools.ap_ranker import faq_search_tool as faq_search_tool

_COMPONENTS = "haystack_integrations.components"
_NAMES = {
    "ap_ranker.data.dataset": "Dataset",
    "ap_ranker.data.reader": "read_dataset",
    "ap_ranker.data.split": "split_file split_questions",
    "ap_ranker.errors": "InputError",
    "ap_ranker.evaluation.evaluate": "evaluate",
    "ap_ranker.evaluation.evaluation_report": "EvaluationReport",
    "ap_ranker.ranking.decision": "Decision",
    "ap_ranker.ranking.explanation": "Explanation",
    "ap_ranker.ranking.ranker": "RankedAnswer Ranker",
    "ap_ranker.training.calibrate": "CalibrationReport calibrate",
    "ap_ranker.training.config": "TrainingConfig",
    "ap_ranker.training.distill": "distill",
    "ap_ranker.training.train": "TrainingResult train",
    "ap_ranker.training.untrained": "write_untrained",
    f"{_COMPONENTS}.embedders.ap_ranker": "APDocumentEmbedder APTextEmbedder",
    f"{_COMPONENTS}.rankers.ap_ranker": "ABCNNRanker AnswerRanker APRanker GlobalLocalRanker",
    f"{_COMPONENTS}.retrievers.ap_ranker": (
        "AnswerSearch BM25Scores BM25SEmbeddingRetriever BM25SRetriever FAQSearch HybridRetriever LuceneScores"
    ),
    f"{_COMPONENTS}.routers.ap_ranker": "AnswerRouter",
    "haystack_integrations.document_stores.ap_ranker": "BM25SDocumentStore",
    "haystack_integrations.tools.ap_ranker": "faq_search_tool",
}
_HOMES: dict[str, str] = {}
for _module, _names in _NAMES.items():
    _HOMES |= dict.fromkeys(_names.split(), _module)

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    # Names load when first used, so that `import ap_ranker` and `ap-ranker --help` do not wait for torch.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
