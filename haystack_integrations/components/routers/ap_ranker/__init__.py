# SPDX-License-Identifier: Apache-2.0
"""Haystack component of ap-ranker that routes a query by whether it has an answer."""

from .answer_router import AnswerRouter

__all__ = ["AnswerRouter"]
