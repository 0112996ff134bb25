"""Encoded texts of a checkpoint that outlive the process, in the user's cache folder: a second run encodes nothing.

A folder per checkpoint, kind of texts and way to compute them, in the format of `ap-ranker encode`: hashes of texts and
numbers, in a folder of its owner alone. Whatever is wrong with it (damaged, full, read-only, removed meanwhile), texts
are encoded as without it, and one line in the log says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import torch

from ap_ranker.errors import InputError, one_line
from ap_ranker.files import cache_folder, write_text_atomically
from ap_ranker.ranking.checkpoint import CONFIG, TOKENIZER, WEIGHTS
from ap_ranker.ranking.encodings import (
    Encodings,
    Manifest,
    begin_encodings,
    check_shard,
    fingerprint,
    list_shards,
    text_key,
    write_shard,
)
from ap_ranker.ranking.quantization import QuantizedStates
from ap_ranker.text.reading import READING_VERSION

logger = logging.getLogger(__name__)

NAME, FINGERPRINTS = "encodings", "fingerprints"
"""Of the folders in the user's cache."""

MOST_BYTES = 500 * 10**6
"""Maximum size of all kept encodings: of 120,000 answers by `ap-transformer`. The shards that were not used for longest
are removed."""

SHARD_BYTES = 16 * 10**6
"""What a run keeps in memory before it writes: a killed one loses as much."""

MOST_SHARDS = 32
"""Of a folder: then the texts of this run are written together, and the others are removed."""

PRIVATE = 0o700


def known_fingerprint(checkpoint: Path) -> str:
    """As `fingerprint`, without reading the weights again of a checkpoint whose files are those of an earlier run."""
    status = [(checkpoint / name).stat() for name in (CONFIG, WEIGHTS, TOKENIZER)]
    version = [[each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns] for each in status]
    path = cache_folder(FINGERPRINTS) / text_key(json.dumps(version)).hex()
    with contextlib.suppress(OSError, ValueError):
        if re.fullmatch(r"[0-9a-f]{64}", found := path.read_text(encoding="utf-8")):
            return found
    found = fingerprint(checkpoint)
    with contextlib.suppress(InputError):
        write_text_atomically(path, found)
    return found


class KeptEncodings:
    """The kept encodings of one kind of texts, such as answers on cpu. Threads may share it."""

    def __init__(self, manifest: Manifest, kind: str) -> None:
        programs = [metadata.version("ap-ranker"), READING_VERSION, torch.__version__, torch.cpu.get_capabilities()]
        states = [manifest.fingerprint, manifest.dtype, manifest.format_version, kind]
        key = json.dumps([*states, *programs], default=str)
        self._root = cache_folder(NAME)
        self._folder = self._root / hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        self._manifest = manifest
        self._new: list[tuple[list[bytes], QuantizedStates]] = []
        self._keys: set[bytes] = set()  # of those texts
        self._asked: dict[str, None] = {}
        self._lock = threading.RLock()
        self._usable = True
        self._encodings = self._open()
        self.states = self._encodings.states

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """As `Encodings.lengths`."""
        with self._lock:
            self._asked.update(dict.fromkeys(texts))
        return self._encodings.lengths(texts)

    def add(self, texts: Sequence[str], states: QuantizedStates) -> None:
        """Keep the states of these texts, once `flush` is called or there are many."""
        keys = [text_key(text) for text in texts]
        with self._lock:
            new = [row for row, key in enumerate(keys) if key not in self._keys]
            if not self._usable or not new or not states.is_finite():
                return
            self._keys.update(keys)
            kept = states[new].converted(self._manifest.dtype, torch.device("cpu"))
            self._new.append(([keys[row] for row in new], kept))
            if sum(batch.nbytes for _, batch in self._new) < SHARD_BYTES:
                return
        self.flush()

    def flush(self) -> None:
        """Write what was added."""
        with self._lock:
            new, self._new = self._new, []
            if not new or not self._usable:
                return
            try:
                self._write(new)
            except Exception as error:  # a full disk, a folder that somebody removes meanwhile, ...
                self._usable = False
                reason = one_line(error, 200)
                logger.warning("%s: encoded texts are not kept for the next run (%s).", self._folder, reason)

    def _open(self) -> Encodings:
        try:
            now = time.time_ns()
            shards = sorted(list_shards(self._folder), key=lambda shard: shard.stat().st_mtime_ns)
            for number, shard in enumerate(shards):  # which keep their order
                check_shard(shard)
                with contextlib.suppress(OSError):  # a read-only folder can be read as well
                    os.utime(shard, ns=(now, now + number))
            if self._folder.is_dir():
                return Encodings.open(self._folder, self._manifest.fingerprint)
        except Exception as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            logger.warning("%s: damaged (%s); the texts are encoded again.", self._folder, one_line(error, 200))
        return Encodings(self._folder, self._manifest, [])

    def _write(self, new: list[tuple[list[bytes], QuantizedStates]]) -> None:
        shards = list_shards(self._folder)
        if len(shards) < MOST_SHARDS:
            shards = []
        else:
            encodings, texts = self._open(), [*self._asked]
            known = [text for text, length in zip(texts, encodings.lengths(texts), strict=True) if length]
            if known:
                new = [([text_key(text) for text in known], encodings.states(known)), *new]
        states = QuantizedStates.joined([batch for _, batch in new])
        self._make_room(states.nbytes)
        self._root.mkdir(PRIVATE, parents=True, exist_ok=True)
        self._root.chmod(PRIVATE)
        begin_encodings(self._folder, self._manifest)
        write_shard(self._folder, [key for keys, _ in new for key in keys], states)
        for shard in shards:
            shutil.rmtree(shard, ignore_errors=True)

    def _make_room(self, size: int) -> None:
        """Remove the shards that were not used for longest, so that there is room for a new one."""
        if size > MOST_BYTES:
            raise OSError(f"{size:,} bytes at once")
        found = []
        for shard in (shard for folder in self._root.glob("*") for shard in list_shards(folder)):
            with contextlib.suppress(OSError):  # another process removes it
                found.append((shard.stat().st_mtime_ns, sum(file.stat().st_size for file in shard.iterdir()), shard))
        total = size + sum(bytes_ for _, bytes_, _ in found)
        for _, bytes_, shard in sorted(found):
            if total <= MOST_BYTES:
                break
            total -= bytes_
            shutil.rmtree(shard, ignore_errors=True)
            if not list_shards(shard.parent):
                shutil.rmtree(shard.parent, ignore_errors=True)
