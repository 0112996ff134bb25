# SPDX-License-Identifier: Apache-2.0
"""
Retrieval by words, by meaning and by known wordings, and what all retrievers of our store have in common.

It is here because Haystack loads YAML only from this namespace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from haystack import Document, component, tracing
from haystack.document_stores.types import FilterPolicy, apply_filter_policy
from haystack.utils import ComponentDevice, Secret

from ap_ranker.data.wordings import DocumentRows, EntryRows, names_of
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.text_encoder import BATCH_SIZE, check_number
from ap_ranker.ranking.wordings import Leg
from haystack_integrations.common.ap_ranker.component import (
    READING,
    CheckpointComponent,
    Composed,
    KnowsWordings,
    ReadsTexts,
    WarnOnce,
    file_list,
)
from haystack_integrations.common.ap_ranker.entries import identity_of, wordings_in_meta
from haystack_integrations.common.ap_ranker.query_data import Found, check_query, with_embeddings
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore
from haystack_integrations.document_stores.ap_ranker.documents import Documents


def document_rows(documents: Documents) -> DocumentRows:
    """The rows of documents with the wordings in their meta, and with their names in files of wordings."""
    return DocumentRows(
        (row, wordings_in_meta(document), names_of(*identity_of(document))) for row, document in documents.by_row()
    )


class StoreRetriever(Composed):
    """
    Retrieves from a `BM25SDocumentStore`, with filters. `METHOD_async` is a method in a thread.

    An `InputError` says that the store's folder contains something else or is damaged, or that a file of wordings
    cannot be read. An empty store finds nothing, which one warning says.
    """

    parameters: ClassVar[tuple[str, ...]] = ("document_store", "filters", "top_k", "filter_policy")
    uses: ClassVar[tuple[str, ...]] = ("document_store",)
    find: Callable[..., Found]
    """What `run` finds for a query and its filters, before any document is copied."""

    def _search(
        self,
        document_store: Any,
        filters: dict[str, Any] | None,
        top_k: int,
        filter_policy: str | FilterPolicy,
    ) -> None:
        check_number("top_k", top_k, 1)
        self.document_store = document_store
        self.filters = filters
        self.top_k = top_k
        self.filter_policy = FilterPolicy.from_str(str(filter_policy))  # a policy is the text of its name, too
        self.warn_once = WarnOnce()

    def contents(self, limit: int) -> list[str]:
        """The contents of the first `limit` of the documents that have some."""
        contents: list[str] = self.document_store.contents(limit)
        return contents

    def find_each(self, queries: Sequence[str], filters: dict[str, Any] | None = None) -> list[Found]:
        """What `find` of a retriever returns for each query."""
        return [self.find(query, filters) for query in queries]

    def _limits(self, filters: dict[str, Any] | None, top_k: int | None) -> tuple[dict[str, Any] | None, int]:
        if top_k is not None:
            check_number("top_k", top_k, 0)
        return apply_filter_policy(self.filter_policy, self.filters, filters), self.top_k if top_k is None else top_k

    def _fetch(self, query: str, filters: dict[str, Any] | None, top_k: int, **options: Any) -> Found:
        """`BM25SDocumentStore.find_documents`, as traces and users are told."""
        fetched: Found = self.document_store.find_documents(query, filters, top_k, **options)
        self._note(len(fetched.rows), top_k)
        return fetched

    def _note(self, count: int, top_k: int) -> None:
        """Tell a trace how many documents were found, and once the user of an empty store that it is empty."""
        if not count and not self.document_store.count_documents():
            self.warn_once(
                "Expected documents in the store ({place}), found none, so nothing can be found. Write some into it; a "
                "pipeline's file may name documents, or a path, which `ap-ranker index` fills.",
                place=self.document_store.path or "in memory",
            )
        span = tracing.tracer.current_span()
        if span is not None:
            span.set_tags({"ap_ranker.top_k": top_k, "ap_ranker.found": count})


class WordingRetriever(StoreRetriever, KnowsWordings):
    """Also finds documents by their known wordings."""

    @property
    def _rows(self) -> EntryRows:
        """Of the documents that have wordings."""
        rows: DocumentRows = self.document_store.computed(document_rows)
        return rows

    def _encode_wordings(self, ranker: Ranker) -> None:
        self._known.index(self._rows, ranker)

    def _by_similar_wordings(self, questions: np.ndarray, ranker: Ranker) -> list[Leg]:
        return self._known.similar_to_each(self._rows, questions, ranker)

    def _by_exact_wording(self, query: str) -> Leg | None:
        return self._known.exact_match(self._rows, query)


@component
class HybridRetriever(WordingRetriever, CheckpointComponent, ReadsTexts):
    """
    Finds documents by words (BM25), by meaning (a model's vectors) and by the questions that are known to ask for them.

    The model of the checkpoint has vectors of whole texts, as `ap-transformer` has. Give the ranker behind it the same
    checkpoint: the question is encoded once. Documents that it has not embedded yet are embedded by `warm_up`, or by
    the first `run`, and written back into the store. Known wordings are encoded, too, and kept in memory.

    ### Usage example

    ```python
    from haystack_integrations.components.retrievers.ap_ranker import HybridRetriever
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    retriever = HybridRetriever(BM25SDocumentStore(documents="FAQ.csv"), model="checkpoints/faq")
    print(retriever.run(query="Where is my parcel?")["documents"])
    ```
    """

    parameters = (*StoreRetriever.parameters, *CheckpointComponent.parameters, *READING, "rank_all")
    uses = ("loaded", "document_store", "_known")

    def __init__(
        self,
        document_store: BM25SDocumentStore,
        *,
        model: str | Path,
        device: ComponentDevice | None = None,
        token: Secret | None = Secret.from_env_var(["HF_API_TOKEN", "HF_TOKEN"], strict=False),  # noqa: B008
        filters: dict[str, Any] | None = None,
        top_k: int = 100,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
        rank_all: int = 200,
        query_prefix: str = "",
        query_suffix: str = "",
        document_prefix: str = "",
        document_suffix: str = "",
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        batch_size: int = BATCH_SIZE,
        wordings: str | Path | Sequence[str | Path] | None = None,
    ) -> None:
        """
        Create the component without loading the checkpoint.

        :param document_store: The store to search.
        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub. The same as
            of the ranker.
        :param device: The device that the model runs on. By default, the GPU if there is one.
        :param token: The token for a private repository of the hub. By default, the environment's `HF_API_TOKEN` or
            `HF_TOKEN`.
        :param filters: Haystack filters on the documents' meta. Only documents that match are returned.
        :param top_k: The maximum number of documents to find by words, by meaning, and by known wordings, each.
        :param filter_policy: Whether filters given to `run` replace the component's filters or are merged with them.
        :param rank_all: A store with at most this many documents returns all of them, for the ranker to rank.
        :param query_prefix: A text that the model reads before each query. This and the next five settings are those of
            the ranker.
        :param query_suffix: A text that the model reads after each query.
        :param document_prefix: A text that the model reads before each document.
        :param document_suffix: A text that the model reads after each document.
        :param meta_fields_to_embed: Meta fields whose values the model reads before the content.
        :param embedding_separator: The text between these values and the content.
        :param batch_size: The number of documents to encode at once, 64 by default. More need more memory.
        :param wordings: Files of known wordings, as for `AnswerRanker`. Documents are also found by these.
        :raises ValueError: A number is out of range, there is no policy of this name, or it is another store.
        """
        self._search(document_store, filters, top_k, filter_policy)
        check_number("rank_all", rank_all, 0)
        self._name_checkpoint(model, device, token)
        self._set_reading(
            query_prefix=query_prefix,
            query_suffix=query_suffix,
            document_prefix=document_prefix,
            document_suffix=document_suffix,
            meta_fields_to_embed=meta_fields_to_embed,
            embedding_separator=embedding_separator,
            batch_size=batch_size,
            wordings=file_list(wordings),
        )
        self.rank_all = rank_all
        self._embedded = "", ""  # the checkpoint that embedded all, and the store's revision, or "" if it has changed
        self._embedding = threading.Lock()  # who loads the checkpoint does not wait for it

    def _load(self) -> Ranker:
        ranker = CheckpointComponent._load(self)
        ranker.fill_cache()  # so that the ranker does not encode again what was encoded for the vectors
        return ranker

    def warm_up(self) -> None:
        """Load the checkpoint, embed the documents that it has not embedded yet, and build or load the indexes."""
        self.embed_documents()
        self.document_store.warm_up(embeddings=True)
        self._encode_wordings(self.loaded())

    def embed_documents(self, on_progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """
        Embed the documents that this checkpoint has not embedded yet; other threads wait for it.

        :param on_progress: Called with the number of embedded documents and the number of those to embed.
        :raises InputError: Another program has replaced the embeddings by those of another checkpoint.
        """
        if self._is_embedded():
            return
        with self._embedding:
            if not self._is_embedded():
                ranker = self.loaded()
                embed = self.document_store.embed_documents
                # Two programs with two checkpoints would else replace each other's embeddings for every question.
                replace_others = self._embedded[0] != ranker.fingerprint
                revision = embed(self.texts.origin(ranker), self._vectors, replace_others, on_progress)
                self._embedded = ranker.fingerprint, revision or ""

    @property
    def embeds_now(self) -> bool:
        """Whether a thread embeds documents, for which `warm_up` and `run` wait."""
        return self._embedding.locked()

    def embedded(self, documents: list[Document]) -> list[Document]:
        """Copies of documents with the embeddings of this checkpoint, to be written into the store."""
        return with_embeddings(documents, self._vectors(documents), self.texts.origin(self.loaded()))

    def _vectors(self, documents: list[Document]) -> list[list[float]]:
        return self.loaded().embed_answers(self.texts.texts(documents), self.batch_size).tolist()

    def _is_embedded(self) -> bool:
        # After `close`, another checkpoint may be in the folder.
        return self._embedded == (self.loaded().fingerprint, self.document_store.revision())

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """
        Find documents.

        :param query: The question of the user. Must not be empty.
        :param filters: Replace the component's, or are merged with them, as its `filter_policy` says.
        :param top_k: The maximum number of documents to find by each of the three. By default, the component's.
        :returns: `documents`: copies of all that were found, without embeddings. The score of each is the cosine of its
            vector with the query's; the highest comes first. In `meta["ap_ranker"]` of each, `embedding_score` is that
            cosine and `bm25_score` BM25's score, 0 if it shares no word with the query; `embedding_rank`, `bm25_rank`
            and `wording_rank` are its ranks, from 1, or `None` if it was not among the `top_k`.
        :raises InputError: The query is empty, or the checkpoint cannot be loaded; and as of `StoreRetriever`.
        """
        return {"documents": self.find(query, filters, top_k).copies()}

    def find(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> Found:
        """As `run`, before any document is copied."""
        return self.find_each([query], filters, top_k)[0]

    def find_each(
        self, queries: Sequence[str], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> list[Found]:
        """As `find`, of each query; their vectors are made together."""
        for query in queries:
            check_query(query)
        filters, top_k = self._limits(filters, top_k)
        self.embed_documents()
        ranker = self.loaded()
        questions = ranker.question_vectors([self.query_prefix + query + self.query_suffix for query in queries])
        fetched: list[Found] = self.document_store.find_for_each(
            queries,
            questions.tolist(),
            filters,
            top_k,
            rank_all=self.rank_all,
            wordings=self._by_similar_wordings(questions.numpy(), ranker),
            stored_questions=True,
        )
        for of_query in fetched:
            self._note(len(of_query.rows), top_k)
        return fetched
