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

import ast
import importlib
from pathlib import Path
from typing import Any

# The one list of these names, which type checkers read, too.
_HOMES = {
    name.name: str(line.module)
    for line in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(line, ast.ImportFrom)
    for name in line.names
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    # Names load when first used, so that `import ap_ranker` and `ap-ranker --help` do not wait for torch.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
