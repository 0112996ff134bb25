# SPDX-License-Identifier: Apache-2.0
"""Haystack components of ap-ranker: retrievers, scores of other retrievers as BM25's, and a complete FAQ search."""

from .bm25_scores import BM25Scores
from .bm25s import BM25SEmbeddingRetriever, BM25SRetriever
from .elasticsearch_retriever import ElasticsearchFAQRetriever
from .faq_search import AnswerSearch, FAQSearch
from .hybrid import HybridRetriever
from .lucene_scores import LuceneScores

__all__ = [
    "AnswerSearch",
    "BM25SEmbeddingRetriever",
    "BM25SRetriever",
    "BM25Scores",
    "ElasticsearchFAQRetriever",
    "FAQSearch",
    "HybridRetriever",
    "LuceneScores",
]
