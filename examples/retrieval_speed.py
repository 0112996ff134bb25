"""How long does it take to fetch the candidates for a question?

python examples/retrieval_speed.py DATA              # Haystack's in-memory BM25 retriever and BM25SRetriever
python examples/retrieval_speed.py DATA CHECKPOINT   # BM25SRetriever and HybridRetriever, each before the same ranker

DATA is a file or folder with test questions, as `ap-ranker evaluate` reads it. Embedding its answers may take minutes;
a folder as third argument keeps them for the next time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import mean, median
from time import perf_counter

from haystack import Document
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy

from ap_ranker import AnswerRanker, APTextEmbedder, BM25SDocumentStore, BM25SRetriever, HybridRetriever
from ap_ranker.data.reader import read_dataset
from ap_ranker.ranking.cache import LAST_QUESTIONS

QUESTIONS = 20
TOP_K = 100  # as in pipelines/faq_search.yaml
ROUNDS = 5


def main() -> None:
    """Time the retrievers on the first questions, after one to warm up."""
    dataset = read_dataset(sys.argv[1], "test")
    documents = [Document(id=answer.id, content=answer.text) for answer in dataset.answers]
    questions = [question.text for question in dataset.questions[:QUESTIONS]]
    sys.stdout.write(f"{len(documents):,} answers, {len(questions)} questions, the {TOP_K} best of each\n")
    if len(sys.argv) == 2:
        compare_bm25(documents, questions)
    else:
        compare_hybrid(sys.argv[2], documents, questions, *sys.argv[3:])


def compare_bm25(documents: list[Document], questions: list[str]) -> None:
    """BM25 by Haystack and by us."""
    memory, ours = InMemoryDocumentStore(), BM25SDocumentStore()
    for store, retriever in (
        (memory, InMemoryBM25Retriever(memory, top_k=TOP_K)),
        (ours, BM25SRetriever(ours, top_k=TOP_K)),
    ):
        start = perf_counter()
        store.write_documents(documents)
        retriever.run(query=questions[0])
        ready = perf_counter()
        each = mean(seconds(lambda question, retriever=retriever: retriever.run(query=question), questions))
        name = type(retriever).__name__
        sys.stdout.write(f"{name}: {1000 * each:.2f} ms per question; ready after {ready - start:.1f} s\n")


def compare_hybrid(checkpoint: str, documents: list[Document], questions: list[str], folder: str | None = None) -> None:
    """BM25 alone and both legs, with the same ranker behind them, which has encoded the documents before."""
    store = BM25SDocumentStore(folder)
    store.write_documents(documents, policy=DuplicatePolicy.SKIP)
    ranker = AnswerRanker(model=checkpoint, cache={"megabytes": 4000})
    others = APTextEmbedder(model=checkpoint)
    retrievers: dict[str, BM25SRetriever | HybridRetriever] = {
        f"BM25SRetriever, {TOP_K}": BM25SRetriever(store, top_k=TOP_K),
    }
    for top_k in (TOP_K // 2, TOP_K):
        retriever = HybridRetriever(store, model=checkpoint, top_k=top_k, rank_all=0)
        retrievers[f"HybridRetriever, {top_k} + {top_k}"] = retriever
    times: dict[str, list[tuple[float, float, int]]] = {}
    for _ in range(1 + ROUNDS):  # the first one encodes the documents
        for name, retriever in retrievers.items():
            retriever.warm_up()
            for number in range(LAST_QUESTIONS):  # so that no question is encoded already
                others.run(f"another question {number}")
            found: dict[str, list[Document]] = {}

            def fetch(
                question: str, found: dict = found, retriever: BM25SRetriever | HybridRetriever = retriever
            ) -> None:
                found[question] = retriever.run(query=question)["documents"]

            def rank(question: str, found: dict = found) -> None:
                ranker.run(query=question, documents=found[question])

            fetched = mean(seconds(fetch, questions))
            ranked = mean(seconds(rank, questions))
            candidates = round(mean(len(some) for some in found.values()))
            times.setdefault(name, []).append((fetched, fetched + ranked, candidates))
    for name, measured in times.items():
        fetched, both = (1000 * median(row[i] for row in measured[1:]) for i in (0, 1))
        sys.stdout.write(f"{name}: {measured[0][2]} candidates; {fetched:.2f} ms, {both:.2f} ms with the ranker\n")


def seconds(ask: Callable[[str], object], questions: list[str]) -> list[float]:
    """How long each question takes."""
    times = []
    for question in questions:
        start = perf_counter()
        ask(question)
        times.append(perf_counter() - start)
    return times


if __name__ == "__main__":
    main()
