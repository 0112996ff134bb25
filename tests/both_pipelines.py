"""A pipeline as a user has it twice: built in Python, and loaded from the YAML that it was written to."""

from __future__ import annotations

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
    assert again.run(inputs, **options) == built
    return built


def ids(documents: list[Document]) -> list[str]:
    return [document.id for document in documents]
