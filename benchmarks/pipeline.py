"""What a user waits for: the whole search pipeline, and its parts while the corpus grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch
from haystack import Document, Pipeline
from haystack.utils import ComponentDevice

from benchmarks.corpus import Corpus
from benchmarks.latency import Tell, Times, timed
from benchmarks.systems import answer_ranker
from haystack_integrations.components.retrievers.ap_ranker.bm25s import BM25SRetriever
from haystack_integrations.components.retrievers.ap_ranker.faq_search import FAQSearch
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore

RETRIEVED, RETURNED = 100, 5
"""As in pipelines/faq_search.yaml."""

SIZES = (1_000, 10_000, 100_000)
"""Answers in the stores of the growth table."""


@dataclass(frozen=True)
class PipelineTimes:
    """A search pipeline over all answers, the retrieved ones cached.

    Attributes:
        model: of the ranker.
        pipeline: the whole.
        retriever: its `run` alone.
        ranker: its `run` alone, on what the retriever found.
        rest: what the whole takes beyond these two: Haystack's own work.
        one_component: the same search as a `FAQSearch`, which copies no candidates.
    """

    model: str
    pipeline: Times
    retriever: Times
    ranker: Times
    rest: Times
    one_component: Times


@dataclass(frozen=True)
class Growth:
    """Retrieving and ranking from one size of store.

    Attributes:
        answers: in the store.
        candidates: that the retriever found, mean.
        retriever: its `run`.
        ranker: its `run` on what the retriever found, which is cached.
    """

    answers: int
    candidates: float
    retriever: Times
    ranker: Times


def store_of(documents: list[Document]) -> BM25SDocumentStore:
    """Documents in memory, indexed."""
    store = BM25SDocumentStore()
    store.write_documents(documents)
    store.bm25_retrieval("?")  # the first query after a write builds the index
    return store


def measure_pipelines(
    checkpoints: Mapping[str, Path], store: BM25SDocumentStore, corpus: Corpus, device: torch.device, tell: Tell
) -> list[PipelineTimes]:
    """Time BM25 and each model in a Haystack pipeline, and alone on the same input.

    Args:
        checkpoints: the models by their labels.
        store: all answers.
        corpus: its questions are asked; the other question of each pair has ranked the same documents before.
        device: where the models run.
        tell: told of each question.
    """
    pipelines = {label: _search(checkpoint, store, device) for label, checkpoint in checkpoints.items()}
    components = {
        label: FAQSearch(
            model=checkpoint,
            document_store=store,
            candidates=RETRIEVED,
            top_k=RETURNED,
            device=ComponentDevice.from_str(str(device)),
        )
        for label, checkpoint in checkpoints.items()
    }
    seconds: dict[str, list[tuple[float, float, float, float]]] = {label: [] for label in pipelines}
    for label, pipeline in pipelines.items():
        for other in corpus.questions[0]:
            tell(f"Pipeline: warming up {label}")
            pipeline.run({"retriever": {"query": other}, "ranker": {"query": other}})
            components[label].run(query=other)
    for number, (question, other) in enumerate(corpus.questions):
        for label, pipeline in pipelines.items():
            tell(f"Pipeline: question {number + 1} of {len(corpus.questions)}, {label}")
            retriever, ranker = pipeline.get_component("retriever"), pipeline.get_component("ranker")
            # Fills the caches of answers.
            candidates = retriever.run(query=question)["documents"]
            components[label].ranker.run(query=other, documents=candidates)
            ranker.run(query=other, documents=candidates)
            asked = _as_new(question)
            whole, _ = timed(pipeline.run, {"retriever": {"query": asked}, "ranker": {"query": asked}})
            retrieving, found = timed(retriever.run, query=question)
            ranking, _ = timed(ranker.run, query=_as_new(question), documents=found["documents"])
            as_one, _ = timed(components[label].run, query=_as_new(question))
            seconds[label].append((whole, retrieving, ranking, as_one))
    return [_pipeline_times(label, each) for label, each in seconds.items()]


def measure_growth(
    checkpoint: Path, corpus: Corpus, device: torch.device, tell: Tell, sizes: Sequence[int] = SIZES
) -> list[Growth]:
    """Time the retriever and a model while the store grows; as the model sees 100 candidates only, it should not care.

    Args:
        checkpoint: the model.
        corpus: its answers fill the stores, as often as it takes; its questions are asked.
        device: where the model runs.
        tell: told of each store and question.
        sizes: answers in each store.
    """
    retrievers = {}
    for size in sizes:
        tell(f"Growth: indexing {size:,} answers")
        retrievers[size] = BM25SRetriever(store_of(grown(corpus.texts, size)), top_k=RETRIEVED)
    ranker = answer_ranker(checkpoint, device, RETURNED)
    seconds: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    found: dict[int, list[int]] = {size: [] for size in sizes}
    for retriever in retrievers.values():
        for other in corpus.questions[0]:
            ranker.run(query=other, documents=retriever.run(query=other)["documents"])
    for number, (question, other) in enumerate(corpus.questions):
        for size, retriever in retrievers.items():
            tell(f"Growth: question {number + 1} of {len(corpus.questions)}, {size:,} answers")
            retrieving, result = timed(retriever.run, query=question)
            documents = result["documents"]
            ranker.run(query=other, documents=documents)  # fills the cache
            ranking, _ = timed(ranker.run, query=_as_new(question), documents=documents)
            seconds[size].append((retrieving, ranking))
            found[size].append(len(documents))
    return [
        Growth(size, float(np.mean(found[size])), *(Times.of(part) for part in zip(*seconds[size], strict=True)))
        for size in sizes
    ]


_TIMES_ASKED = count(1)


def _as_new(question: str) -> str:
    """The question with a number of spaces behind it that no other has had, so that its states are not known yet."""
    return question + " " * next(_TIMES_ASKED)


def grown(texts: Sequence[str], size: int) -> list[Document]:
    """`size` documents: the texts again and again, from the second time on with a number in front."""
    repeated = ((row, *divmod(row, len(texts))) for row in range(size))
    return [
        Document(id=str(row), content=f"{time} {texts[place]}" if time else texts[place])
        for row, time, place in repeated
    ]


def _search(checkpoint: Path, store: BM25SDocumentStore, device: torch.device) -> Pipeline:
    """The components of pipelines/faq_search.yaml."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", BM25SRetriever(store, top_k=RETRIEVED))
    pipeline.add_component("ranker", answer_ranker(checkpoint, device, RETURNED))
    pipeline.connect("retriever.documents", "ranker.documents")
    return pipeline


def _pipeline_times(label: str, seconds: list[tuple[float, float, float, float]]) -> PipelineTimes:
    whole, retrieving, ranking, as_one = (list(part) for part in zip(*seconds, strict=True))
    rest = [total - first - second for total, first, second, _ in seconds]
    return PipelineTimes(label, *map(Times.of, (whole, retrieving, ranking, rest, as_one)))
