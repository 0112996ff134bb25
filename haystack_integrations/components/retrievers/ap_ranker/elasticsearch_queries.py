# SPDX-License-Identifier: Apache-2.0
"""The searches of `ElasticsearchFAQRetriever` in the language of Elasticsearch, and what their replies have found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ap_ranker.ranking.bm25 import TIE_BREAKER
from ap_ranker.ranking.bm25_statistics import AskedWords, Statistics, Ways
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import ASKED, KEYS, LENGTH, NAMES, WORDS

MOST_CLAUSES = 900
"""Maximum number of terms in one search: Elasticsearch allows 1,024 where its memory is small."""

OVERSAMPLE = 1.5
"""How many times as many neighbours are compared by their exact vectors: of the 100 nearest, vectors of 8-bit numbers
alone find .984, and these .9998."""

WORD_FOR_WORD = 1_000.0
NAMED = 100.0
"""What a document gets that has the question as a known wording, or that files of wordings name, so that these come
before those with similar wordings, whose scores are at most 1."""


def all_of(query: dict[str, Any], filters: list[dict[str, Any]]) -> dict[str, Any]:
    """What matches a query, and filters, which leave its scores as they are."""
    return {"bool": {"must": [query], "filter": filters}}


def nearest(name: str, vector: np.ndarray, filters: list[dict[str, Any]], top_k: int) -> dict[str, Any]:
    """The nearest vectors of a field, each document once. As a query, it saves a search of its own a round trip."""
    search = {
        "field": name,
        "query_vector": [round(number, 6) for number in vector.tolist()],
        "k": top_k,
        "num_candidates": min(10_000, max(100, 2 * top_k)),
        "rescore_vector": {"oversample": OVERSAMPLE},
    }
    if filters:
        search["filter"] = filters
    return {"knn": search}


def wordings_query(keys: Sequence[str], names: Sequence[str], similar: dict[str, Any] | None) -> dict[str, Any]:
    """Documents by their known wordings: the question itself, what files of wordings name, and similar ones."""
    clauses: list[dict[str, Any]] = [_constant({"terms": {KEYS: keys}}, WORD_FOR_WORD)]
    if names:
        clauses.append(_constant({"terms": {NAMES: names}}, NAMED))
    if similar is not None:
        clauses.append({"nested": {"path": ASKED, "query": similar, "score_mode": "max"}})
    return {"bool": {"should": clauses}}


def _constant(query: dict[str, Any], boost: float) -> dict[str, Any]:
    return {"constant_score": {"filter": query, "boost": boost}}


def word_queries(asked: AskedWords) -> list[dict[str, Any]]:
    """The words asked for as queries, of as many terms each as Elasticsearch allows; BM25's score is their sum."""
    queries: list[dict[str, Any]] = []
    clauses: list[dict[str, Any]] = []
    n_terms = 0
    for ways, times in asked.times.items():
        size = sum(map(len, chain.from_iterable(ways)))
        if clauses and n_terms + size > MOST_CLAUSES:
            queries.append({"bool": {"should": clauses}})
            clauses = []
            n_terms = 0
        clauses.append(_word_clause(ways, times))
        n_terms += size
    if clauses:
        return [*queries, {"bool": {"should": clauses}}]
    return []


def _word_clause(ways: Ways, times: int) -> dict[str, Any]:
    """A word as a query with the score of `Statistics.scores`; what is simple is written simply."""
    alternatives = []
    for way in ways:
        forms = [_form_clause(form) for form in way]
        alternatives.append(forms[0] if len(forms) == 1 else {"dis_max": {"queries": forms}})
    if len(alternatives) == 1 and len(ways[0]) == 1 and len(ways[0][0]) == 1:
        return {"term": {WORDS: {"value": ways[0][0][0], "boost": times}}}
    return {"dis_max": {"queries": alternatives, "tie_breaker": TIE_BREAKER.item(), "boost": times}}


def _form_clause(form: Sequence[str]) -> dict[str, Any]:
    terms = [{"term": {WORDS: term}} for term in form]
    if len(terms) == 1:
        return terms[0]
    return {"bool": {"should": terms}}


def frequencies_of(terms: Sequence[str]) -> dict[str, Any]:
    """An aggregation: in how many documents each of the terms is."""
    return {"filters": {"filters": [{"term": {WORDS: term}} for term in terms]}}


def statistics_of(asked: AskedWords) -> dict[str, Any]:
    """A search for BM25's statistics, of the whole index, whatever its shards and the filters."""
    counted = {"lengths": {"stats": {"field": LENGTH}}, "asked": {"filter": {"exists": {"field": KEYS}}}}
    if asked.terms:
        counted["terms"] = frequencies_of(asked.terms)
    return {"size": 0, "aggs": counted}


def read_statistics(asked: AskedWords, counted: Mapping[str, Any]) -> Statistics:
    """The statistics of the words asked for, as a search for them has counted."""
    lengths = counted["lengths"]
    counts = []
    if asked.terms:
        counts = [bucket["doc_count"] for bucket in counted["terms"]["buckets"]]
    frequencies = dict(zip(asked.terms, counts, strict=True))
    return Statistics(lengths["count"], lengths["avg"] or 0.0, frequencies)


def hits_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The hits, with their ids; what another writer has left without one cannot be fetched."""
    hits = answer.get("hits", {}).get("hits", [])
    return [hit | {"_id": hit["fields"]["id"][0]} for hit in hits if "fields" in hit]


def hits_of_all(answers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The hits of several searches, one after the other."""
    hits: list[dict[str, Any]] = []
    for answer in answers:
        hits += hits_of(answer)
    return hits


def best_first(hits: Sequence[Mapping[str, Any]]) -> list[str]:
    """The documents of several searches by their scores, of which each has a part."""
    scores: dict[str, float] = {}
    for hit in hits:
        scores[hit["_id"]] = scores.get(hit["_id"], 0.0) + hit["_score"]
    return sorted(scores, key=scores.__getitem__, reverse=True)


def hits_by_wordings(answer: Mapping[str, Any], top_k: int) -> list[dict[str, Any]]:
    """What a search for wordings has found, best first: of each kind at most as many as are asked for."""
    kinds: dict[float, list[dict[str, Any]]] = {WORD_FOR_WORD: [], NAMED: [], 0.0: []}
    for hit in hits_of(answer):
        for least_score, hits_of_kind in kinds.items():  # the highest first
            if hit["_score"] >= least_score:
                hits_of_kind.append(hit)
                break
    best: list[dict[str, Any]] = []
    for hits_of_kind in kinds.values():
        best += hits_of_kind[:top_k]
    return best
