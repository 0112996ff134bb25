"""The store of a checkpoint's encoded texts: each is encoded once, for all who need it, in this process and the next.

| texts | in memory | on disk, in the user's cache or a folder that is named, if this process keeps encodings |
|---|---|---|
| answers | states, up to a size, as rankers read them | states, as rankers read them; vectors |
| answers of a store whose documents carry states (`state_bytes`) | the same | nothing more |
| known wordings | vectors in 8 bits | vectors |
| the last questions of users | states | never |

Who ranks says which dtype it reads states in. Who encodes answers for another reason, such as their vectors, puts the
exact states into the store; if no ranker has said so yet, they wait there for the first one. A ranker of another dtype
that comes later encodes them again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.ranking.cache import CACHE_BYTES, EncodingCache, QuestionStates
from ap_ranker.ranking.fingerprint import Version, checkpoint_version, fingerprint, known_fingerprint
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.state_bytes import BITS
from ap_ranker.ranking.stored_encodings import KeptEncodings, Manifest
from ap_ranker.ranking.wordings import WordingVectors

EXACT_BYTES = 64 * 10**6
"""Maximum size of the answers that wait in float32 for a ranker to say in which dtype it reads them: 4,000 of
`ap-transformer`. More are stored in the dtype that most rankers read."""

_keeping = False


def keep_encodings(wanted: bool) -> None:
    """Whether this process reads encoded answers and wordings that an earlier one kept, and keeps its own."""
    global _keeping  # noqa: PLW0603  of the process, as the folder is of the user
    _keeping = wanted


@dataclass(frozen=True)
class LoadedFiles:
    """The folder that a checkpoint was loaded from, and the version of its files at that time."""

    folder: Path
    version: Version

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what the checkpoint's encodings depend on; computed on first use, as it reads the weights again.

        InputError if another checkpoint has taken its place by then.
        """
        present = known_fingerprint(self.folder) if _keeping else fingerprint(self.folder)
        if checkpoint_version(self.folder)[1:] != self.version[1:]:  # but its calibration may have changed
            raise InputError(f"{self.folder}: expected the checkpoint that was loaded, found another. Load it again.")
        return present


