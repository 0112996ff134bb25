"""The settings and the mapping of an index of Elasticsearch: from one file, for a checkpoint and its language."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ap_ranker.errors import InputError, one_line
from ap_ranker.search.default_pipelines import DEFAULTS
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import ASKED, OF_INDEX

SETTINGS = DEFAULTS / "elasticsearch_index.json"

STEMMERS = {"english": "porter2", "porter": "porter"} | {
    language: language
    for language in (
        *("arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "estonian", "finnish", "french"),
        *("german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali"),
        *("norwegian", "persian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil"),
        *("turkish", "yiddish"),
    )
}
"""Languages of BM25 -> what Elasticsearch calls their stemmers, for the field `content`; it lacks those of others."""

STATIC = ("number_of_shards",)
"""Settings of an index that cannot be changed later."""


DYNAMIC = ("number_of_replicas", "auto_expand_replicas")
"""Settings that can."""


@dataclass(frozen=True)
class Layout:
    """The settings and the mapping of an index, as the request that makes it has them."""

    settings: Mapping[str, Any]
    mappings: Mapping[str, Any]

    @classmethod
    def read(
        cls,
        path: str | None,
        *,
        language: str | None,
        dimensions: int | None,
        fields: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Layout:
        """
        The layout for a language of BM25, and for vectors of so many numbers, or none, if the model has none.

        `path` is a copy of the default file, or `None` for that itself; `fields` are the columns to filter by.
        InputError if the file is none.
        """
        file = SETTINGS if path is None else Path(path)
        try:
            declared = json.loads(file.read_text(encoding="utf-8"))
            settings, mappings = deepcopy(declared["settings"]), deepcopy(declared["mappings"])
            properties = mappings["properties"]
            analysis = settings["analysis"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{file}: expected settings and mappings as `ap-ranker pipelines` writes them into "
                f"elasticsearch_index.json, found others ({one_line(repr(error))})."
            ) from error
        _set_language(analysis, language)
        if dimensions is None:
            del properties["embedding"], properties[ASKED]
        else:
            properties["embedding"]["dims"] = dimensions
            properties[ASKED]["properties"]["vector"]["dims"] = dimensions
        properties |= {name: dict(options) for name, options in (fields or {}).items()}
        return cls(settings, mappings)

    def with_notes(self, notes: Mapping[str, Any]) -> dict[str, Any]:
        """The mapping with notes of `ap-ranker index`."""
        return {**self.mappings, "_meta": {**self.mappings.get("_meta", {}), OF_INDEX: dict(notes)}}

    def missing_fields(self, mappings: Mapping[str, Any]) -> dict[str, Any]:
        """The properties that an index does not have."""
        there = mappings.get("properties", {})
        return {name: options for name, options in self.mappings["properties"].items() if name not in there}

    def differences(self, settings: Mapping[str, Any], mappings: Mapping[str, Any]) -> list[str]:
        """What is otherwise in an index, by its name, with both values; fields that are missing aside."""
        expected = {"mappings": {name: value for name, value in self.mappings.items() if name != "_meta"}}
        expected["mappings"]["properties"] = {
            name: options
            for name, options in self.mappings["properties"].items()
            if name in mappings.get("properties", {})
        }
        expected["settings"] = {"analysis": self.settings.get("analysis", {})}
        expected["settings"] |= {name: self.settings[name] for name in STATIC if name in self.settings}
        found = {"mappings": mappings, "settings": settings}
        return [
            f"{name} is {one_line(repr(value), 60)}, expected {one_line(repr(wanted), 60)}"
            for name, wanted, value in _different(expected, found)
        ]

    @property
    def changeable(self) -> dict[str, Any]:
        """Its settings that an index that exists takes over."""
        return {name: self.settings[name] for name in DYNAMIC if name in self.settings}


def _set_language(analysis: Mapping[str, Any], language: str | None) -> None:
    """Let the analyzers of the field `content` read a language, as nearly as Elasticsearch can."""
    stemmer = STEMMERS.get(language or "")
    if stemmer is not None:
        analysis["filter"]["stem"] = {"type": "stemmer", "language": stemmer}
    for analyzer in analysis["analyzer"].values():
        filters = analyzer.get("filter", [])
        if stemmer is None and "stem" in filters:
            filters.remove("stem")
        if language == "turkish" and "lowercase" in filters:
            filters[filters.index("lowercase")] = "lowercase_turkish"


def _different(expected: Any, found: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """What of one is not in the other, which may have more: defaults, and numbers as texts."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key, value in expected.items():
            yield from _different(value, found.get(key), f"{name}.{key}" if name else str(key))
    elif _plain(expected) != _plain(found):
        yield name, expected, found


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if value is None else str(value).lower() if isinstance(value, bool) else str(value)
