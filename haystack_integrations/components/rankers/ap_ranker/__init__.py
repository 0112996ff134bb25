"""Haystack components of ap-ranker."""

from .ranker import APRanker

__all__ = ["APRanker"]
