"""Haystack retrievers of ap-ranker."""

from .bm25s import BM25SRetriever

__all__ = ["BM25SRetriever"]
