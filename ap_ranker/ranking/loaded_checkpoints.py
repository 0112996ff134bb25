"""Loaded checkpoints, shared by the components of a process: they hold one model and encode a question once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch

from ap_ranker.errors import InputError
from ap_ranker.models.base import AnswerModel
from ap_ranker.ranking.captured_encoder import CapturedEncoder
from ap_ranker.ranking.checkpoint import CheckpointConfig, find_trained, load_checkpoint
from ap_ranker.ranking.fingerprint import checkpoint_version
from ap_ranker.ranking.quantization import state_dtype
from ap_ranker.ranking.state_store import LoadedFiles, StateStore
from ap_ranker.text.tokenizer import AnyTokenizer


class LoadedCheckpoint:
    """A checkpoint in memory: its model, which nobody may train, on its device; and what is stored of texts."""

    def __init__(
        self, config: CheckpointConfig, model: AnswerModel, tokenizer: AnyTokenizer, device: str, files: LoadedFiles
    ) -> None:
        self.config = config
        self.model = model
        self.tokenizer = tokenizer
        self.device = device
        self.files = files
        # A CPU starts no operations on another device.
        self.captured = CapturedEncoder(model, tokenizer.max_tokens) if torch.device(device).type == "cuda" else None
        self.states = StateStore(files, config.model, state_dtype(model, None), device)
        self.backgrounds: dict[object, float] = {}  # of entries, as `Ranker.background` keeps them

    def seen_in_training(self, questions: Sequence[str]) -> list[bool] | None:
        """Whether it has learnt from each question; `None` if that is unknown."""
        seen = find_trained(self.files.folder, questions)
        if seen is None and self.config.training.get("epochs") == 0:  # as `init` writes it
            return [False] * len(questions)
        return seen

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has the model and begins without what is stored of texts."""
        return LoadedCheckpoint, (self.config, self.model, self.tokenizer, self.device, self.files)


_loaded: WeakValueDictionary[tuple[object, ...], LoadedCheckpoint] = WeakValueDictionary()
_lock = threading.RLock()


def flush_encodings() -> None:
    """Write the new encodings of all loaded checkpoints that are to outlive this process."""
    for loaded in list(_loaded.values()):
        loaded.states.flush()


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
                files = LoadedFiles(folder.resolve(), version)
                loaded = LoadedCheckpoint(config, model.to(device), tokenizer, device=device.type, files=files)
                _loaded[key] = loaded
                return loaded
