"""A YAML pipeline and its document store: loading them, and one clear message where a store or its server fails."""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ap_ranker.errors import InputError, one_line

if TYPE_CHECKING:
    from haystack import Pipeline
    from yaml import Node

logger = logging.getLogger(__name__)

MAX_BYTES = 128 * 1024
"""Of a pipeline's file; ours have 2,000, and reading this many takes a second or two."""

MAX_PARTS = 20_000
"""Keys, values and lists of a pipeline's file."""

HIDDEN = "***"

_NAMES = r"[\w.-]*(?:passw|secret|token|auth|credential|api[_-]?key|signature)[\w.-]*"
_VALUE = r"""(?:\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|'[^']*'|"[^"]*"|[^\s,;&'")\]}]+)"""
_PATTERNS = [
    # https://user:password@host; a password may hold an @ of its own.
    (re.compile(r"(\w://)[^\s'\"<>]*@"), rf"\g<1>{HIDDEN}@"),
    # Authorization: Basic dXNlcjpwYXNz
    (re.compile(r"\b(Basic|Bearer|ApiKey)\s+[\w+/=.~-]{6,}", re.IGNORECASE), rf"\g<1> {HIDDEN}"),
    # ?api_key=..., 'basic_auth': ['user', 'password'], password: ...
    (re.compile(rf"""(\b{_NAMES}["']?\s*[=:]\s*){_VALUE}""", re.IGNORECASE), rf"\g<1>{HIDDEN}"),
]


PACKAGED = Path(str(files("ap_ranker"))) / "pipelines"
"""Where a wheel has the project's pipelines."""


def find_pipeline(path: Path) -> Path:
    """The file itself, or, where there is none, the wheel's copy of `pipelines/NAME`."""
    packaged = PACKAGED / path.name
    return packaged if path.parent == Path("pipelines") and not path.exists() and packaged.is_file() else path


def load_pipeline(path: Path) -> tuple[Pipeline, dict[str, Any]]:
    """A pipeline, and its file as a dictionary, for the `inputs` and `outputs` that Haystack leaves to Hayhooks.

    Raises:
        InputError: no such file, not a pipeline, one that Haystack refuses, or an extra is not installed.
    """
    from haystack import Pipeline

    text = _read(path)
    try:
        declared = _parse(text)
        return Pipeline.loads(text), declared
    except Exception as error:  # whatever Haystack or a component's constructor finds wrong with the file
        if ".elasticsearch." in text and importlib.util.find_spec("elasticsearch") is None:
            raise InputError(f'{path}: Elasticsearch needs an extra: pip install "ap-ranker[elasticsearch]"') from error
        raise InputError(f"{path}: expected a Haystack pipeline ({safe_line(error)}).") from error


def _read(path: Path) -> str:
    try:
        if not path.exists():
            raise InputError(
                f"No pipeline at {str(path)!r}. Run this in the project's folder, which has pipelines/faq_search.yaml, "
                "or name a copy of it with --pipeline."
            )
        if not path.is_file():  # a device or a pipe may have no end
            kind = "a folder" if path.is_dir() else "a device or a pipe"
            raise InputError(f"{path}: expected a file with a Haystack pipeline, found {kind}.")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InputError(
                f"{path}: expected a Haystack pipeline of at most {MAX_BYTES:,} bytes, found a longer file."
            )
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected a Haystack pipeline as UTF-8 text, found other bytes ({error}).") from error
    except OSError as error:
        raise InputError(f"{path}: expected a file that can be read ({error.strerror}).") from error


def _parse(text: str) -> dict[str, Any]:
    """The file as a dictionary, once it is sure that aliases do not make a small file a huge one."""
    import yaml

    if (root := yaml.compose(text, yaml.SafeLoader)) is not None and _parts(root, {}) > MAX_PARTS:
        raise ValueError(f"expected at most {MAX_PARTS:,} settings, each alias counted as what it stands for")
    declared = yaml.safe_load(text)
    if not isinstance(declared, dict):
        raise ValueError(f"expected components and connections, found {type(declared).__name__}")
    return declared


def _parts(node: Node, known: dict[int, float]) -> float:
    """How many nodes a YAML node is, those below it counted as often as it has them; infinitely many if in itself."""
    if id(node) not in known:
        known[id(node)] = float("inf")  # what it is to itself
        below = node.value if isinstance(node.value, list) else []
        pairs = (each if isinstance(each, tuple) else (each,) for each in below)
        known[id(node)] = 1 + sum(_parts(each, known) for pair in pairs for each in pair)
    return known[id(node)]


