# SPDX-License-Identifier: Apache-2.0
"""The retriever of `ElasticsearchFAQStore`. It is here because Haystack loads YAML only from this namespace."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from haystack import Document, component, tracing
from haystack.document_stores.types import FilterPolicy
from haystack.utils import ComponentDevice, Secret

from ap_ranker.data.wordings import EntryRows, NamedRows
from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import (
    BM25_LANGUAGE,
    BM25_RANK,
    BM25_SCORE,
    COMPOUNDING,
    asked_words,
    compounds_of,
    parts_of,
)
from ap_ranker.ranking.bm25_statistics import AskedWords, CountedTerms, Statistics
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.text_encoder import BATCH_SIZE
from ap_ranker.ranking.wordings import EMBEDDING_RANK, EMBEDDING_SCORE, WORDING_RANK
from ap_ranker.text.reading import Word
from haystack_integrations.common.ap_ranker.component import (
    READING,
    CheckpointComponent,
    ReadsTexts,
    WarnOnce,
    file_list,
)
from haystack_integrations.common.ap_ranker.query_data import (
    STORED_QUESTION,
    WORDINGS_COUNT,
    Found,
    check_query,
    falling_order,
    query_key,
    with_embeddings,
    with_states,
)
from haystack_integrations.components.retrievers.ap_ranker.elasticsearch_queries import (
    MOST_CLAUSES,
    all_of,
    best_first,
    frequencies_of,
    hits_by_wordings,
    hits_of_all,
    nearest,
    read_statistics,
    statistics_of,
    word_queries,
    wordings_query,
)
from haystack_integrations.components.retrievers.ap_ranker.hybrid import WordingRetriever
from haystack_integrations.components.retrievers.ap_ranker.kept_documents import MOST_KEPT, KeptDocuments
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import (
    ASKED,
    LENGTH,
    ElasticsearchFAQStore,
    expected_reply,
    index_maker,
    name_key,
    wording_keys,
)

KINDS_OF_WORDINGS = 3
"""How many kinds of hits one search for wordings brings, of each as many as are asked for."""

_ONLY_IDS: dict[str, Any] = {"stored_fields": "_none_", "docvalue_fields": ["id"], "seq_no_primary_term": True}
"""What hits bring: ids of columns. Those of stored fields make Elasticsearch unpack all texts: 41 ms in place of 14."""

TERMS_SECONDS = 60.0
"""How long it is taken for known which terms the index has."""


@dataclass(frozen=True)
class _Hits:
    """What the parts of a search have found, ids best first, with the last change of each, and BM25's statistics."""

    by_words: list[str]
    by_meaning: dict[str, float]
    by_wordings: list[str]
    changes: dict[str, int]
    statistics: Statistics
    has_wordings: bool


