# SPDX-License-Identifier: Apache-2.0
"""Filters as users write them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from haystack import Document

_DOCUMENT = frozenset(field.name for field in fields(Document))


def with_meta_prefix(filters: dict[str, Any]) -> dict[str, Any]:
    """
    Haystack's filters with the prefix `meta.` before each field of the meta, which users forget.

    Haystack finds `category` without it, but of `product.name` nothing, and does not say so. What is malformed stays as
    it is: Haystack refuses it.
    """
    match filters:
        case {"field": str(field)} if field.partition(".")[0] not in _DOCUMENT:
            return {**filters, "field": f"meta.{field}"}
        case {"conditions": list(conditions)}:
            nested = [with_meta_prefix(each) if isinstance(each, dict) else each for each in conditions]
            return {**filters, "conditions": nested}
    return filters
