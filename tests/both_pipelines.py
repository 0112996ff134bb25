"""A pipeline as a user has it twice: built in Python, and loaded from the YAML that it was written to."""

from __future__ import annotations

from math import isclose
from typing import Any

from haystack import Document, Pipeline


def assembled(parts: dict[str, Any], *connections: str) -> Pipeline:
    """A pipeline of components, each by its name, and of connections such as `"retriever > ranker"`."""
    pipeline = Pipeline()
    for name, part in parts.items():
        pipeline.add_component(name, part)
    for connection in connections:
        pipeline.connect(*connection.split(" > "))
    return pipeline


def run_both(pipeline: Pipeline, inputs: dict[str, Any], **options: Any) -> dict[str, Any]:
    """What the pipeline returns; the one that is loaded from its YAML must have the same components, and return it."""
    built = pipeline.run(inputs, **options)
    again = Pipeline.loads(pipeline.dumps())
    assert again.to_dict()["components"] == pipeline.to_dict()["components"]
    assert alike(again.run(inputs, **options), built)
    return built


def alike(found: Any, expected: Any) -> bool:
    """Whether outputs are equal but for the last digits of floats: products depend on where numbers lie in memory."""
    if isinstance(expected, float):
        return isinstance(found, float) and isclose(found, expected, rel_tol=1e-6, abs_tol=1e-7)
    if isinstance(expected, Document):
        return isinstance(found, Document) and alike(found.to_dict(flatten=False), expected.to_dict(flatten=False))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(alike(found[key], each) for key, each in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(alike, found, expected))
    return bool(found == expected)


def ids(documents: list[Document]) -> list[str]:
    return [document.id for document in documents]