@component
class ElasticsearchFAQRetriever(WordingRetriever, CheckpointComponent, ReadsTexts):
    """
    Finds documents of a FAQ in Elasticsearch by words, by meaning and by the questions that are known to ask for them.

    It does with one request what `HybridRetriever` does in memory: BM25 of the same words, the vectors of the same
    checkpoint, and known wordings, also those of files. Texts that it has fetched once stay in memory. BM25's scores
    are those of the whole index, however many shards it has. A model without vectors searches by words and wordings.
    A second request fetches texts, and the states of which the checkpoint's rankers read these, if memory lacks any.

    The index is the checkpoint's own; `ap-ranker index` makes it. An answer of some shards only, or a late one, is an
    error.

    ### Usage example

    ```python
    from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever
    from haystack_integrations.document_stores.ap_ranker import ElasticsearchFAQStore

    store = ElasticsearchFAQStore(hosts="http://127.0.0.1:9200", index="faq")
    retriever = ElasticsearchFAQRetriever(store, model="checkpoints/faq")
    print(retriever.run(query="Where is my parcel?")["documents"])
    ```
    """

    parameters = (*WordingRetriever.parameters, *CheckpointComponent.parameters, *READING)
    uses = ("loaded", "document_store", "_known")

    takes_unfinished = False
    """Whether it searches an index that is not complete yet: only `ap-ranker index` does, to test what it has made."""

    def __init__(
        self,
        document_store: ElasticsearchFAQStore,
        *,
        model: str | Path,
        device: ComponentDevice | None = None,
        token: Secret | None = Secret.from_env_var(["HF_API_TOKEN", "HF_TOKEN"], strict=False),  # noqa: B008
        filters: dict[str, Any] | None = None,
        top_k: int = 100,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
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
        Create the component without loading the checkpoint or connecting to the server.

        :param document_store: Where the FAQ is.
        :param model: The path of a checkpoint folder, or the name of a repository of the Hugging Face hub. The same as
            of the ranker; the index is the checkpoint's.
        :param device: The device that the model runs on. By default, the GPU if there is one.
        :param token: The token for a private repository of the hub. By default, the environment's `HF_API_TOKEN` or
            `HF_TOKEN`.
        :param filters: Haystack filters on the documents' meta. Only documents that match are returned.
        :param top_k: The maximum number of documents to find by words, by meaning, and by known wordings, each.
        :param filter_policy: Whether filters given to `run` replace the component's filters or are merged with them.
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
        self._named = NamedRows()
        self._kept = KeptDocuments()
        self._warn_once = WarnOnce()
        self._parts: dict[str, tuple[float, bool]] = {}  # terms that were looked for, when, and whether they are known

    def _load(self) -> Ranker:
        ranker = self._read_checkpoint()
        if ranker.has_vectors:
            ranker.fill_cache()  # so that the ranker does not encode again what was encoded for the vectors
        _ = ranker.fingerprint  # now: later, the folder might contain another checkpoint
        return ranker

    @property
    def index(self) -> str:
        """The index of the checkpoint."""
        ranker = self.loaded()
        return self.document_store.index_of(index_maker(self.texts.origin(ranker), ranker.bm25_language))

    def warm_up(self) -> None:
        """Load the checkpoint, and see whether its index is there and complete."""
        self.loaded()
        self.check()
        ranker = self.loaded()
        if ranker.has_vectors:
            self._encode_wordings(ranker)

    def check(self) -> None:
        """
        See whether a question could be answered now: by all shards, from an index that is complete.

        :raises InputError: It could not; the message says why.
        """
        index = self.index
        self.document_store.facts(index)
        if not self.takes_unfinished:
            self.document_store.require_complete(index)
        if not self.count_documents():
            raise self.document_store.incomplete(index)

    def embedded(self, documents: list[Document]) -> list[Document]:
        """Copies of documents with the states of this checkpoint, as far as they can travel, and vectors, if any."""
        ranker = self.loaded()
        texts = self.texts.texts(documents)
        if ranker.has_vectors:
            vectors = ranker.embed_answers(texts, self.batch_size).tolist()
            documents = with_embeddings(documents, vectors, self.texts.origin(ranker))
        return with_states(documents, ranker.sealed_states(texts, self.batch_size))

    def contents(self, limit: int) -> list[str]:
        """The contents of some documents of the index."""
        documents = self.document_store.first_documents(self.index, limit)
        return [document.content for document in documents if document.content is not None]

    def count_documents(self) -> int:
        """The number of documents in the index of the checkpoint."""
        search = {"size": 0, "aggs": {"texts": {"value_count": {"field": LENGTH}}}}
        answer = self.document_store.search(self.index, [search])[0]
        return int(answer["aggregations"]["texts"]["value"])

    @property
    def _rows(self) -> EntryRows:
        """Of the answers that files name; the documents' own wordings are in the index."""
        return self._named

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """
        Find documents.

        :param query: The question of the user. Must not be empty.
        :param filters: Replace the component's, or are merged with them, as its `filter_policy` says.
        :param top_k: The maximum number of documents to find by each of the three. By default, the component's.
        :returns: `documents`: copies of all that were found. The score of each is the cosine of its vector with the
            query's, `None` if it was not found by that; of a model without vectors it is BM25's. The highest comes
            first. In `meta["ap_ranker"]` of each are the same fields as by `HybridRetriever`.
        :raises InputError: The query is empty, the checkpoint cannot be loaded, or has no index; or not all shards have
            answered in time.
        """
        return {"documents": self.find(query, filters, top_k).copies()}

    def find(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> Found:
        """As `run`, before any document is copied."""
        check_query(query)
        if not query:
            raise InputError("Expected query as a text with words, found an empty one.")
        filters, top_k = self._limits(filters, top_k)
        ranker = self.loaded()
        index = self.index
        language = ranker.bm25_language
        asked = AskedWords.of(query, language, self._known_parts(index, query, language))
        hits = self._hits(ranker, index, query, asked, filters, top_k)
        kept = self._current_documents()
        rows = self._rows_of(ranker, index, hits.changes, kept=kept)
        fetched = _found(hits, kept, rows, asked, query, language)
        span = tracing.tracer.current_span()
        if span is not None:
            span.set_tags({"ap_ranker.top_k": top_k, "ap_ranker.found": len(fetched.rows)})
        return fetched

    def _hits(
        self,
        ranker: Ranker,
        index: str,
        query: str,
        asked: AskedWords,
        filters: dict[str, Any] | None,
        top_k: int,
    ) -> _Hits:
        """What the index answers to one request."""
        matching = []
        if filters:
            matching = [self.document_store.query_of(index, filters)]
        question = self.query_prefix + query + self.query_suffix
        vector = None
        if ranker.has_vectors:
            vector = ranker.embed_questions([question])[0].numpy()
        named = self._known.named(self._named, query, vector, ranker, limit=top_k)
        names = [name_key(kind, name) for kind, name in named]
        limits = {"size": top_k, **_ONLY_IDS}
        words = [limits | {"query": all_of(clause, matching)} for clause in word_queries(asked)]
        meaning: list[dict[str, Any]] = []
        similar = None
        if vector is not None and top_k:
            meaning = [limits | {"query": nearest("embedding", vector, matching, top_k)}]
            similar = nearest(f"{ASKED}.vector", vector, matching, top_k)
        matching_wordings = all_of(wordings_query(wording_keys(query), names, similar), matching)
        wordings = {**limits, "size": KINDS_OF_WORDINGS * top_k, "query": matching_wordings}
        answers = self.document_store.search(index, [statistics_of(asked), *words, *meaning, wordings])
        with expected_reply(index):
            by_words = answers[1 : 1 + len(words)]
            by_meaning = answers[1 + len(words) : -1]
            by_wordings = hits_by_wordings(answers[-1], top_k)
            hits_by_words = hits_of_all(by_words)
            hits_by_meaning = hits_of_all(by_meaning)
            counted = answers[0]["aggregations"]
            if not counted["lengths"]["count"]:  # it was deleted, and is being made anew
                raise self.document_store.incomplete(index)
            cosines: dict[str, float] = {}
            for hit in hits_by_meaning:
                cosines[hit["_id"]] = 2 * hit["_score"] - 1  # Elasticsearch has (1 + cosine) / 2 as score
            changes: dict[str, int] = {}
            for hit in (*hits_by_words, *hits_by_meaning, *by_wordings):
                changes[hit["_id"]] = hit["_seq_no"]
            return _Hits(
                best_first(hits_by_words),
                cosines,
                by_wordings=[hit["_id"] for hit in by_wordings],
                changes=changes,
                statistics=read_statistics(asked, counted),
                has_wordings=bool(counted["asked"]["doc_count"]) or bool(names),
            )

    def _current_documents(self) -> KeptDocuments:
        """Those in memory, or a new beginning where they have become too many."""
        if self._kept.is_full:
            self._kept = KeptDocuments()
        return self._kept

    def _rows_of(
        self, ranker: Ranker, index: str, changes: Mapping[str, int], *, kept: KeptDocuments
    ) -> dict[str, int]:
        """The rows of documents; what memory lacks of them and of their states is fetched, but for what is gone."""
        rows: dict[str, int] = {}
        new: list[str] = []
        for name, change in changes.items():
            row = kept.rows.get((name, change))
            if row is None:
                new.append(name)
            else:
                rows[name] = row
        names = list(rows)
        lacking = ranker.lacking_states([kept.documents[row].text for row in rows.values()])
        fetched = self.document_store.documents(
            index, new, of_states=[names[place] for place in lacking], with_states=ranker.reads_states
        )
        came_with_states: dict[str, Any] = {}
        for name, answer in fetched.items():
            if answer.document is not None:
                [text] = self.texts.texts([answer.document])
                kept.add((name, answer.change), answer.document, text, ranker.bm25_language)
                rows[name] = kept.rows[name, answer.change]
            elif answer.change != changes[name]:  # a later text than that in memory, and its states
                continue
            if answer.states is not None:
                came_with_states[name] = answer.states
        if came_with_states:
            texts = [kept.documents[rows[name]].text for name in came_with_states]
            self._take_states(ranker, texts, list(came_with_states.values()))
        return rows

    def _take_states(self, ranker: Ranker, texts: Sequence[str], sealed: Sequence[Any]) -> None:
        n_useless = ranker.take_states(texts, sealed)
        if n_useless:
            self._warn_once(
                "{count} of {total} documents have states that are damaged, or of another checkpoint, text or dtype: "
                "their texts are encoded here. Run `ap-ranker index` again.",
                count=n_useless,
                total=len(texts),
            )

    def _known_parts(self, index: str, query: str, language: str | None) -> dict[Word, list[str]]:
        """The known terms that may be parts of the query's compounds that no text has, in languages that have them."""
        if language not in COMPOUNDING:
            return {}
        terms: dict[Word, list[str]] = {}
        parts: dict[Word, list[str]] = {}
        asked_for: dict[str, None] = {}  # in their order, each once
        for word in asked_words(query, language):
            terms[word] = list(chain.from_iterable(word))
            parts_of_compounds = map(parts_of, compounds_of(word))
            parts[word] = list(chain.from_iterable(parts_of_compounds))
            asked_for |= dict.fromkeys([*terms[word], *parts[word]])
        is_known = self._known_terms(index, list(asked_for))
        known_parts: dict[Word, list[str]] = {}
        for word, terms_of_word in terms.items():
            if compounds_of(word) and not any(is_known[term] for term in terms_of_word):
                known_parts[word] = [part for part in parts[word] if is_known[part]]
        return known_parts

    def _known_terms(self, index: str, terms: Sequence[str]) -> dict[str, bool]:
        """Whether the index has each term; asked for once a minute at most."""
        now = time.monotonic()
        if len(self._parts) > MOST_KEPT:
            self._parts = {}
        parts = self._parts
        new: list[str] = []
        for term in terms:
            if term not in parts or now - parts[term][0] > TERMS_SECONDS:
                new.append(term)
        for start in range(0, len(new), MOST_CLAUSES):
            looked_for = new[start : start + MOST_CLAUSES]
            answer = self.document_store.search(index, [{"size": 0, "aggs": {"terms": frequencies_of(looked_for)}}])[0]
            with expected_reply(index):
                buckets = answer["aggregations"]["terms"]["buckets"]
                counted: dict[str, tuple[float, bool]] = {}
                for term, bucket in zip(looked_for, buckets, strict=True):
                    counted[term] = (now, bucket["doc_count"] > 0)
                parts |= counted  # all of them, or none of a damaged reply
        return {term: parts[term][1] for term in terms}


def _found(
    hits: _Hits,
    kept: KeptDocuments,
    rows: Mapping[str, int],
    asked: AskedWords,
    query: str,
    language: str | None,
) -> Found:
    """What was found, in the order of its rows, with BM25's score of each."""
    names = sorted(rows, key=rows.__getitem__)
    documents: list[Document] = []
    counted_terms: list[CountedTerms] = []
    for name in names:
        kept_document = kept.documents[rows[name]]
        documents.append(kept_document.document)
        counted_terms.append(kept_document.counted)
    bm25 = hits.statistics.scores(asked, counted_terms)
    cosines = [hits.by_meaning.get(name) for name in names]
    scores = cosines if hits.by_meaning else bm25
    columns: dict[str, list[Any]] = {
        EMBEDDING_SCORE: cosines,
        EMBEDDING_RANK: _ranks(list(hits.by_meaning), names),
        BM25_SCORE: bm25,
        BM25_RANK: _ranks(hits.by_words, names),
        WORDING_RANK: _ranks(hits.by_wordings, names),
    }
    meta: dict[str, Any] = {STORED_QUESTION: True, BM25_LANGUAGE: language}
    if hits.has_wordings:
        meta[WORDINGS_COUNT] = True
    return Found(
        kept,
        [rows[name] for name in names],
        documents=documents,
        order=falling_order(scores),
        scores=scores,
        columns=columns,
        meta=meta,
        key=query_key(query),
        is_whole=False,
        has_embeddings=False,
    )


def _ranks(best: Sequence[str], names: Sequence[str]) -> list[int | None]:
    """The rank of each name among the best, from 1."""
    ranks = {name: rank for rank, name in enumerate(best, start=1)}
    return [ranks.get(name) for name in names]
