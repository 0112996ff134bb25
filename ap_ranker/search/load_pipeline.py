"""Loads YAML pipelines and finds their document stores; reports the errors of stores and their servers."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from haystack import Pipeline
from haystack.core.component import Component
from haystack.core.errors import DeserializationError, PipelineRuntimeError
from haystack.document_stores.errors import DocumentStoreError
from haystack.errors import FilterError

from ap_ranker.errors import InputError, one_line
from ap_ranker.safe_open import parse_yaml, read_yaml_text
from ap_ranker.search.elasticsearch.elasticsearch_errors import advice
from haystack_integrations.components.retrievers.ap_ranker import AnswerSearch

logger = logging.getLogger(__name__)

HIDDEN = "***"

STORES = "haystack_integrations.document_stores."
"""How the names of the modules of document stores begin, those of other packages and ours."""

FEW_LETTERS = 3
"""A question of so many characters at most says nothing of anybody."""


def _without_user(address: re.Match[str]) -> str:
    _, at, host = address[0].rpartition("@")
    if at:
        return f"{address[1]}{HIDDEN}@{host}"
    return address[0]


_SECRET = r"(?=[\w.-]*?(?:passw|secret|token|auth|credential|api[_-]?key|signature))"
_NAME = rf"(?<![\w.-]){_SECRET}[\w.-]++"
# What is not closed ends with the text.
_CLOSED = r"""\[[^\]]*(?:\]|\Z)|\([^)]*(?:\)|\Z)|\{[^}]*(?:\}|\Z)|'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)"""
_VALUE = rf"""(?:{_CLOSED}|[^\s,;&'")\]}}]+)"""
_PATTERNS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    # https://user:password@host; a password may contain an @. A text without one is not looked through again.
    (re.compile(r"(\w://)[^\s'\"<>]*+"), _without_user),
    # Authorization: Basic dXNlcjpwYXNz
    (re.compile(r"\b(Basic|Bearer|ApiKey)\s+[\w+/=.~-]{6,}", re.IGNORECASE), rf"\g<1> {HIDDEN}"),
    # ?api_key=..., 'basic_auth': ['user', 'password'], password: ...
    (re.compile(rf"""({_NAME}["']?\s*[=:]\s*){_VALUE}""", re.IGNORECASE), rf"\g<1>{HIDDEN}"),
]


def load_pipeline(path: Path) -> tuple[Pipeline, dict[str, Any]]:
    """Load a pipeline, and its file as a dictionary: Haystack ignores `inputs` and `outputs`, which Hayhooks reads."""
    text = read_yaml_text(path)
    for client in ("elastic_transport", "opensearch"):
        logging.getLogger(client).setLevel(logging.ERROR)  # it would log each attempt
    try:
        declared = parse_yaml(text, path.name)
        if not isinstance(declared, dict):
            raise InputError(f"expected components and connections, found {type(declared).__name__}")
        _refuse_code(declared)
        return Pipeline.loads(text), declared
    except Exception as error:  # Haystack and the components' constructors raise any type
        if ".elasticsearch." in text and importlib.util.find_spec("elasticsearch") is None:
            raise InputError(f'{path}: Elasticsearch needs an extra: pip install "ap-ranker[elasticsearch]"') from error
        named = re.match(r"Couldn't deserialize (component '.*?') of class", str(error))
        cause: BaseException = error
        while isinstance(cause, DeserializationError) and cause.__cause__:  # before it, Haystack lists all settings
            cause = cause.__cause__
        place = f", {named[1]}" if named else ""
        reason, _, how_to_allow = safe_line(cause).partition(". If you trust the source")
        advice = " Name components of Haystack or of ap_ranker." if how_to_allow else ""
        raise InputError(f"{path}{place}: expected a Haystack pipeline ({reason}).{advice}") from error


def _refuse_code(declared: Mapping[str, Any]) -> None:
    """Raise InputError for what Haystack may run as code: its first versions have no objection."""
    waiting: list[tuple[str, Any]] = [("", declared)]
    while waiting:
        place, part = waiting.pop()
        if isinstance(part, Mapping):
            for name in ("unsafe", "custom_filters"):
                if part.get(name):
                    where = f"{place}.{name}".removeprefix(".")
                    raise InputError(f"found {safe_line(where)}, which runs code. Such code is never run: leave it out")
            for name, value in part.items():
                waiting.append((f"{place}.{name}", value))
        elif isinstance(part, list):
            for value in part:
                waiting.append((place, value))


