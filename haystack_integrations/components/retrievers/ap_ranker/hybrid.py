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
from haystack_integrations.components.retrievers.ap_ranker.known_wordings import KnownWordings
from haystack_integrations.components.retrievers.ap_ranker.store_retriever import StoreRetriever
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore


@component
class HybridRetriever(StoreRetriever, CheckpointComponent):
    """Finds the documents that share words with a query, by BM25, those that mean the same, by a model's vectors, and
    those that a similar question is known to ask for.

    The checkpoint is one of `ap-ranker train` whose model has vectors of whole texts, such as `ap-transformer`. Give
    the ranker behind it the same one: they share it, and the question is encoded once. Documents that this checkpoint
    has not embedded yet are embedded by `warm_up`, or by the first `run`, and written back into the store: all of them
    the first time and after another training, later only new ones. Known wordings are encoded, too, and kept in memory.

    ```python
    from haystack_integrations.components.retrievers.ap_ranker import HybridRetriever

    HybridRetriever(store, model="checkpoints/faq").run(query="Where is my parcel?")["documents"]
    ```
    """

    _not_copied = (*CheckpointComponent._not_copied, "_embedded", "_has_embedded", "_embedding")

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

        :param document_store: The store to search.
        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub.
        :param device: The device on which the model runs. `None` selects the GPU if there is one.
        :param token: The token for downloading private models from the hub.
        :param filters: Haystack filters on the documents' meta; only documents that match are returned.
        :param top_k: The maximum number of documents to find by words, by meaning, and by known wordings, each.
        :param filter_policy: Whether filters given to `run` replace the component's filters or are merged with them.
        :param rank_all: A store with at most this many documents returns all of them, for the ranker to rank.
        :param query_prefix: The text to put before the query, as the ranker does.
        :param query_suffix: The text to put after the query, as the ranker does.
        :param document_prefix: The text to put before each document's text.
        :param document_suffix: The text to put after each document's text.
        :param meta_fields_to_embed: The meta fields whose values are put before the content.
        :param embedding_separator: The text to put between these values and the content.
        :param batch_size: The number of documents to encode at once; more need more memory.
        :param wordings: A file, or several, with questions that are known to ask for an entry of the FAQ, as for
            `AnswerRanker`. A changed file is read again before the next query. Other known wordings are
            `meta["question"]` and `meta["wordings"]` of the documents.
        :raises TypeError: `document_store` is another kind of store.
        :raises ValueError: `top_k` or `batch_size` is not positive, or `rank_all` is negative.
        """
        self._search(document_store, filters, top_k, filter_policy)
        check_number("rank_all", rank_all, 0)
        check_number("batch_size", batch_size, 1)
        self.model = str(model)
        self.device = ComponentDevice.resolve_device(device)
        self.token = token
        self.rank_all = rank_all
        self.query_prefix = query_prefix
        self.query_suffix = query_suffix
        self.document_prefix = document_prefix
        self.document_suffix = document_suffix
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator
        self.batch_size = batch_size
        self.wordings = file_list(wordings)
        self._wordings = KnownWordings(self.wordings, query_prefix, query_suffix)
        self._reset()

    def _reset(self) -> None:
        CheckpointComponent._reset(self)  # no super(): @component recreates the class
        self._embedded: str | None = None  # the revision of the store of which every document is embedded
        self._has_embedded = False
        self._embedding = threading.Lock()  # not `_loading`: who adds a document need not wait for all others

    def _load(self) -> Ranker:
        ranker = self._read_embedder()
        ranker.fill_cache()  # so that the ranker does not encode again what was encoded for the vectors
        return ranker

    def warm_up(self) -> None:
        """Load the checkpoint, embed the documents that it has not embedded yet, and build or load the indexes.

        :raises InputError: The checkpoint cannot be loaded, or its model has no vectors of whole texts; or a file of
            wordings cannot be read; or the store's folder contains something else, is damaged or cannot be written.
        """
        self.embed_documents()
        self.document_store.warm_up(embeddings=True)
        self._wordings.index(self.document_store, self._loaded())

    def add_wordings(self, path: str | Path) -> None:
        """Use the wordings of one more file.

        :raises InputError: It cannot be read.
        """
        self._wordings.add(path)

    def close(self) -> None:
        """Free the model and close the store's files; a later `run` loads and opens them again."""
        self._wordings.close()
        CheckpointComponent.close(self)
        StoreRetriever.close(self)

    def embed_documents(self, on_progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Embed the documents that this checkpoint has not embedded yet; other threads wait for it.

        :param on_progress: Called with the number of embedded documents and the number of those to embed.
        :raises InputError: As `warm_up`; or another program has replaced the embeddings by those of another checkpoint.
        """
        if self._is_embedded():
            return
        with self._embedding:
            if self._is_embedded():
                return
            self._embedded = self.document_store.embed_documents(
                self._texts.origin(self._loaded()),
                self._vectors,
                # Two programs with two checkpoints would else replace each other's embeddings for every question.
                replace_others=not self._has_embedded,
                on_progress=on_progress,
            )
            self._has_embedded = True

    @property
    def embeds_now(self) -> bool:
        """Whether a thread embeds documents, for which `warm_up` and `run` wait."""
        return self._embedding.locked()

    def embedded(self, documents: list[Document]) -> list[Document]:
        """Copies of documents with the embeddings of this checkpoint, to be written into the store.

        :raises InputError: As `warm_up`.
        """
        origin = self._texts.origin(self._loaded())
        return [
            replace(document, meta={**document.meta, EMBEDDED_BY: origin}, embedding=vector)
            for document, vector in zip(documents, self._vectors(documents), strict=True)
        ]

    def _vectors(self, documents: list[Document]) -> list[list[float]]:
        texts = [self._texts.text(document) for document in documents]
        vectors: list[list[float]] = self._loaded().embed_answers(texts, self.batch_size).tolist()
        return vectors

    def _is_embedded(self) -> bool:
        return self._embedded is not None and self._embedded == self.document_store.revision()

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Find documents.

        :param query: The question of the user. Must not be empty.
        :param filters: Replace the component's, or are merged with them, as its `filter_policy` says.
        :param top_k: The maximum number of documents to find by words, by meaning, and by known wordings, each; may be
            0. By default, the component's.
        :returns: `documents`: copies of all that were found, without embeddings. The score of each is the cosine of its
            vector with the query's; the highest comes first. In the meta of each, `embedding_score` is that cosine and
            `bm25_score` BM25's score, 0 if it shares no word with the query; `embedding_rank`, `bm25_rank` and
            `wording_rank` are its ranks, from 1, or `None` if it was not among the `top_k`.
        :raises ValueError: The query is empty, or `top_k` is negative.
        :raises FilterError: `filters` are invalid.
        :raises InputError: As `warm_up`; or the store is empty and the component was loaded from YAML.
        """
        filters, top_k = self._limits(filters, top_k)
        self.embed_documents()
        ranker, store = self._loaded(), self.document_store
        question = ranker.embed_questions([self.query_prefix + query + self.query_suffix])[0].numpy()
        wordings = self._wordings.leg(store, ranker, question)
        documents = store.hybrid_retrieval(query, question.tolist(), filters, top_k, self.rank_all, wordings)
        return self._result(documents, top_k)

    run_async = in_thread(run)
    """As `run`, in a thread, so that the event loop stays free."""

    @property
    def _texts(self) -> DocumentTexts:
        return DocumentTexts(
            self.document_prefix, self.document_suffix, self.meta_fields_to_embed, self.embedding_separator
        )
