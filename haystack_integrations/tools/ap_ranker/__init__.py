# SPDX-License-Identifier: Apache-2.0
"""Tools of ap-ranker for agents."""

from .faq_search_tool import AgentSearch, faq_search_tool

__all__ = ["AgentSearch", "faq_search_tool"]
