"""Retrieval by words, by meaning and by wordings. It is here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from haystack import Document, component
from haystack.document_stores.types import FilterPolicy
from haystack.utils import ComponentDevice, Secret

from ap_ranker.ranking.int8_vectors import EMBEDDED_BY
from ap_ranker.ranking.ranker import BATCH_SIZE, Ranker
from ap_ranker.threads import in_thread
from haystack_integrations.components.rankers.ap_ranker.checkpoint import (
    CheckpointComponent,
    DocumentTexts,
    check_number,
    file_list,
)
from haystack_integrations.components.retrievers.ap_ranker.bm25s import StoreRetriever
from haystack_integrations.components.retrievers.ap_ranker.known_wordings import KnownWordings
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore


@component
class HybridRetriever(StoreRetriever, CheckpointComponent):
    """Finds the documents that share words with a query, by BM25, those that mean the same, by a model's vectors, and
    those that a similar question is known to ask for.

    The model of the checkpoint has vectors of whole texts, as `ap-transformer` has. Give the ranker behind it the same
    checkpoint: the question is encoded once. Documents that it has not embedded yet are embedded by `warm_up`, or by
    the first `run`, and written back into the store. Known wordings are encoded, too, and kept in memory.

    ```python
    from haystack_integrations.components.retrievers.ap_ranker import HybridRetriever

    HybridRetriever(store, model="checkpoints/faq").run(query="Where is my parcel?")["documents"]
    ```
    """

    _not_copied = (*CheckpointComponent._not_copied, "_embedded", "_embedding")

    def __init__(
        self,
        document_store: BM25SDocumentStore,
        *,
        model: str | Path,
        device: ComponentDevice | None = None,
        token: Secret | None = Secret.from_env_var(["HF_API_TOKEN", "HF_TOKEN"], strict=False),  # noqa: B008
        filters: dict[str, Any] | None = None,
        top_k: int = 100,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
        rank_all: int = 200,
        query_prefix: str = "",
        query_suffix: str = "",
        document_prefix: str = "",
        document_suffix: str = "",
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        batch_size: int = BATCH_SIZE,
        wordings: str | Path | list[str] | None = None,
    ) -> None:
        """Create the component without loading the checkpoint.

        Parameters that are not named here are those of the `AnswerRanker` behind it, or of `BM25SRetriever`.

        :param top_k: The maximum number of documents to find by words, by meaning, and by known wordings, each.
        :param rank_all: A store with at most this many documents returns all of them, for the ranker to rank.
        """
        self._search(document_store, filters, top_k, filter_policy)
        check_number("rank_all", rank_all, 0)
        check_number("batch_size", batch_size, 1)
        self._name_checkpoint(model, device, token)
        self.rank_all = rank_all
        self.query_prefix = query_prefix
        self.query_suffix = query_suffix
        self.document_prefix = document_prefix
        self.document_suffix = document_suffix
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator
        self.batch_size = batch_size
        self.wordings = file_list(wordings)
        self._texts = DocumentTexts(document_prefix, document_suffix, self.meta_fields_to_embed, embedding_separator)
        self._wordings = KnownWordings(self.wordings, query_prefix, query_suffix)

    def _reset(self) -> None:
        CheckpointComponent._reset(self)  # no super(): @component recreates the class
        self._embedded: str | None = None  # the revision of the store with all embeddings, or "" if it has changed
        self._embedding = threading.Lock()  # not `_loading`: who adds a document need not wait for all others

    def _load(self) -> Ranker:
        ranker = CheckpointComponent._load(self)
        ranker.fill_cache()  # so that the ranker does not encode again what was encoded for the vectors
        return ranker

    def warm_up(self) -> None:
        """Load the checkpoint, embed the documents that it has not embedded yet, and build or load the indexes."""
        self.embed_documents()
        self.document_store.warm_up(embeddings=True)
        self._wordings.index(self.document_store, self._loaded())

    def add_wordings(self, path: str | Path) -> None:
        """Use the wordings of one more file."""
        self._wordings.add(path)

    def close(self) -> None:
        """Free the model and close the store's files; a later `run` loads and opens them again."""
        self._wordings.close()
        CheckpointComponent.close(self)
        StoreRetriever.close(self)

    def embed_documents(self, on_progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Embed the documents that this checkpoint has not embedded yet; other threads wait for it.

        :param on_progress: Called with the number of embedded documents and the number of those to embed.
        :raises InputError: Another program has replaced the embeddings by those of another checkpoint.
        """
        if self._is_embedded():
            return
        with self._embedding:
            if not self._is_embedded():
                # Two programs with two checkpoints would else replace each other's embeddings for every question.
                replace_others = self._embedded is None
                embed, origin = self.document_store.embed_documents, self._texts.origin(self._loaded())
                self._embedded = embed(origin, self._vectors, replace_others, on_progress) or ""

    @property
    def embeds_now(self) -> bool:
        """Whether a thread embeds documents, for which `warm_up` and `run` wait."""
        return self._embedding.locked()

    def embedded(self, documents: list[Document]) -> list[Document]:
        """Copies of documents with the embeddings of this checkpoint, to be written into the store."""
        origin = {EMBEDDED_BY: self._texts.origin(self._loaded())}
        pairs = zip(documents, self._vectors(documents), strict=True)
        return [replace(document, meta=document.meta | origin, embedding=vector) for document, vector in pairs]

    def _vectors(self, documents: list[Document]) -> list[list[float]]:
        return self._loaded().embed_answers(self._texts.texts(documents), self.batch_size).tolist()

    def _is_embedded(self) -> bool:
        return self._embedded == self.document_store.revision()

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Find documents; the parameters are those of `BM25SRetriever.run`.

        :returns: `documents`: copies of all that were found, without embeddings. The score of each is the cosine of its
            vector with the query's; the highest comes first. In the meta of each, `embedding_score` is that cosine and
            `bm25_score` BM25's score, 0 if it shares no word with the query; `embedding_rank`, `bm25_rank` and
            `wording_rank` are its ranks, from 1, or `None` if it was not among the `top_k`.
        """
        filters, top_k = self._limits(filters, top_k)
        self.embed_documents()
        ranker, store = self._loaded(), self.document_store
        question = ranker.embed_questions([self.query_prefix + query + self.query_suffix])[0].numpy()
        wordings = self._wordings.leg(store, ranker, question)
        documents = store.hybrid_retrieval(query, question.tolist(), filters, top_k, self.rank_all, wordings)
        return self._result(documents, top_k)

    run_async = in_thread(run)
