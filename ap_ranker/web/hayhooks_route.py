"""Hayhooks' REST route of a pipeline, `POST /<name of the file>/run`, with the same limits as the page's routes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import wraps
from typing import Any

from fastapi import FastAPI, HTTPException
from hayhooks import YAMLPipelineWrapper
from hayhooks.server.pipelines.registry import registry
from hayhooks.server.utils.deploy_utils import add_pipeline_api_route
from haystack import Document
from pydantic import TypeAdapter, ValidationError

from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import report_store_errors, safe_line
from ap_ranker.search.sources import source_of

logger = logging.getLogger(__name__)

COLUMNS = ("question", "answer")
"""The columns of an entry that the page shows."""


def add_pipeline(
    app: FastAPI, search: DeclaredPipeline, *, text: TypeAdapter[str], columns: Collection[str], failed: str
) -> str:
    """Add the pipeline's route to the application; returns its path.

    This is the only route of Hayhooks' own application that is used: others let any client deploy pipelines. `text`
    validates each text of a request, `columns` of the documents' meta are returned in addition to `COLUMNS`, and the
    client reads `failed` if a search fails. If Hayhooks refuses the pipeline, InputError is raised.
    """
    name = search.path.stem
    try:
        wrapper = YAMLPipelineWrapper.from_yaml(search.path.read_text(encoding="utf-8"))
    except Exception as error:  # Hayhooks raises any type
        expected = "expected inputs and outputs that Hayhooks can serve"
        raise InputError(f"{search.path}: {expected} ({safe_line(error)}).") from error
    wrapper.pipeline = search.pipeline
    wrapper.run_api_async = _limited(wrapper.run_api_async, search, text, {*COLUMNS, *columns}, failed)
    registry.remove(name)
    registry.add(name, wrapper)
    add_pipeline_api_route(app, name, wrapper)
    return f"/{name}/run"


def _limited(
    run: Callable[..., Awaitable[Any]],
    search: DeclaredPipeline,
    text: TypeAdapter[str],
    columns: Collection[str],
    failed: str,
) -> Callable[..., Awaitable[Any]]:
    """Wrap `run`: validate its input texts, and return only the fields that are public."""

    @wraps(run)
    async def limited(**inputs: Any) -> Any:
        checked = {name: _checked(name, value, text) for name, value in inputs.items()}
        try:
            with report_store_errors(search.path, search.place):
                return _public(await run(**checked), columns)
        except InputError as error:  # the server's fault, not the client's
            logger.error("%s", error)
            raise HTTPException(503, failed) from error

    limited.__signature__ = inspect.signature(run)  # type: ignore[attr-defined]  # Hayhooks reads it
    return limited


def _checked(name: str, value: Any, text: TypeAdapter[str]) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return text.validate_python(value)
    except ValidationError as error:
        raise HTTPException(422, f"{name}: {error.errors()[0]['msg']}.") from error


def _public(value: Any, columns: Collection[str]) -> Any:
    """Reduce each document in a value to its public fields: no vectors, no blobs, no other columns of the FAQ."""
    if isinstance(value, Document):
        meta = {name: value.meta[name] for name in value.meta if name in columns}
        public = {"id": value.id, "content": value.content, "score": value.score, "meta": meta}
        source = source_of(value)
        return public if source is None else public | {"source": asdict(source)}
    if isinstance(value, Mapping):
        return {key: _public(part, columns) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):  # a generated answer also has documents
        return {field.name: _public(getattr(value, field.name), columns) for field in fields(value)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_public(part, columns) for part in value]
    return value
