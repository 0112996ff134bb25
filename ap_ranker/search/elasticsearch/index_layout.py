"""The settings and the mapping of an index of Elasticsearch: from one file, for a checkpoint and its language."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ap_ranker.errors import InputError, one_line
from ap_ranker.search.default_pipelines import DEFAULTS
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import ASKED, OF_INDEX

SETTINGS = DEFAULTS / "elasticsearch_index.json"

_SAME_NAMES = (
    *("arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "estonian", "finnish", "french"),
    *("german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali"),
    *("norwegian", "persian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil"),
    *("turkish", "yiddish"),
)
"""Languages whose stemmers have their names in Elasticsearch, too."""

STEMMERS = {"english": "porter2", "porter": "porter"} | {language: language for language in _SAME_NAMES}
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
            settings = deepcopy(declared["settings"])
            mappings = deepcopy(declared["mappings"])
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
        for name, options in (fields or {}).items():
            properties[name] = dict(options)
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
        expected = {
            "mappings": self._mappings_of(mappings.get("properties", {}), mappings.get("_source", {})),
            "settings": {"analysis": self.settings.get("analysis", {}), **self._settings_of(STATIC)},
        }
        actual = {"mappings": mappings, "settings": settings}
        differences = []
        for name, expected_value, value in _different(expected, actual):
            differences.append(f"{name} is {one_line(repr(value), 60)}, expected {one_line(repr(expected_value), 60)}")
        return differences

    @property
    def changeable(self) -> dict[str, Any]:
        """Its settings that an index that exists takes over."""
        return self._settings_of(DYNAMIC)

    def _mappings_of(self, fields: Container[str], source: Mapping[str, Any]) -> dict[str, Any]:
        """The mapping without notes, and of its fields, and of those that its source leaves out, only these.

        What a source leaves out cannot be changed later, and an earlier release may have had fewer such fields.
        """
        properties = self.mappings["properties"]
        mappings = dict(self.mappings)
        mappings.pop("_meta", None)
        mappings["properties"] = {name: options for name, options in properties.items() if name in fields}
        if source.get("excludes") and "_source" in mappings:
            left_out = [name for name in mappings["_source"].get("excludes", ()) if name in source["excludes"]]
            mappings["_source"] = {**mappings["_source"], "excludes": left_out}
        return mappings

    def _settings_of(self, names: Iterable[str]) -> dict[str, Any]:
        """Its settings of these names, without those that it leaves to Elasticsearch."""
        return {name: self.settings[name] for name in names if name in self.settings}


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


def _different(expected: Any, actual: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The name, the expected and the actual value of what differs; defaults, which nobody expects, do not."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key, value in expected.items():
            inner_name = f"{name}.{key}" if name else str(key)
            yield from _different(value, actual.get(key), inner_name)
    elif _plain(expected) != _plain(actual):
        yield name, expected, actual


def _plain(value: Any) -> Any:
    """A value as Elasticsearch gives it back: numbers and booleans are texts."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