def components_of(pipeline: Pipeline) -> Iterator[Any]:
    """A pipeline's components; of a super component, such as `FAQSearch`, those inside."""
    from haystack import Pipeline

    for name in pipeline.graph.nodes:
        component = pipeline.get_component(name)
        inside = getattr(component, "pipeline", None)
        if isinstance(inside, Pipeline):
            yield from components_of(inside)
        else:
            yield component


def find_stores(pipeline: Pipeline) -> list[Any]:
    """The document stores of a pipeline's components."""
    # Retrievers of other packages keep theirs in `_document_store`.
    stores = (getattr(one, "document_store", getattr(one, "_document_store", None)) for one in components_of(pipeline))
    return [store for store in stores if store is not None]


def place_of(store: Any) -> str:
    """Where a store keeps its documents, for messages."""
    settings = store.to_dict()["init_parameters"]
    if "hosts" in settings:
        return without_credentials(f"index {settings.get('index')!r} of {settings['hosts']}")
    path = settings.get("path")
    return f"{type(store).__name__}" + (f" at {path!r}" if path else "")


@contextmanager
def one_clear_message(path: Path, place: str) -> Iterator[None]:
    """Turn what a document store raises into an `InputError`: what was expected, what was found, where, what to do.

    Args:
        path: the pipeline's file.
        place: of the store.
    """
    from haystack.core.errors import PipelineRuntimeError

    logging.getLogger("elastic_transport").setLevel(logging.ERROR)  # it would tell of each attempt before the message
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error, PipelineRuntimeError) else error
        if isinstance(cause, InputError):
            raise cause from error
        explanation = _explanation(cause)
        if explanation is None and isinstance(error, PipelineRuntimeError):
            logger.debug("%s: a component failed", path, exc_info=error)
            reason = f"{type(cause).__name__}: {safe_line(cause)}" if cause else safe_line(error)
            explanation = f"expected components that run, found that {error.component_name!r} fails ({reason})."
        if explanation is None and isinstance(error, ValueError):
            explanation = f"expected settings that can be used, found: {safe_line(error)}"
        if explanation is None:
            raise
        raise InputError(f"{path}: {place}: {explanation}") from error


def _explanation(error: BaseException | None) -> str | None:
    """What was expected, found and to be done; `None` if the error is not a store's."""
    from haystack.document_stores.errors import DocumentStoreError

    if isinstance(error, DocumentStoreError):
        return f"expected documents that it can hold, found that it refuses some. {safe_line(error)}"
    client = sys.modules.get("elasticsearch")  # if it is not loaded, the error is not its
    explanations = {} if client is None else _elasticsearch(client)
    for kind, explanation in explanations.items():
        if isinstance(error, kind):
            return explanation.format(safe_line(error))
    return None


def _elasticsearch(client: ModuleType) -> dict[type[Exception], str]:
    """The client's errors, a special one before the general one that it is a case of."""
    return {
        client.AuthenticationException: "expected to be let in, found that authentication failed (401). Set "
        "ELASTIC_API_KEY to a valid key, and ELASTIC_API_KEY_ID if the key has an id of its own.",
        client.AuthorizationException: "expected permission to read and write, found that it is refused (403). {}",
        client.ConnectionTimeout: "expected an answer in time, found none. Try again; if the server is slow, raise "
        "request_timeout in the pipeline.",
        client.ConnectionError: "expected a server, found none that can be reached ({}). Start it (docker compose up "
        "--detach --wait), or correct hosts in the pipeline.",
        client.ApiError: "expected Elasticsearch to do as asked, found {}",
        client.TransportError: "expected Elasticsearch to do as asked, found {}",
    }


def safe_line(error: BaseException | str) -> str:
    """What an error says, without credentials, on one line, and not as long as one about a hundred documents is."""
    return one_line(without_credentials(" ".join(str(error).split())) or type(error).__name__, 600)


def without_credentials(text: str) -> str:
    """The text with `***` for what looks like a password or a key; rather too much than too little."""
    for pattern, shown in _PATTERNS:
        text = pattern.sub(shown, text)
    return text
