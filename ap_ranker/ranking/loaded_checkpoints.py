"""Loaded checkpoints, shared by the components of a process: they hold one model and encode a question once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch

from ap_ranker.files import file_version
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import CONFIG, TOKENIZER, WEIGHTS, CheckpointConfig, load_checkpoint
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.stored_encodings import KeptEncodings, Manifest, fingerprint, known_fingerprint
from ap_ranker.ranking.wordings import WordingVectors
from ap_ranker.text.tokenizer import AnyTokenizer

LAST_QUESTIONS = 64
"""Number of questions whose states are kept: those that a server works on at one time."""

TOGETHER = 16
"""Maximum number of questions encoded at once: with more, each would take longer."""

CACHE_BYTES = 256 * 10**6
"""Maximum size of a cache of answers for which nobody names one."""


class QuestionStates:
    """The states of the last questions, so that a retriever's question is not encoded again by the ranker.

    One thread encodes at a time. Questions that arrive meanwhile are then encoded together, which takes a transformer
    little more than half of the time that it takes for one after the other; none of them waits for a fixed time.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, States] = OrderedDict()
        self._waiting: dict[str, None] = {}
        self._lock, self._encoding = threading.Lock(), threading.Lock()

    def get(self, question: str, encode: Callable[[list[str]], States]) -> States:
        """The states of a question, which `encode` computes unless it is one of the last."""
        with self._lock:
            if question in self._known:
                self._known.move_to_end(question)
                return self._known[question]
            self._waiting[question] = None
        with self._encoding:
            while question not in self._known:  # a thread that had the lock before may have encoded it
                self._encode_waiting([question], encode)
            return self._known[question]

    def encode_ahead(self, questions: Iterable[str], encode: Callable[[list[str]], States]) -> None:
        """Encode questions together that `get` is about to be asked for, `TOGETHER` of them at most."""
        with self._encoding:
            self._encode_waiting(questions, encode)

    def _encode_waiting(self, questions: Iterable[str], encode: Callable[[list[str]], States]) -> None:
        with self._lock:
            self._waiting |= dict.fromkeys(question for question in questions if question not in self._known)
            together = list(islice(self._waiting, TOGETHER))
            for question in together:
                del self._waiting[question]
        if together:
            states = encode(together)
            encoded = zip(together, states.split() if len(together) > 1 else [states], strict=True)
            with self._lock:
                self._known |= encoded
                while len(self._known) > LAST_QUESTIONS:
                    self._known.popitem(last=False)


_keeping = False


def keep_encodings(wanted: bool) -> None:
    """Whether this process reads encoded answers and wordings that an earlier one kept, and keeps its own."""
    global _keeping  # noqa: PLW0603  of the process, as the folder is of the user
    _keeping = wanted


@dataclass(frozen=True, eq=False)
class LoadedCheckpoint:
    """A checkpoint in memory, its model, which nobody may train, on its device; and what is cached of texts."""

    config: CheckpointConfig
    model: AnswerModel
    tokenizer: AnyTokenizer
    folder: Path
    questions: QuestionStates = field(default_factory=QuestionStates)
    wordings: WordingVectors = field(default_factory=WordingVectors)
    _caches: WeakValueDictionary[tuple[int, StateDtype], EncodingCache] = field(default_factory=WeakValueDictionary)
    _kept: dict[tuple[str, StateDtype], KeptEncodings] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has the model and begins without what is cached of texts."""
        return LoadedCheckpoint, (self.config, self.model, self.tokenizer, self.folder)

    def cache(self, dtype: StateDtype, max_bytes: int | None = None) -> EncodingCache:
        """The cache of answers of this dtype and size, which all share who want it; `None`: any that is in use."""
        with _lock:
            if max_bytes is None and (in_use := list(self._caches.values())):
                return in_use[-1]
            key = CACHE_BYTES if max_bytes is None else max_bytes, dtype
            return self._caches.get(key) or self._caches.setdefault(key, EncodingCache(*key))

    def kept(self, kind: str, dtype: StateDtype) -> KeptEncodings | None:
        """The encodings of these texts that outlive this process; `None` unless it keeps them (`keep_encodings`)."""
        if not _keeping:
            return None
        with _lock:
            if (kind, dtype) not in self._kept:
                self._kept[kind, dtype] = KeptEncodings(Manifest(self.config.model, self.fingerprint, dtype), kind)
            return self._kept[kind, dtype]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what its encodings depend on; computed on first use, as it reads the weights again."""
        return known_fingerprint(self.folder) if _keeping else fingerprint(self.folder)


_loaded: WeakValueDictionary[tuple[object, ...], LoadedCheckpoint] = WeakValueDictionary()
_lock = threading.RLock()


def flush_encodings() -> None:
    """Write the new encodings of all loaded checkpoints that are to outlive this process."""
    for loaded in list(_loaded.values()):
        for kept in list(loaded._kept.values()):
            kept.flush()


def load_shared(folder: Path, device: torch.device) -> LoadedCheckpoint:
    """The checkpoint of a folder on a device; read again only if nobody holds it, or its files have changed."""
    with _lock:
        versions = (file_version(folder / name) for name in (CONFIG, WEIGHTS, TOKENIZER))
        key = (folder.resolve(), str(device), *versions)
        if (loaded := _loaded.get(key)) is None:
            config, model, tokenizer = load_checkpoint(folder)
            loaded = _loaded[key] = LoadedCheckpoint(config, model.to(device), tokenizer, folder.resolve())
        return loaded
