"""Haystack components of ap-ranker: a retriever, a converter of Elasticsearch's scores, and a complete FAQ search."""

from .bm25s import BM25SRetriever
from .faq_search import FAQSearch
from .lucene_scores import LuceneScores

__all__ = ["BM25SRetriever", "FAQSearch", "LuceneScores"]
