"""Loaded checkpoints, shared by the components of a process: they hold one model and encode a question once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch

from ap_ranker.errors import InputError
from ap_ranker.files import file_version
from ap_ranker.models.base import AnswerModel
from ap_ranker.ranking.cache import EncodingCache, QuestionStates
from ap_ranker.ranking.checkpoint import CONFIG, TOKENIZER, WEIGHTS, CheckpointConfig, load_checkpoint
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.stored_encodings import KeptEncodings, Manifest, fingerprint, known_fingerprint
from ap_ranker.ranking.wordings import WordingVectors
from ap_ranker.text.tokenizer import AnyTokenizer

CACHE_BYTES = 256 * 10**6
"""Maximum size of a cache of answers for which nobody names one."""


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
    version: Sequence[object]  # of its files, as `checkpoint_version` says
    questions: QuestionStates = field(default_factory=QuestionStates)
    wordings: WordingVectors = field(default_factory=WordingVectors)
    backgrounds: dict[object, float] = field(default_factory=dict)  # of entries, as `Ranker.background` keeps them
    _caches: WeakValueDictionary[tuple[int, StateDtype], EncodingCache] = field(default_factory=WeakValueDictionary)
    _kept: dict[tuple[str, StateDtype], KeptEncodings] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has the model and begins without what is cached of texts."""
        return LoadedCheckpoint, (self.config, self.model, self.tokenizer, self.folder, self.version)

    def cache(self, dtype: StateDtype, max_bytes: int | None = None) -> EncodingCache:
        """The cache of answers of this dtype and size, which all share who want it; `None`: any that is in use."""
        with _lock:
            if max_bytes is None:
                in_use = list(self._caches.values())
                if in_use:
                    return in_use[-1]
            key = CACHE_BYTES if max_bytes is None else max_bytes, dtype
            return self._caches.get(key) or self._caches.setdefault(key, EncodingCache(*key))

    def kept(self, kind: str, dtype: StateDtype) -> KeptEncodings | None:
        """The encodings of these texts that outlive this process; `None` unless it keeps them (`keep_encodings`)."""
        if not _keeping:
            return None
        with _lock:
            if (kind, dtype) not in self._kept:
                try:
                    manifest = Manifest(self.config.model, self.fingerprint, dtype)
                except (InputError, OSError):  # another one is in its place: nothing tells the next run what this was
                    return None
                self._kept[kind, dtype] = KeptEncodings(manifest, kind)
            return self._kept[kind, dtype]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what its encodings depend on; computed on first use, as it reads the weights again.

        InputError if another checkpoint has taken its place by then.
        """
        present = known_fingerprint(self.folder) if _keeping else fingerprint(self.folder)
        if checkpoint_version(self.folder)[1:] != self.version[1:]:  # but its calibration may have changed
            raise InputError(f"{self.folder}: expected the checkpoint that was loaded, found another. Load it again.")
        return present


_loaded: WeakValueDictionary[tuple[object, ...], LoadedCheckpoint] = WeakValueDictionary()
_lock = threading.RLock()


def flush_encodings() -> None:
    """Write the new encodings of all loaded checkpoints that are to outlive this process."""
    for loaded in list(_loaded.values()):
        for kept in list(loaded._kept.values()):
            kept.flush()


def load_shared(
    folder: Path, device: torch.device, written: tuple[CheckpointConfig, AnswerModel, AnyTokenizer] | None = None
) -> LoadedCheckpoint:
    """The checkpoint of a folder on a device; read unless its files are held as they are, or were just `written`."""
    with _lock:
        while True:
            version = checkpoint_version(folder)
            key = (folder.resolve(), str(device), *version)
            loaded = _loaded.get(key)
            if loaded is not None:
                return loaded
            # If another one takes its place meanwhile, these may be parts of both, which may not fit.
            try:
                config, model, tokenizer = written or load_checkpoint(folder)
            except InputError:
                if checkpoint_version(folder) == version:
                    raise
                continue
            if checkpoint_version(folder) == version:
                loaded = _loaded[key] = LoadedCheckpoint(
                    config, model.to(device), tokenizer=tokenizer, folder=folder.resolve(), version=version
                )
                return loaded


def checkpoint_version(folder: Path) -> tuple[tuple[int, ...], ...]:
    """What differs between two checkpoints that are in a folder one after the other."""
    return tuple(file_version(folder / name) for name in (CONFIG, WEIGHTS, TOKENIZER))
