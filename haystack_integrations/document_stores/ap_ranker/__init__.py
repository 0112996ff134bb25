# SPDX-License-Identifier: Apache-2.0
"""Haystack document stores of ap-ranker."""

from .bm25s import BM25SDocumentStore
from .elasticsearch_faq import ElasticsearchFAQStore

__all__ = ["BM25SDocumentStore", "ElasticsearchFAQStore"]
