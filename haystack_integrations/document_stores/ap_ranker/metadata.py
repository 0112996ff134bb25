"""Metadata queries of Haystack's extended document store protocol."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from haystack import Document

from ap_ranker.threads import in_thread


class MetadataQueries(ABC):
    """Implements metadata queries for any store that can filter its documents.

    The prefix `meta.` of a field is optional.
    """

    @abstractmethod
    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """The documents that match Haystack's filters."""

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """The number of documents that match."""
        return len(self.filter_documents(filters))

    def count_unique_metadata_by_filter(self, filters: dict[str, Any], metadata_fields: list[str]) -> dict[str, int]:
        """For each field, without `meta.`, the number of its different values in the documents that match."""
        documents = self.filter_documents(filters)
        return {_key(field): len(_unique(documents, field)) for field in metadata_fields}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """For each field its `type`: boolean, int, float, or keyword for all else; of several, the last one written."""
        types = {}
        for document in self.filter_documents():
            for field, value in document.meta.items():
                if value is not None:
                    types[field] = {"type": _TYPES.get(type(value), "keyword")}
        return types

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """The `min` and `max` of a field's numbers or texts; `None` if it has neither, or both."""
        values = [value for value in _values(self.filter_documents(), metadata_field) if isinstance(value, _ORDERED)]
        try:
            return {"min": min(values), "max": max(values)}
        except (ValueError, TypeError):
            return {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """A page of a field's different values, sorted as texts, and their total number.

        :param metadata_field: The meta field, with or without the prefix `meta.`.
        :param search_term: Keeps only values that contain this text; case is ignored.
        :param from_: The number of values before the page.
        :param size: The maximum number of values on the page.
        :param filters: Haystack filters; only documents that match are considered.
        """
        term = (search_term or "").lower()
        values = _unique(self.filter_documents(filters), metadata_field)
        matching = [value for value in values if term in str(value).lower()]
        matching.sort(key=lambda value: (str(value), type(value).__name__))
        return matching[from_ : from_ + size], len(matching)

    count_documents_by_filter_async = in_thread(count_documents_by_filter)
    count_unique_metadata_by_filter_async = in_thread(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = in_thread(get_metadata_fields_info)
    get_metadata_field_min_max_async = in_thread(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = in_thread(get_metadata_field_unique_values)


_TYPES: dict[type, str] = {bool: "boolean", int: "int", float: "float"}
_ORDERED = (int, float, str)


def _key(field: str) -> str:
    return field.removeprefix("meta.")


def _values(documents: list[Document], field: str) -> list[Any]:
    values = (document.meta.get(_key(field)) for document in documents)
    return [value for value in values if value is not None]


def _unique(documents: list[Document], field: str) -> list[Any]:
    # JSON tells 1, 1.0, "1" and True apart, which Python's == does not, and lists can be compared in it.
    unique = {json.dumps(value, sort_keys=True, default=repr): value for value in _values(documents, field)}
    return list(unique.values())