class StateStore:
    """The encoded texts of a checkpoint on a device. Threads share it; a copy begins empty.

    `usual_dtype` is the one in which rankers read states unless their users say otherwise.
    """

    def __init__(self, files: LoadedFiles, model: str, usual_dtype: StateDtype, device: str) -> None:
        self.questions = QuestionStates()
        self.wordings = WordingVectors()
        self._files = files
        self._model = model
        self._usual_dtype = usual_dtype
        self._device = device
        self._folder: Path | None = None
        self._answers: dict[StateDtype, EncodingCache] = {}
        self._exact: list[tuple[Sequence[str], QuantizedStates]] = []  # until a ranker says what it reads
        self._kept: dict[tuple[Path | None, str, StateDtype], KeptEncodings] = {}
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[object, ...]:
        return StateStore, (self._files, self._model, self._usual_dtype, self._device)

    def keep_in(self, folder: Path) -> None:
        """Read and keep encodings in this folder from now on, whatever `keep_encodings` says of the user's cache."""
        self._folder = folder

    def answers(self, dtype: StateDtype, max_bytes: int = CACHE_BYTES) -> EncodingCache:
        """The states of answers in memory, in a dtype: one cache for all who read it, of the largest size wanted."""
        with self._lock:
            cache = self._answers.get(dtype)
            if cache is None:
                cache = self._answers[dtype] = EncodingCache(max_bytes, dtype)
            cache.max_bytes = max(cache.max_bytes, max_bytes)
            waiting = self._exact
            self._exact = []
            for texts, states in waiting:
                self._add(cache, dtype, texts, states)
            return cache

    def put(self, texts: Sequence[str], states: QuantizedStates) -> None:
        """Add the exact states of answers, in float32, for all rankers that read them now, else for the first."""
        with self._lock:
            for dtype, cache in self._answers.items():
                self._add(cache, dtype, texts, states)
            if self._answers:
                return
            self._exact.append((texts, states))
            if sum(batch.nbytes for _, batch in self._exact) > EXACT_BYTES:
                self.answers(self._usual_dtype)

    def lacking(self, texts: Sequence[str]) -> list[int]:
        """The indices of texts whose states a ranker that reads this store lacks in memory; none if nobody reads it."""
        lacking: set[int] = set()
        for cache in self._caches():
            lacking.update(cache.lacking(texts))
        return sorted(lacking)

    @property
    def is_read(self) -> bool:
        """Whether a ranker reads states from this store."""
        return bool(self._caches())

    def take(self, texts: Sequence[str], states: QuantizedStates, dtype: StateDtype) -> bool:
        """Add states that came with documents, in `dtype` and on the rankers' device; whether all rankers can use them.

        States in fewer bits than a ranker reads are not those that it would make, so that it encodes these texts.
        """
        are_for_all = True
        device = next(iter(states.tensors().values())).device
        for cache in self._caches():
            read = cache.dtype or self._usual_dtype
            if BITS[dtype] >= BITS[read]:
                cache.put_fetched(texts, states.converted(read, device))
            else:
                are_for_all = False
        return are_for_all

    def _caches(self) -> list[EncodingCache]:
        """Those that keep anything."""
        with self._lock:
            return [cache for cache in self._answers.values() if cache.max_bytes]

    def _add(self, cache: EncodingCache, dtype: StateDtype, texts: Sequence[str], states: QuantizedStates) -> None:
        device = next(iter(states.tensors().values())).device
        rounded = states.converted(dtype, device)
        cache.put(texts, rounded)
        kept = self.kept_answers(dtype)
        if kept is not None:
            kept.add(texts, rounded)

    def kept_answers(self, dtype: StateDtype) -> KeptEncodings | None:
        """The states of answers that outlive this process; `None` unless it keeps them."""
        return self._outliving("answers", dtype)

    def vectors(self, kind: str, texts: Sequence[str], embed: Callable[[Sequence[str]], Tensor]) -> Tensor:
        """(B, C) exact vectors of B texts of a kind; `embed` makes those of texts that no earlier process has kept."""
        kept_encodings = self._outliving(f"vectors of {kind}", StateDtype.float32)
        if kept_encodings is None:
            return embed(texts)
        new: list[int] = []
        old: list[int] = []
        for row, length in enumerate(kept_encodings.lengths(texts)):
            if length > 0:
                old.append(row)
            else:
                new.append(row)
        kept_states = None
        if old:
            kept_states = kept_encodings.states([texts[row] for row in old])
        if kept_states is None:
            new = list(range(len(texts)))
            old = []
        vectors = embed([texts[row] for row in new])
        if new:
            states = QuantizedStates(np.ones(len(new), int), {}, {"vector": vectors.contiguous()})
            kept_encodings.add([texts[row] for row in new], states)
        if kept_states is not None:
            vectors = torch.cat([vectors, kept_states.per_text["vector"]])
        places = torch.tensor([*new, *old], dtype=torch.long).argsort()
        return vectors[places]

    def flush(self) -> None:
        """Write what is to outlive this process and is not yet on disk."""
        with self._lock:
            kept_answers = None
            if self._exact:
                kept_answers = self.kept_answers(self._usual_dtype)
            if kept_answers is not None:
                for texts, states in self._exact:
                    kept_answers.add(texts, states)
            outliving = list(self._kept.values())
        for kept in outliving:
            kept.flush()

    def _outliving(self, kind: str, dtype: StateDtype) -> KeptEncodings | None:
        folder = self._folder
        if folder is None and not _keeping:
            return None
        key = folder, f"{kind} on {self._device}", dtype
        with self._lock:
            if key not in self._kept:
                try:
                    manifest = Manifest(self._model, self._files.fingerprint, dtype)
                except (InputError, OSError):  # another one is in its place: nothing tells the next run what this was
                    return None
                self._kept[key] = KeptEncodings(manifest, key[1], folder)
            return self._kept[key]
