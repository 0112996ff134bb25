# SPDX-License-Identifier: Apache-2.0
"""Haystack components of ap-ranker."""

from .ranker import ABCNNRanker, AnswerRanker, APRanker, GlobalLocalRanker

__all__ = ["ABCNNRanker", "APRanker", "AnswerRanker", "GlobalLocalRanker"]
