"""Haystack retrievers of ap-ranker, what brings another retriever's scores to the same scale, and a whole search."""

from .bm25s import BM25SRetriever
from .faq_search import FAQSearch
from .lucene_scores import LuceneScores

__all__ = ["BM25SRetriever", "FAQSearch", "LuceneScores"]