def components_of(part: Any) -> Iterator[Any]:
    """A pipeline's components, and those that they use; a super component, and an `AnswerSearch`, is left out."""
    if isinstance(part, Pipeline):
        inside: Iterable[Any] = map(part.get_component, part.graph.nodes)
    elif isinstance(part, Component):
        inside = [member for name, member in vars(part).items() if name[:1] != "_"]
        if not isinstance(part, AnswerSearch) and not isinstance(getattr(part, "pipeline", None), Pipeline):
            yield part
    else:
        inside = part.values() if isinstance(part, Mapping) else ()  # as the retrievers of a `MultiRetriever`
    for member in inside:
        yield from components_of(member)


def find_stores(pipeline: Pipeline) -> list[Any]:
    """The document stores of a pipeline's components."""
    stores = []
    for part in components_of(pipeline):
        private_store = getattr(part, "_document_store", None)  # of a retriever of another package
        store = getattr(part, "document_store", private_store)
        if store is not None:
            stores.append(store)
    return stores


def describe_store(store: Any) -> str:
    """Where a store keeps its documents, for messages."""
    settings = store.to_dict()["init_parameters"]
    if "hosts" in settings:
        return without_credentials(f"index {settings.get('index')!r} of {settings['hosts']}")
    path = settings.get("path")
    documents = settings.get("documents")
    where = ""
    if path:
        where = f" at {path!r}"
    elif documents:
        where = f" of {documents!r}"
    return f"{type(store).__name__}{where}"


@contextmanager
def report_store_errors(path: Path, store: str, asked: str = "") -> Iterator[None]:
    """Convert errors of a pipeline's document store, named by `describe_store`, and of its parts to `InputError`.

    Its message, which a server logs, does not quote what was `asked`, whatever a store or a component says.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        cause: BaseException = error
        if isinstance(error, PipelineRuntimeError):
            cause = error.__cause__ or error
        if isinstance(cause, InputError):
            raise cause from error
        explanation = _explanation(cause, asked)
        if explanation is None and isinstance(error, PipelineRuntimeError):
            logger.debug("%s: a component failed", path, exc_info=error)
            reason = f"{type(cause).__name__}: {safe_line(cause, asked)}"
            explanation = f"expected all components to run, but {error.component_name!r} failed ({reason})."
        elif explanation is None and isinstance(error, ValueError | FilterError):
            explanation = f"expected valid settings, found: {safe_line(error, asked)}"
        elif explanation is None and _is_of_other_store(error):
            explanation = (
                f"expected the store to do what it was asked to, found {type(error).__name__}: "
                f"{safe_line(error, asked)}. Is its server running, and are its settings in the pipeline right?"
            )
        if explanation is None:
            raise
        raise InputError(f"{path}: {store}: {explanation}") from error


def _explanation(error: BaseException, asked: str) -> str | None:
    if isinstance(error, DocumentStoreError):
        return f"expected the store to accept all documents, but it refused some. {safe_line(error, asked)}"
    suggestion = advice(error, has_password=_has_password(error))
    if suggestion is None:
        return None
    return f"the Elasticsearch request failed: {safe_line(error, asked)}. {suggestion}".rstrip()


def _is_of_other_store(error: BaseException) -> bool:
    """Whether an error comes out of a document store of another package, whose client has errors of its own."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.startswith(STORES) and not module.startswith(f"{STORES}ap_ranker."):
            return True
    return False


def _has_password(error: BaseException) -> bool:
    """Whether Elasticsearch was asked with a password: its refusal then names a user."""
    return "unable to authenticate user" in str(error)


def safe_line(error: BaseException | str, asked: str = "") -> str:
    """An error's message on one line of limited length, without credentials and without what was `asked`."""
    text = _without_question(" ".join(str(error).split()), asked)
    return one_line(without_credentials(text) or type(error).__name__, 600)


def _without_question(text: str, question: str) -> str:
    """A message in which a question, as libraries write it, is replaced by `***`; one of few letters may be a word."""
    line = " ".join(question.split())
    if len(line) <= FEW_LETTERS:
        return text
    forms = {line, repr(line)[1:-1], json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1]}
    for form in sorted(forms, key=len, reverse=True):  # a shorter one may be part of a longer one
        text = text.replace(form, "***")
    return text


def without_credentials(text: str) -> str:
    """Replace whatever looks like a password or a key by `***`; rather too much than too little."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
