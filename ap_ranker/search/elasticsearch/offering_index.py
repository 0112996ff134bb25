"""What the page offers of a FAQ in Elasticsearch before anything is asked; each of these is one small request."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from haystack import Document

from ap_ranker.errors import InputError
from ap_ranker.ranking.state_bytes import STATES
from ap_ranker.search.offered_questions import LONGEST_SUGGESTION
from haystack_integrations.common.ap_ranker.entries import MARK
from haystack_integrations.components.retrievers.ap_ranker import ElasticsearchFAQRetriever
from haystack_integrations.document_stores.ap_ranker.elasticsearch_documents import BEGINNINGS, TOPIC, documents_of
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import KEYS, expected_reply, wording_keys

logger = logging.getLogger(__name__)

_ORDER = [{MARK: {"order": "asc", "missing": "_last"}}]
"""The same on each copy of a shard."""

_BRIEF = {"excludes": ["content", "answer", BEGINNINGS, STATES]}
"""Of a document, what neither topics nor questions need."""


class OfferingIndex:
    """The index that a retriever searches, as the page browses it. Threads may share it.

    `category` is a column of topics, one of the store's `fields`; by default, topics are as `category_of` reads them.
    """

    def __init__(self, retriever: ElasticsearchFAQRetriever, category: str = "") -> None:
        self._retriever = retriever
        self.category = category
        self._topic = category or TOPIC
        self._is_told = False

    def check(self) -> None:
        """InputError unless the index can count the entries of each value of the category's column."""
        if not self.category:
            return
        index = self._retriever.index
        kind = self._retriever.document_store.facts(index).fields.get(self.category)
        if kind != "keyword":
            raise InputError(
                f"Expected the page's category {self.category!r} as a keyword of the index {index!r}, found "
                f"{kind or 'no such field'}. Add it to the store's fields in the pipeline ({self.category}: {{type: "
                "keyword}), and run `ap-ranker index`; or leave the category out of the page's settings."
            )

    def beginning_like(self, beginnings: Sequence[str], line: str, most: int) -> list[Document]:
        """Documents of which some texts have words that begin so; first those with one that begins like the line."""
        if sum(map(len, beginnings)) > LONGEST_SUGGESTION or not self._has(BEGINNINGS):
            return []
        words = [{"prefix": {f"{BEGINNINGS}.words": beginning}} for beginning in beginnings]
        line_begins = {"constant_score": {"filter": {"prefix": {BEGINNINGS: line}}}}
        query = {"bool": {"filter": words, "should": [line_begins]}}
        return self._documents(query, most, ["_score", *_ORDER])

    def topics(self, most: int, most_documents: int) -> Iterator[tuple[str, int, list[Document]]]:
        """The topics, the largest first: each with its number of documents, and the first of them."""
        if not self._has(TOPIC):
            return
        first = {"top_hits": {"size": most_documents, "sort": _ORDER, "_source": _BRIEF}}
        topics = {"terms": {"field": self._topic, "size": most}, "aggs": {"first": first}}
        answer = self._search({"size": 0, "query": {"exists": {"field": TOPIC}}, "aggs": {"topics": topics}})
        with expected_reply(self._retriever.index):
            for bucket in answer["aggregations"]["topics"]["buckets"]:
                yield bucket["key"], bucket["doc_count"], documents_of(bucket["first"]["hits"]["hits"])

    def documents_about(self, topic: str, most: int) -> list[Document]:
        """The first documents of a topic that can be browsed."""
        if not self._has(TOPIC):
            return []
        conditions = [{"term": {self._topic: topic}}, {"exists": {"field": TOPIC}}]
        return self._documents({"bool": {"filter": conditions}}, most, _ORDER)

    def documents_with(self, questions: Sequence[str]) -> list[Document]:
        """Documents, at most ten for each of these questions, that know it word for word."""
        keys: list[str] = []
        for question in questions:
            keys += wording_keys(question)
        if not keys:
            return []
        query = {"bool": {"filter": {"terms": {KEYS: keys}}}}
        return self._documents(query, 10 * len(questions), _ORDER)

    def _has(self, name: str) -> bool:
        """Whether the index has a field; of one that an earlier release made, the log says once that it has not."""
        index = self._retriever.index
        store = self._retriever.document_store
        if name in store.facts(index).fields:
            return True
        store.forget(index)  # `ap-ranker index` may add it
        if not self._is_told:
            self._is_told = True
            logger.warning(
                "The index %s of an earlier release offers no suggestions and no topics. Run `ap-ranker index`, which "
                "adds them; if the pipeline has settings of its own, with the fields of elasticsearch_index.json.",
                index,
            )
        return False

    def _documents(self, query: dict[str, Any], most: int, order: list[Any]) -> list[Document]:
        answer = self._search({"size": most, "query": query, "sort": order, "_source": _BRIEF})
        return documents_of(answer.get("hits", {}).get("hits", []))

    def _search(self, search: dict[str, Any]) -> dict[str, Any]:
        return self._retriever.document_store.search(self._retriever.index, [search])[0]
