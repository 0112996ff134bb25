"""How long do Haystack's in-memory BM25 retriever and BM25SRetriever take for a question?

python examples/retrieval_speed.py DATA      # a file or folder with test questions, as `ap-ranker evaluate` reads it
"""

from __future__ import annotations

import sys
from time import perf_counter

from haystack import Document
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from ap_ranker import BM25SDocumentStore, BM25SRetriever
from ap_ranker.data.reader import read_dataset

QUESTIONS = 20
TOP_K = 100  # as in pipelines/faq_search.yaml


def main() -> None:
    """Time both on the first questions, after one to warm up."""
    dataset = read_dataset(sys.argv[1], "test")
    documents = [Document(id=answer.id, content=answer.text) for answer in dataset.answers]
    questions = [question.text for question in dataset.questions[:QUESTIONS]]
    sys.stdout.write(f"{len(documents):,} answers, {len(questions)} questions, the {TOP_K} best of each\n")
    memory, ours = InMemoryDocumentStore(), BM25SDocumentStore()
    for store, retriever in (
        (memory, InMemoryBM25Retriever(memory, top_k=TOP_K)),
        (ours, BM25SRetriever(ours, top_k=TOP_K)),
    ):
        start = perf_counter()
        store.write_documents(documents)
        retriever.run(query=questions[0])
        ready = perf_counter()
        for question in questions:
            retriever.run(query=question)
        each = (perf_counter() - ready) / len(questions)
        name = type(retriever).__name__
        sys.stdout.write(f"{name}: {1000 * each:.2f} ms per question; ready after {ready - start:.1f} s\n")


if __name__ == "__main__":
    main()
