"""What is in the documents' meta: the questions of Haystack's extended document store protocol."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from typing import Any

from haystack import Document


class MetadataQueries(ABC):
    """Answers them for any store that can filter its documents; a field may be named with or without "meta."."""

    @abstractmethod
    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """The documents that match Haystack's filters."""

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """How many documents match."""
        return len(self.filter_documents(filters))

    def count_unique_metadata_by_filter(self, filters: dict[str, Any], metadata_fields: list[str]) -> dict[str, int]:
        """Field (without "meta.") -> how many different values it has in the documents that match."""
        documents = self.filter_documents(filters)
        return {_key(field): len(_unique(documents, field)) for field in metadata_fields}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Field -> its `type`: boolean, int, float, or keyword for all else; of several, the last one written."""
        types = {}
        for document in self.filter_documents():
            for field, value in document.meta.items():
                if value is not None:
                    types[field] = {"type": _TYPES.get(type(value), "keyword")}
        return types

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """The `min` and `max` of a field's numbers or texts; `None` where it has none, or both."""
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
        """A page of a field's different values, sorted as texts, and how many there are in all.

        :param metadata_field: The meta field, with or without the prefix `meta.`.
        :param search_term: Keeps the values that hold this text, in upper or lower case.
        :param from_: The number of values before the page.
        :param size: The maximum number of values on the page.
        :param filters: Haystack filters; only documents that match are considered.
        """
        term = (search_term or "").lower()
        values = _unique(self.filter_documents(filters), metadata_field)
        matching = [value for value in values if term in str(value).lower()]
        matching.sort(key=lambda value: (str(value), type(value).__name__))
        return matching[from_ : from_ + size], len(matching)

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        """As `count_documents_by_filter`, in a thread, as are all that follow."""
        return await asyncio.to_thread(self.count_documents_by_filter, filters)

    async def count_unique_metadata_by_filter_async(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """As `count_unique_metadata_by_filter`."""
        return await asyncio.to_thread(self.count_unique_metadata_by_filter, filters, metadata_fields)

    async def get_metadata_fields_info_async(self) -> dict[str, dict[str, str]]:
        """As `get_metadata_fields_info`."""
        return await asyncio.to_thread(self.get_metadata_fields_info)

    async def get_metadata_field_min_max_async(self, metadata_field: str) -> dict[str, Any]:
        """As `get_metadata_field_min_max`."""
        return await asyncio.to_thread(self.get_metadata_field_min_max, metadata_field)

    async def get_metadata_field_unique_values_async(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """As `get_metadata_field_unique_values`."""
        return await asyncio.to_thread(
            self.get_metadata_field_unique_values, metadata_field, search_term, from_, size, filters
        )


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
