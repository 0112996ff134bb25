# SPDX-License-Identifier: Apache-2.0
"""What components have in common: how they check parameters, load a checkpoint and are copied."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Self

from haystack import Document, default_from_dict, default_to_dict, logging
from haystack.utils import ComponentDevice, Secret

from ap_ranker.data.wordings import Wordings
from ap_ranker.errors import InputError, check_known, one_line, told_at
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.ranker import LazyRanker, Ranker
from ap_ranker.ranking.text_encoder import check_number
from ap_ranker.ranking.wordings import KnownWordings
from ap_ranker.settings import checked_arguments
from ap_ranker.threads import in_thread

logger = logging.getLogger(__name__)

CACHE = {"megabytes": 256, "dtype": None, "folder": None, "encodings": None}
"""How a ranker keeps encoded documents, by default."""

FIELDS = ("meta_fields_to_embed", "embedding_separator")
READING = ("query_prefix", "query_suffix", "document_prefix", "document_suffix", *FIELDS, "batch_size", "wordings")
"""Names of parameters that say how a model reads questions and documents, and their known wordings."""

TOLD = ("model", "document_store", "retriever", "ranker", "search")
"""Names of those that are told to Haystack's telemetry, if the user has it on."""

THRESHOLDS = ("score_threshold", "precision")
LIMITS = ("top_k", "scale_score", *THRESHOLDS)
"""Names of those that say which documents a ranker returns, and with which scores."""


class WarnOnce:
    """Logs each message once, whatever its values."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, message: str, **values: Any) -> None:
        """Log the message with these values, which it names in braces, unless it was logged before."""
        if message not in self._told:
            self._told.add(message)
            logger.warning(f"{message} This warning is not repeated.", **values)


class CopiedByParameters:
    """
    A component that keeps each parameter of its constructor as an attribute of the same name.

    What it is constructed with is checked against the annotations; an InputError names what is of another type.

    A copy, also a pickled one, is made anew of the same parameters: it loads and reads for itself, on first use. It is
    connected to others only in a copy of its pipeline.
    """

    parameters: ClassVar[tuple[str, ...]]
    """The names of the constructor's parameters; a base class has those that its subclasses share."""

    def __init_subclass__(cls) -> None:
        construct = vars(cls).get("__init__")
        is_ours = cls.__module__.startswith("haystack_integrations.")
        if construct and is_ours and not hasattr(construct, "__wrapped__"):  # @component makes each class twice
            cls.__init__ = checked_arguments(construct)  # type: ignore[method-assign]

    def to_dict(self) -> dict[str, Any]:
        """The component as a dictionary of basic types."""
        return default_to_dict(self, **self._values())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create the component from a dictionary, as made by `to_dict` or read from YAML."""
        with told_at(cls.__name__):
            return default_from_dict(cls, data)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._values()), ()

    def _get_telemetry_data(self) -> dict[str, Any]:
        """Data that is sent to Posthog for usage analytics: models without their folders, types of other parts."""
        data: dict[str, Any] = {}
        for name in TOLD:
            part = getattr(self, name) if name in self.parameters else None
            if part is not None:
                data[name] = Path(part).name if name == "model" else type(part).__name__
        return data

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = memo[id(self)] = type(self)(**deepcopy(self._values(), memo))
        if id(vars(self).get("__haystack_added_to_pipeline__")) in memo:  # the pipeline itself is being copied
            connections = {name: value for name, value in vars(self).items() if name[:2] == "__"}
            vars(twin).update(deepcopy(connections, memo))
        return twin

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in self.parameters:
            value = getattr(self, name)
            values[name] = value.value if isinstance(value, Enum) else value
        return values


class Composed(CopiedByParameters):
    """A component that uses others, a store or a checkpoint, which it warms up and closes."""

    uses: ClassVar[tuple[str, ...]]
    """The names of the attributes that are these, in the order in which they are warmed up."""

    run_async: Callable[..., Coroutine[Any, Any, dict[str, Any]]]
    """`run` in a thread, with its parameters and results: a component of ours waits for no client."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        run = vars(cls).get("run")
        if run:
            cls.run_async = in_thread(run)

    def warm_up(self) -> None:
        """Load what it needs unless this is done already."""
        self._tell("warm_up")

    warm_up_async = in_thread(warm_up)

    def close(self) -> None:
        """Free models and close files and connections; a later `run` loads and opens them again."""
        self._tell("close")

    close_async = in_thread(close)

    def _tell(self, method: str) -> None:
        for name in self.uses:
            part = getattr(self, name)
            if hasattr(part, method):
                getattr(part, method)()


class KnowsWordings:
    """A component with a parameter `wordings`: files of known wordings."""

    _known: KnownWordings

    @property
    def wordings(self) -> list[str] | None:
        """The paths of the files; what `None` means instead of none, the component says."""
        return self._known.paths

    @wordings.setter
    def wordings(self, paths: list[str] | None) -> None:
        self._known.paths = paths

    @property
    def file_wordings(self) -> Wordings:
        """The wordings of the files as they are now."""
        return self._known.of_files()

    def add_wordings(self, path: str | Path) -> None:
        """Use the wordings of one more file, and follow its changes; InputError if it cannot be read."""
        self._known.add(path)


