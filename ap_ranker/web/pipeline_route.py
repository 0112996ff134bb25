"""The REST route of a pipeline, `POST /<name of the file>/run`, as Hayhooks has it, with the limits of the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from haystack import Document
from pydantic import BaseModel, create_model
from starlette.responses import JSONResponse

from ap_ranker.errors import InputError, did_you_mean
from ap_ranker.safe_open import parse_yaml, read_yaml_text
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.default_pipelines import BY_MEANING, BY_WORDS
from ap_ranker.search.load_pipeline import report_store_errors, safe_line
from ap_ranker.search.sources import source_of
from ap_ranker.web.limits import Failure, failing_as
from ap_ranker.web.work import WorkThreads

COLUMNS = ("question", "answer")
"""The columns of an entry that the page shows."""

Sockets = Mapping[str, Sequence[tuple[str, str]]]  # name of a declared input -> the components and sockets that take it

THREADS = 16
"""Number of pipelines that run at once: apart from the page's searches, since one may wait for a language model."""


def add_pipeline(app: FastAPI, search: DeclaredPipeline, *, text: Any, columns: Iterable[str], failed: str) -> set[str]:
    """Add the pipeline's route to the application.

    A request has the inputs that the pipeline's file declares; the response has the pipeline's `result`.

    :param text: The type of the inputs that are a text, with its limits.
    :param columns: Columns of the documents' meta that the result has in addition to `COLUMNS`.
    :param failed: What the client reads if a search fails.
    :returns: The path of the route; of a default pipeline, two paths.
    :raises InputError: The pipeline does not have a declared input, or JSON cannot hold one.
    """
    declared = parse_yaml(read_yaml_text(search.path), search.path)
    targets = (declared.get("outputs") or {}).values()
    output_components = {str(target).partition(".")[0] for target in targets}
    inputs, model = _inputs(search, declared["inputs"], text=text)
    public_columns = {*COLUMNS, *columns}
    threads = WorkThreads(THREADS, "pipeline")

    def answer_to(request: BaseModel) -> JSONResponse:
        data: dict[str, dict[str, Any]] = defaultdict(dict)
        for name in request.model_fields_set:
            for component, socket in inputs[name]:
                data[component][socket] = getattr(request, name)
        values = request.model_dump(exclude_unset=True).values()
        texts = [value for value in values if isinstance(value, str)]
        question = max(texts, key=len, default="")  # others, such as the name of a language, are shorter
        with failing_as(failed, Failure.search), report_store_errors(search.path, search.place, question):
            result = search.pipeline.run(dict(data), include_outputs_from=output_components)
        return JSONResponse(jsonable_encoder({"result": _public(result, public_columns)}))

    async def run(request: BaseModel) -> JSONResponse:
        return await threads.run(answer_to, request)

    run.__annotations__["request"] = model  # FastAPI reads it
    files = [search.path]
    if search.path == BY_MEANING:
        files.append(BY_WORDS)  # the same addresses, whatever the checkpoint can do
    paths = {f"/{file.stem}/run" for file in files}
    for path in paths:
        app.post(path)(run)
    return paths


def _inputs(search: DeclaredPipeline, declared: Mapping[str, Any], text: Any) -> tuple[Sockets, type[BaseModel]]:
    """Where each declared input goes, and the model of a request."""
    descriptions: dict[str, dict[str, Any]] = {}
    for component, sockets in search.pipeline.inputs(include_components_with_connected_inputs=True).items():
        for socket, description in sockets.items():
            descriptions[f"{component}.{socket}"] = description
    inputs = {}
    kinds: dict[str, tuple[Any, bool]] = {}  # name -> the type, and whether the input is mandatory
    for name, targets in declared.items():
        paths = targets if isinstance(targets, list) else [targets]
        unknown = [str(path) for path in paths if str(path) not in descriptions]
        if unknown or not paths:
            suggestion = did_you_mean(unknown[0], descriptions) if unknown else ""
            raise InputError(
                f"{search.path}: expected the input {safe_line(repr(name))} to be one of the pipeline, as "
                f"component.socket, or a list of such, found {safe_line(str(targets))}.{suggestion}"
            )
        inputs[name] = [_component_and_socket(path) for path in paths]
        kind = descriptions[paths[0]]["type"]  # one value goes to all sockets, so that they take the same type
        if kind in (str, str | None):
            kind = text
        kinds[name] = (kind, any(descriptions[path]["is_mandatory"] for path in paths))
    types = {}
    try:
        for name, (kind, is_mandatory) in kinds.items():
            types[name] = (kind, ...) if is_mandatory else (kind | None, None)
        return inputs, create_model("PipelineRequest", **types)  # type: ignore[call-overload]
    except Exception as error:  # pydantic raises any type, and some types take no `None`
        expected = "expected inputs with names and types that JSON can hold"
        raise InputError(f"{search.path}: {expected} ({safe_line(repr(error))}).") from error


def _component_and_socket(path: str) -> tuple[str, str]:
    component, _, socket = path.partition(".")
    return component, socket


def _public(value: Any, columns: Collection[str]) -> Any:
    """Reduce each document in a value to its public fields: no vectors, no blobs, no other columns of the FAQ."""
    if isinstance(value, Document):
        meta = {name: content for name, content in value.meta.items() if name in columns}
        public = {"id": value.id, "content": value.content, "score": value.score, "meta": meta}
        source = source_of(value)
        if source is not None:
            public["source"] = asdict(source)
        return public
    if isinstance(value, Mapping):
        return {key: _public(part, columns) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):  # a generated answer also has documents
        return {field.name: _public(getattr(value, field.name), columns) for field in fields(value)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_public(part, columns) for part in value]
    return value
