"""What the components that load a checkpoint have in common."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from haystack import Document, default_from_dict, default_to_dict, tracing
from haystack.utils import ComponentDevice, Secret

from ap_ranker.ranking.ranker import Ranker
from ap_ranker.threads import in_thread


class BasicTypes:
    """Writes a component as basic types, such as YAML has, and makes it from them.

    A copy, also a pickled one, is made anew of the same parameters: it loads and reads for itself, on first use.
    """

    _is_from_dict = False

    def to_dict(self) -> dict[str, Any]:
        """The component as basic types."""
        return default_to_dict(self, **init_parameters(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create the component from a dictionary, as made by `to_dict` or read from YAML."""
        made = default_from_dict(cls, data)
        made._is_from_dict = True
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), init_parameters(self)), {"_is_from_dict": self._is_from_dict}


def _made(kind: type[BasicTypes], parameters: dict[str, Any]) -> BasicTypes:
    return kind(**parameters)


class CheckpointComponent(BasicTypes):
    """Loads a checkpoint on first use, once, whichever thread comes first."""

    def _name_checkpoint(self, model: str | Path, device: ComponentDevice | None, token: Secret | None) -> None:
        self.model = str(model)
        self.device = ComponentDevice.resolve_device(device)
        self.token = token
        self._ranker: Ranker | None = None
        self._loading = threading.RLock()

    def warm_up(self) -> None:
        """Load the checkpoint unless it is loaded already; other threads wait for it.

        :raises InputError: There is no checkpoint at `model`, it is damaged, or the component cannot use it.
        """
        self._loaded()

    warm_up_async = in_thread(warm_up)

    def _loaded(self) -> Ranker:
        with self._loading:
            if self._ranker is None:
                self._ranker = self._load()
            return self._ranker

    def _load(self) -> Ranker:
        """The checkpoint, of which the component takes the vectors of whole texts."""
        ranker = self._read_checkpoint()
        ranker.embed_questions([])  # raises InputError if it has none
        _ = ranker.fingerprint  # now: later, the folder might contain another checkpoint
        return ranker

    def _read_checkpoint(self, **options: Any) -> Ranker:
        token = self.token.resolve_value() if self.token else None
        return Ranker.from_pretrained(self.model, self.device.to_torch_str(), token, **options)

    def close(self) -> None:
        """Free the model; a later `run` loads it again."""
        self._ranker = None


@dataclass(frozen=True)
class DocumentTexts:
    """The text of a document as a model reads it: the values of meta fields are put before the content."""

    prefix: str = ""
    suffix: str = ""
    meta_fields: Sequence[str] = ()
    separator: str = "\n"

    def texts(self, documents: Sequence[Document]) -> list[str]:
        """The texts of documents; missing content counts as empty."""
        return [self.prefix + self._text(document) + self.suffix for document in documents]

    def _text(self, document: Document) -> str:
        values = (document.meta.get(name) for name in self.meta_fields)
        return self.separator.join([*(str(value) for value in values if value is not None), document.content or ""])

    def origin(self, ranker: Ranker) -> str:
        """What an embedding comes from: the checkpoint's fingerprint and, if there are any, a hash of the settings."""
        if not (self.prefix or self.suffix or self.meta_fields):
            return ranker.fingerprint
        settings = json.dumps([self.prefix, self.suffix, *self.meta_fields, self.separator])
        return f"{ranker.fingerprint}-{blake2b(settings.encode(), digest_size=4).hexdigest()}"


def trace_run(model: str, ranker: Ranker, question: str, texts: Sequence[str]) -> None:
    """Tell the trace of a run, if there is one, what is ranked."""
    if (span := tracing.tracer.current_span()) is None:
        return
    tags = {"model": model, "architecture": ranker.name, "candidates": len(texts)}
    if ranker.cache is not None:
        tags["cache_hits"] = ranker.cache.count(texts)
    span.set_tags({f"ap_ranker.{name}": value for name, value in tags.items()})
    span.set_content_tag("ap_ranker.question", question)


def init_parameters(instance: object) -> dict[str, Any]:
    """The constructor's arguments of a component that keeps each of them as an attribute of the same name."""
    _, *names = inspect.signature(type(instance).__init__).parameters
    values = {name: getattr(instance, name) for name in names}
    return {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}


def file_list(paths: str | Path | Sequence[str | Path] | None) -> list[str]:
    """The paths of no file, one or several, as a component's parameter names them."""
    return [str(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths or [])]


def check_number(name: str, value: int, minimum: int) -> None:
    """Raise ValueError unless it is a whole number, and not too small."""
    if not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} must be a whole number >= {minimum}, but got {value!r}")
