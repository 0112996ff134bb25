# SPDX-License-Identifier: Apache-2.0
"""A retriever and a ranker as one component. It is here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from haystack import Document, component
from haystack.utils import ComponentDevice

from ap_ranker.data.faq import DEFAULT_MATCH, Match
from ap_ranker.errors import InputError
from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.text_encoder import check_number
from ap_ranker.ranking.wordings import Leg
from haystack_integrations.common.ap_ranker.component import THRESHOLDS, Composed, file_list
from haystack_integrations.common.ap_ranker.query_data import Found, check_query, decision_data
from haystack_integrations.components.rankers.ap_ranker.ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker.bm25s import BM25SRetriever
from haystack_integrations.components.retrievers.ap_ranker.elasticsearch_retriever import ElasticsearchFAQRetriever
from haystack_integrations.components.retrievers.ap_ranker.hybrid import HybridRetriever
from haystack_integrations.document_stores.ap_ranker.bm25s import BM25SDocumentStore


@component
class AnswerSearch(Composed):
    """
    Finds the answers to a question: a retriever fetches candidates, a ranker puts the right one on top.

    A pipeline of the two gives the same answers, 3 to 5 ms later: it copies each of a hundred candidates on its way
    from one component to the next, as other components might change them.

    ### Usage example

    ```python
    from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
    from haystack_integrations.components.retrievers.ap_ranker import AnswerSearch, BM25SRetriever
    from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

    retriever = BM25SRetriever(BM25SDocumentStore(documents="FAQ.csv"), top_k=100, wordings=[])
    search = AnswerSearch(retriever, AnswerRanker(model="checkpoints/faq", fuse_scores=True))
    print(search.run(query="Where is my parcel?")["documents"])
    ```
    """

    parameters: ClassVar[tuple[str, ...]] = ("retriever", "ranker")
    uses = ("ranker", "retriever")  # in this order: the ranker's cache keeps what a retriever encodes

    def __init__(
        self, retriever: BM25SRetriever | HybridRetriever | ElasticsearchFAQRetriever, ranker: AnswerRanker
    ) -> None:
        """
        Create the component without loading anything.

        :param retriever: The retriever.
        :param ranker: The ranker of what it finds.
        :raises InputError: One of them is another component, or none, as in YAML without its `type`.
        """
        self.retriever = retriever
        self.ranker = ranker

    @component.output_types(documents=list[Document], decision=dict[str, Any])
    def run(
        self,
        *,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        score_threshold: float | None = None,
        precision: float | None = None,
        explain: bool = False,
    ) -> dict[str, Any]:
        """
        Find answers. The parameters and errors are those of the retriever and of the ranker, as their defaults are.

        :param query: The question of the user. Must not be empty.
        :param filters: Haystack filters on the documents' meta; only documents that match are searched.
        :param top_k: The maximum number of documents to return.
        :param score_threshold: The minimum score, from 0 to 1, of a returned document; not beside `precision`.
        :param precision: The target share of right first answers.
        :param explain: Whether to add the attention weight of each word, as of `AnswerRanker`.
        :returns: `documents`: copies with their scores, best first; none if none is found, or none is good enough.
            `decision`: the `outcome` (`answer`, `maybe` or `none`), the `probability` that the first is right, the
            `basis` of both, and `is_fused`: whether BM25's score is a part of it.
        """
        limits: dict[str, Any] = {"top_k": top_k, "score_threshold": score_threshold, "precision": precision}
        documents, decision = self.search(query, filters, **limits)
        documents = self.ranker.explained(query, documents) if explain else documents
        return {"documents": documents, "decision": decision_data(decision)}

    def search(
        self, query: str, filters: dict[str, Any] | None = None, *, offer: bool = False, **limits: Any
    ) -> tuple[list[Document], Decision]:
        """As `run`; to `offer` is to return the best documents also where none is good enough."""
        return self.search_each([query], filters, offer=offer, **limits)[0]

    def search_each(
        self, queries: Sequence[str], filters: dict[str, Any] | None = None, *, offer: bool = False, **limits: Any
    ) -> list[tuple[list[Document], Decision]]:
        """As `search`, of each query; an error of one of them is raised."""
        # Also in a thread that comes while another one loads, and of a store that was empty until now.
        self.ranker.compare_faq(self.retriever.contents)
        fetched = self.retriever.find_each(queries, filters)
        return self.ranker.rank_found(queries, fetched, offer=offer, **limits)

    def warm_up(self) -> None:
        """Load the checkpoint and the documents unless this is done already."""
        Composed.warm_up(self)  # no super(): @component recreates the class
        self.ranker.compare_faq(self.retriever.contents)


@component
class FAQSearch(AnswerSearch):
    """
    Finds the answers to a question: BM25 and known wordings fetch candidates, a trained model ranks them.

    It combines `BM25SRetriever` and `AnswerRanker`, with BM25's score added. If the checkpoint compares known wordings,
    an entry that shares no word with the question is also fetched by them.

    Loading is lazy: the first `run`, or `warm_up`, reads the checkpoint and the FAQ file, once.

    ### Usage example

    ```python
    from haystack_integrations.components.retrievers.ap_ranker import FAQSearch

    search = FAQSearch(model="checkpoints/faq", documents="FAQ.csv")
    print(search.run(query="Where is my parcel?")["documents"])
    ```
    """

    parameters: ClassVar[tuple[str, ...]] = ("model", "device", "documents", "document_store", "match")
    parameters += ("candidates", "top_k", *THRESHOLDS, "wordings")

    def __init__(
        self,
        *,
        model: str | Path,
        documents: str | Path | None = None,
        document_store: BM25SDocumentStore | None = None,
        match: str = DEFAULT_MATCH,
        candidates: int = 100,
        top_k: int = 5,
        score_threshold: float | None = None,
        precision: float | None = None,
        wordings: str | Path | Sequence[str | Path] | None = None,
        device: ComponentDevice | None = None,
    ) -> None:
        """
        Create the component without loading anything.

        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub.
        :param documents: A FAQ file with columns question and answer, a document, or a folder of documents and tables,
            which is kept in memory. The meta of a returned document contains `question`, `answer` and the file's other
            columns; of a passage, `title`, `file_path` and `page_number`. BM25 uses the checkpoint's stemmer.
        :param document_store: The store to search instead of a file, for a FAQ that is written elsewhere or kept on
            disk. Its `language` must be the checkpoint's.
        :param match: The text of the file's entries to compare with the query: `both`, `answer` or `question`.
        :param candidates: The number of documents that BM25 fetches for the model to rank. Known wordings fetch as
            many.
        :param top_k: The maximum number of documents to return.
        :param score_threshold: The minimum score, from 0 to 1, of a returned document. Not beside `precision`.
        :param precision: The target share of right first answers, such as 0.9, as for `AnswerRanker`.
        :param wordings: Files of known wordings, as for `AnswerRanker`. Entries are also found by these.
        :param device: The device that the model runs on. By default, the GPU if there is one.
        :raises ValueError: A number is out of range, or not just one of `documents` and `document_store` is given.
        """
        check_number("candidates", candidates, 1)
        if (documents is None) == (document_store is None):
            named = "neither" if documents is None else "both"
            raise InputError(f"FAQSearch: expected documents (a FAQ file) or document_store, found {named}.")
        self.model = str(model)
        self.documents = None if documents is None else str(documents)
        self.document_store = document_store
        self.match = str(Match(match))
        self.candidates = candidates
        self.top_k = top_k
        self.score_threshold = score_threshold
        self.precision = precision
        self.wordings = file_list(wordings)
        self.device = device
        ranker = AnswerRanker(
            model=model,
            device=device,
            top_k=top_k,
            score_threshold=score_threshold,
            precision=precision,
            fuse_scores=True,
            wordings=self.wordings,
        )
        store = document_store
        if store is None:
            store = BM25SDocumentStore(documents=documents, match=match)
            ranker.loaded.on_load = partial(_take_stemmer, store)
        retriever = _FAQRetriever(store, ranker, candidates)
        AnswerSearch.__init__(self, retriever, ranker)  # no super(): @component recreates the class


def _take_stemmer(store: BM25SDocumentStore, ranker: Ranker) -> None:
    """Search with the stemmer that the checkpoint was trained with: after `close`, it may be another one."""
    store.language = ranker.bm25_language


@component
class _FAQRetriever(BM25SRetriever):
    """Retrieves by words and by known wordings: by their vectors if the ranker's checkpoint compares them."""

    def __init__(self, store: BM25SDocumentStore, ranker: AnswerRanker, top_k: int) -> None:
        BM25SRetriever.__init__(self, store, top_k=top_k, wordings=list(ranker.wordings or []))
        self._ranker = ranker

    def warm_up(self) -> None:
        """Load the checkpoint, open the store, and encode the wordings, unless this is done already."""
        ranker = self._ranker.loaded()
        BM25SRetriever.warm_up(self)
        if ranker.compares_wordings:
            self._encode_wordings(ranker)

    def find(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
    ) -> Found:
        """As `run`, with all that known wordings find, as the ranker will choose; no document is embedded for it."""
        return self.find_each([query], filters, top_k, scale_score)[0]

    def find_each(
        self,
        queries: Sequence[str],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
    ) -> list[Found]:
        """As `find`, of each query; their vectors are made together."""
        for query in queries:
            check_query(query)
        filters, top_k = self._limits(filters, top_k)
        ranker = self._ranker.loaded()
        similar: list[Leg | None] = []
        if ranker.compares_wordings:
            similar += self._by_similar_wordings(ranker.question_vectors(queries).numpy(), ranker)
        else:
            similar += [self._by_exact_wording(query) for query in queries]
        fetched: list[Found] = []
        for query, wordings in zip(queries, similar, strict=True):
            of_query = self._fetch(
                query,
                filters,
                top_k,
                wordings=wordings,
                stored_questions=True,
                scale_score=bool(scale_score),
            )
            fetched.append(of_query)
        return fetched
