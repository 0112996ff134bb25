"""A warm question of the default search takes a short way through the project, whatever the number of candidates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml
from both_pipelines import assembled
from conftest import ROOT, TEXTS, settings_of, write_checkpoint
from haystack import Document

from ap_ranker.ranking.rule import FUSED, MODEL, Calibration
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from benchmarks.walks import Walk, walk_of
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever, FAQSearch, HybridRetriever
from haystack_integrations.components.retrievers.ap_ranker.hybrid import StoreRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

MOST_FILES = {"default search": 26, "FAQSearch": 25, "BM25 and a ranker": 27, "hybrid and a ranker": 28}
"""Of a question of words that have been read before; the first time, `text/languages.py` finds a word's stem."""

MOST_ROOM_CHANGES = {"default search": 46, "FAQSearch": 39, "BM25 and a ranker": 35, "hybrid and a ranker": 55}
"""How often one room calls another."""

ONE_COMPONENT = ("default search", "FAQSearch")
"""Those that copy no candidate."""

QUESTIONS = map(" ".join, permutations(reversed(TEXTS[0].split())))
"""Of the same words; each is asked once, as searches of one checkpoint share what is encoded."""


def documents(size: int) -> list[Document]:
    made: list[Document] = []
    for number in range(size):
        meta = {"question": TEXTS[number % len(TEXTS)], "answer": f"answer {number}"}
        made.append(Document(content=f"{meta['question']} {meta['answer']}", meta=meta))
    return made


def default_search(folder: Path, size: int) -> Callable[[str], object]:
    """The packaged search by meaning."""
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search_hybrid.yaml").read_text())
    parts = settings_of(declared)
    for part in ("retriever", "ranker"):
        parts[part]["model"] = str(folder / "checkpoint")
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(declared))
    search = DeclaredPipeline.load(path)
    search.index(documents(size))
    search.prepare()
    return search.run


def store_of(size: int) -> BM25SDocumentStore:
    store = BM25SDocumentStore(language="english")
    store.write_documents(documents(size))
    return store


def faq_search(folder: Path, size: int) -> Callable[[str], object]:
    search = FAQSearch(model=folder / "checkpoint", document_store=store_of(size), candidates=size)
    return lambda question: search.run(query=question)


def with_ranker(folder: Path, retriever: StoreRetriever) -> Callable[[str], object]:
    """A pipeline of a retriever and a ranker."""
    ranker = AnswerRanker(model=folder / "checkpoint", fuse_scores=True, wordings=[])
    pipeline = assembled({"retriever": retriever, "ranker": ranker}, "retriever > ranker")
    return lambda question: pipeline.run({name: {"query": question} for name in ("retriever", "ranker")})


def by_words(folder: Path, size: int) -> Callable[[str], object]:
    return with_ranker(folder, BM25SRetriever(store_of(size), top_k=size, wordings=[]))


def hybrid(folder: Path, size: int) -> Callable[[str], object]:
    return with_ranker(folder, HybridRetriever(store_of(size), model=folder / "checkpoint"))


SEARCHES = {
    "default search": default_search,
    "FAQSearch": faq_search,
    "BM25 and a ranker": by_words,
    "hybrid and a ranker": hybrid,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a checkpoint as training leaves it: calibrated, with weights of known wordings and of BM25."""
    folder = tmp_path_factory.mktemp("path")
    calibration = {kind: Calibration(score=3.0, margin=1.0, bias=0.0, thresholds={}) for kind in (MODEL, FUSED)}
    weights: dict[str, Any] = {"wording_weight": 0.3, "bm25_weight": 0.02, "bm25_language": "english"}
    write_checkpoint("ap-transformer", folder / "checkpoint", calibration=calibration, **weights)
    return folder


def warm_walk(ask: Callable[[str], object]) -> Walk:
    """That of a new question, after others with its words and candidates."""
    for question in [*TEXTS, next(QUESTIONS)]:
        ask(question)
    return walk_of(partial(ask, next(QUESTIONS)), ROOT)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_warm_question_passes_few_files_and_nothing_once_for_each_candidate(folder: Path, name: str) -> None:
    calls = {}
    for size in (40, 160):
        walk = warm_walk(SEARCHES[name](folder, size))
        assert len(walk.files) <= MOST_FILES[name], "\n".join(sorted(walk.files))
        assert walk.room_changes <= MOST_ROOM_CHANGES[name]
        calls[size] = sum(walk.files.values())
    if name in ONE_COMPONENT:
        assert calls[160] < calls[40] + 40
