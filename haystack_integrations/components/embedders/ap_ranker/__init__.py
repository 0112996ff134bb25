# SPDX-License-Identifier: Apache-2.0
"""Haystack components of ap-ranker that embed texts."""

from .document_embedder import APDocumentEmbedder
from .text_embedder import APTextEmbedder

__all__ = ["APDocumentEmbedder", "APTextEmbedder"]
