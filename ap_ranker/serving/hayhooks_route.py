"""Hayhooks' REST route of a pipeline, `POST /<name of the file>/run`, within the limits of the page's own routes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any

from fastapi import FastAPI, HTTPException
from hayhooks import YAMLPipelineWrapper
from hayhooks.server.pipelines.registry import registry
from hayhooks.server.utils.deploy_utils import add_pipeline_api_route
from haystack import Document
from pydantic import TypeAdapter, ValidationError

from ap_ranker.errors import InputError
from ap_ranker.serving.search import DeclaredPipeline
from ap_ranker.serving.stores import one_clear_message, safe_line

logger = logging.getLogger(__name__)

COLUMNS = ("question", "answer")
"""Of an entry; what the page shows of it."""


def add_pipeline(
    app: FastAPI, search: DeclaredPipeline, *, text: TypeAdapter[str], columns: Collection[str], failed: str
) -> str:
    """Serve the pipeline that the page asks; returns the route's path.

    Of Hayhooks' own application only this route is taken: the rest lets any client deploy pipelines, and any site ask.

    Args:
        app: gets the route.
        search: the pipeline.
        text: what each text that is put in has to be.
        columns: of the documents' meta that are told beside `COLUMNS`.
        failed: what a client is told if a search fails.

    Raises:
        InputError: Hayhooks refuses the pipeline.
    """
    name = search.path.stem
    try:
        wrapper = YAMLPipelineWrapper.from_yaml(search.path.read_text(encoding="utf-8"))
    except Exception as error:  # whatever it finds wrong with the declarations
        raise InputError(
            f"{search.path}: expected inputs and outputs that Hayhooks can serve ({safe_line(error)})."
        ) from error
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
    """The same function, with checked texts in and no more than is to be told out."""

    @wraps(run)
    async def limited(**inputs: Any) -> Any:
        checked = {name: _checked(name, value, text) for name, value in inputs.items()}
        try:
            with one_clear_message(search.path, search.place):
                return _shown(await run(**checked), columns)
        except InputError as error:  # the server's fault, not the client's
            logger.error("%s", error)
            raise HTTPException(503, failed) from error

    limited.__signature__ = inspect.signature(run)  # type: ignore[attr-defined]  # Hayhooks reads the inputs from it
    return limited


def _checked(name: str, value: Any, text: TypeAdapter[str]) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return text.validate_python(value)
    except ValidationError as error:
        raise HTTPException(422, f"{name}: {error.errors()[0]['msg']}.") from error


def _shown(value: Any, columns: Collection[str]) -> Any:
    """The value with what may be told of each document in it: no vectors, no blobs, no other columns of the FAQ."""
    if isinstance(value, Document):
        meta = {name: value.meta[name] for name in value.meta if name in columns}
        return {"id": value.id, "content": value.content, "score": value.score, "meta": meta}
    if isinstance(value, Mapping):
        return {key: _shown(part, columns) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):  # a generated answer has documents, too
        return {field.name: _shown(getattr(value, field.name), columns) for field in fields(value)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_shown(part, columns) for part in value]
    return value
