# SPDX-License-Identifier: Apache-2.0
"""Haystack document stores of ap-ranker."""

from .bm25s import BM25SDocumentStore

__all__ = ["BM25SDocumentStore"]