def file_list(paths: str | Path | Sequence[str | Path] | None) -> list[str]:
    """The paths of no file, one or several, as a component's parameter names them."""
    if isinstance(paths, str | Path):
        return [str(paths)]
    return [str(path) for path in paths or []]


def read_cache(cache: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a cache, complete; InputError if one is unknown or out of range."""
    for name in cache or ():
        check_known("settings of the cache", name, CACHE)
    settings = {**CACHE, **(cache or {})}
    check_number("megabytes of the cache", settings["megabytes"], 0)
    if settings["dtype"] is not None:
        check_known("dtype of the cache", settings["dtype"], StateDtype)
    for name in ("folder", "encodings"):
        if settings[name] is not None:
            settings[name] = str(settings[name])
    return settings


SENTENCE_TRANSFORMERS = (
    dict.fromkeys(("model_kwargs", "tokenizer_kwargs", "config_kwargs", "encode_kwargs", "truncate_dim", "revision"))
    | {"backend": "torch", "precision": "float32", "batch_size": 32, "progress_bar": True, "normalize_embeddings": True}
    | {"trust_remote_code": False, "local_files_only": False, "quantization_ranges": None}
)
"""Parameters of Haystack's components for Sentence Transformers, and their defaults. `from_dict` ignores those that a
component of ours lacks if they are so, or empty; our vectors always have length 1."""


class CheckpointComponent(Composed):
    """Loads a checkpoint on first use, once, whichever thread comes first."""

    parameters: ClassVar[tuple[str, ...]] = ("model", "device", "token")
    uses: ClassVar[tuple[str, ...]] = ("loaded",)

    def _name_checkpoint(self, model: str | Path, device: ComponentDevice | None, token: Secret | None) -> None:
        self.model = str(model)
        self.device = ComponentDevice.resolve_device(device)
        if self.device.has_multiple_devices:
            raise InputError(f"Expected one device, found several: {one_line(self.device.to_dict(), 80)}.")
        self.token = token
        self.loaded = LazyRanker(self._load)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """
        Create the component from a dictionary, as made by `to_dict` or read from YAML.

        A dictionary of Haystack's component for Sentence Transformers works once it names this class and a checkpoint.
        """
        parameters = cls._of_this_release(data.get("init_parameters", {}))
        for name in SENTENCE_TRANSFORMERS.keys() & parameters.keys() - set(cls.parameters):
            if not parameters[name] or parameters[name] == SENTENCE_TRANSFORMERS[name]:
                del parameters[name]
        return super().from_dict({**data, "init_parameters": parameters})

    @classmethod
    def _of_this_release(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """
        A new dictionary of the parameters, by the names of this release; an earlier one may have written them.

        It is a hook because `@component` makes each class anew: there, `super` fails in a class method.
        """
        return dict(parameters)

    def _load(self) -> Ranker:
        """The checkpoint, of which the component takes the vectors of whole texts."""
        ranker = self._read_checkpoint()
        ranker.embed_questions([])  # raises InputError if it has none
        _ = ranker.fingerprint  # now: later, the folder might contain another checkpoint
        return ranker

    def _read_checkpoint(self, **options: Any) -> Ranker:
        token = self.token.resolve_value() if self.token else None
        return Ranker.from_pretrained(self.model, self.device.to_torch_str(), token, **options)


@dataclass(frozen=True)
class DocumentTexts:
    """The text of a document as a model reads it: the values of meta fields are put before the content."""

    prefix: str = ""
    suffix: str = ""
    meta_fields: Sequence[str] = ()
    separator: str = "\n"

    def texts(self, documents: Sequence[Document]) -> list[str]:
        """The texts of documents; missing content counts as empty."""
        prefix = self.prefix
        suffix = self.suffix
        if self.meta_fields:
            contents = [self._joined(document) for document in documents]
        else:
            contents = [document.content or "" for document in documents]
        return [prefix + content + suffix for content in contents]

    def _joined(self, document: Document) -> str:
        texts: list[str] = []
        for name in self.meta_fields:
            value = document.meta.get(name)
            if value is not None:
                texts.append(str(value))
        return self.separator.join([*texts, document.content or ""])

    def origin(self, ranker: Ranker) -> str:
        """What an embedding comes from: the checkpoint's fingerprint and, if there are any, a hash of the settings."""
        if not (self.prefix or self.suffix or self.meta_fields):
            return ranker.fingerprint
        settings = json.dumps([self.prefix, self.suffix, *self.meta_fields, self.separator])
        return f"{ranker.fingerprint}-{blake2b(settings.encode(), digest_size=4).hexdigest()}"


class ReadsTexts(KnowsWordings):
    """A component that reads queries and documents as its parameters `READING` say."""

    def _set_reading(
        self,
        *,
        query_prefix: str,
        query_suffix: str,
        document_prefix: str,
        document_suffix: str,
        meta_fields_to_embed: list[str] | None,
        embedding_separator: str,
        batch_size: int,
        wordings: list[str] | None,
    ) -> None:
        check_number("batch_size", batch_size, 1)
        self.query_prefix = query_prefix
        self.query_suffix = query_suffix
        self.document_prefix = document_prefix
        self.document_suffix = document_suffix
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator
        self.batch_size = batch_size
        self.texts = DocumentTexts(document_prefix, document_suffix, self.meta_fields_to_embed, embedding_separator)
        self._known = KnownWordings(wordings, query_prefix, query_suffix)
