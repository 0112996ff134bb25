"""ap-ranker: small neural answer-selection rankers that put the right FAQ answer on top.

from ap_ranker import Ranker          # without Haystack
from ap_ranker import AnswerRanker    # the Haystack component for any checkpoint; APRanker and others for one family
from ap_ranker import BM25SDocumentStore, BM25SRetriever    # fetch the candidates
from ap_ranker import FAQSearch       # both in one component
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ap_ranker.errors import InputError
    from ap_ranker.ranking.explanation import Explanation
    from ap_ranker.ranking.ranker import RankedAnswer, Ranker
    from haystack_integrations.components.rankers.ap_ranker.ranker import (
        ABCNNRanker,
        AnswerRanker,
        APRanker,
        GlobalLocalRanker,
    )
    from haystack_integrations.components.retrievers.ap_ranker.bm25s import BM25SRetriever
    from haystack_integrations.components.retrievers.ap_ranker.faq_search import FAQSearch
    from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore

__all__ = [
    "ABCNNRanker",
    "APRanker",
    "AnswerRanker",
    "BM25SDocumentStore",
    "BM25SRetriever",
    "Explanation",
    "FAQSearch",
    "GlobalLocalRanker",
    "InputError",
    "RankedAnswer",
    "Ranker",
]

_COMPONENTS = "haystack_integrations.components.rankers.ap_ranker.ranker"
_HOMES = {
    "ABCNNRanker": _COMPONENTS,
    "APRanker": _COMPONENTS,
    "AnswerRanker": _COMPONENTS,
    "BM25SDocumentStore": "haystack_integrations.document_stores.ap_ranker.bm25s",
    "BM25SRetriever": "haystack_integrations.components.retrievers.ap_ranker.bm25s",
    "Explanation": "ap_ranker.ranking.explanation",
    "FAQSearch": "haystack_integrations.components.retrievers.ap_ranker.faq_search",
    "GlobalLocalRanker": _COMPONENTS,
    "InputError": "ap_ranker.errors",
    "RankedAnswer": "ap_ranker.ranking.ranker",
    "Ranker": "ap_ranker.ranking.ranker",
}


def __getattr__(name: str) -> Any:
    # Names load when first used, so that `import ap_ranker` and `ap-ranker --help` do not wait for torch.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
