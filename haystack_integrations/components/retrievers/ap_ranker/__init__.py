"""Haystack retrievers of ap-ranker, and what brings another retriever's scores to the same scale."""

from .bm25s import BM25SRetriever
from .lucene_scores import LuceneScores

__all__ = ["BM25SRetriever", "LuceneScores"]
