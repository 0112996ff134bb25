"""Loaded checkpoints, shared by the components of a process: they hold one model and encode a question once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from weakref import WeakValueDictionary

import torch

from ap_ranker.files import file_version
from ap_ranker.models.base import AnswerModel, States
from ap_ranker.ranking.checkpoint import CONFIG, TOKENIZER, WEIGHTS, CheckpointConfig, load_checkpoint
from ap_ranker.ranking.encodings import fingerprint
from ap_ranker.text.subwords import AnyTokenizer

LAST_QUESTIONS = 64
"""Number of questions whose states are kept: those that a server works on at one time."""


class QuestionStates:
    """The states of the last questions, so that a retriever's question is not encoded again by the ranker."""

    def __init__(self) -> None:
        self._states: OrderedDict[str, States] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, question: str, encode: Callable[[], States]) -> States:
        """The states of a question; computed by `encode` unless it is one of the last."""
        with self._lock:
            states = self._states.get(question)
        if states is None:
            states = encode()
        with self._lock:
            self._states[question] = states
            self._states.move_to_end(question)
            if len(self._states) > LAST_QUESTIONS:
                self._states.popitem(last=False)
        return states


@dataclass(frozen=True, eq=False)
class LoadedCheckpoint:
    """A checkpoint in memory.

    Attributes:
        config: its `config.json`.
        model: on its device, in evaluation mode; nobody may train it.
        tokenizer: the model's.
        folder: its folder.
        questions: the states of the last questions.
    """

    config: CheckpointConfig
    model: AnswerModel
    tokenizer: AnyTokenizer
    folder: Path
    questions: QuestionStates = field(default_factory=QuestionStates)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what its encodings depend on; computed on first use, as it reads the weights again."""
        return fingerprint(self.folder)


_loaded: WeakValueDictionary[tuple[object, ...], LoadedCheckpoint] = WeakValueDictionary()
_lock = threading.Lock()


def load_shared(folder: Path, device: torch.device) -> LoadedCheckpoint:
    """The checkpoint of a folder on a device; read again only if nobody holds it any more, or its files have changed.

    Raises:
        InputError: as `load_checkpoint`.
    """
    with _lock:
        versions = (file_version(folder / name) for name in (CONFIG, WEIGHTS, TOKENIZER))
        key = (folder.resolve(), str(device), *versions)
        loaded = _loaded.get(key)
        if loaded is None:
            config, model, tokenizer = load_checkpoint(folder)
            loaded = LoadedCheckpoint(config, model.to(device), tokenizer, folder.resolve())
            _loaded[key] = loaded
        return loaded
