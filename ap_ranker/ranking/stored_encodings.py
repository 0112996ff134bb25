"""The states of texts on disk, memory-mapped: a corpus may be larger than memory, and a restart is fast.

A folder contains `encodings.json` and shards. A shard contains some thousand texts without padding: `keys.npy` (n, 16),
the hash of each text; `offsets.npy` (n + 1,), the start of its tokens; and the tensors of `QuantizedStates`:
`token.NAME.npy`, (tokens of all texts, C), and `text.NAME.npy`, (n, C), those of integers with their scales beside.
Several processes may write to a folder at once: each shard has a unique name and is never replaced, and a text that two
of them wrote is read from one shard.

`Encodings` are what `ap-ranker encode` wrote for a whole corpus. `KeptEncodings` outlive a process in the user's cache
folder, so that a second run encodes nothing: a folder of its owner alone, with one of this format per checkpoint, kind
of texts and way to compute them. Whatever is wrong with it (damaged, full, read-only, removed meanwhile), texts are
encoded as without it, and one line in the log says so.
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
import uuid
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import reduce
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from ap_ranker.errors import InputError, one_line
from ap_ranker.files import (
    atomic_directory,
    cache_folder,
    hash_of_files,
    make_folder,
    write_first,
    write_text_atomically,
)
from ap_ranker.processes import process_number
from ap_ranker.ranking.checkpoint import CONFIG, TOKENIZER, WEIGHTS
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.settings import read_fields, settings
from ap_ranker.text.reading import READING_VERSION

logger = logging.getLogger(__name__)

MANIFEST, CHECKSUM = "encodings.json", "crc32"

KEY_BYTES = 16
_KEY = np.dtype(f"V{KEY_BYTES}")

RENEW = "Write new ones, into another folder: ap-ranker encode CHECKPOINT DOCUMENTS --output DIR"

MOST_BYTES = 500 * 10**6
"""Maximum size of all kept encodings: of 120,000 answers by `ap-transformer`. The shards that were not used for longest
are removed."""

SHARD_BYTES = 16 * 10**6
"""What a run keeps in memory before it writes: a killed one loses as much."""

MOST_SHARDS = 32
"""Of a folder: then the texts of this run are written together, and the others are removed."""


def text_key(text: str) -> bytes:
    """The hash by which the states of a text are stored."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


@settings
class Manifest:
    """The contents of `encodings.json`; states of a checkpoint with another fingerprint would be meaningless."""

    model: str
    fingerprint: str
    dtype: Annotated[StateDtype, Field(strict=False)]
    format_version: Literal[2] = 2


def fingerprint(checkpoint: Path) -> str:
    """A hash of a checkpoint's weights, vocabulary and sizes: 64 hexadecimal digits."""
    config = json.loads((checkpoint / CONFIG).read_text(encoding="utf-8"))
    for name in ("training", "calibration"):  # neither affects the encodings
        config.pop(name, None)
    return hash_of_files([checkpoint / WEIGHTS, checkpoint / TOKENIZER], json.dumps(config, sort_keys=True).encode())


def known_fingerprint(checkpoint: Path) -> str:
    """As `fingerprint`, without reading the weights again of a checkpoint whose files are those of an earlier run."""
    status = [(checkpoint / name).stat() for name in (CONFIG, WEIGHTS, TOKENIZER)]
    version = [[each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns] for each in status]
    path = cache_folder("fingerprints") / text_key(json.dumps(version)).hex()
    with contextlib.suppress(OSError, ValueError):
        if re.fullmatch(r"[0-9a-f]{64}", found := path.read_text(encoding="utf-8")):
            return found
    found = fingerprint(checkpoint)
    with contextlib.suppress(InputError):
        write_text_atomically(path, found)
    return found


class Encodings:
    """The encoded texts of a folder, of the manifest's checkpoint and dtype."""

    def __init__(self, folder: Path, manifest: Manifest, shards: Iterable[Path]) -> None:
        self.folder = folder
        self.manifest = manifest
        self._words: int | None = None
        self._shards = [_Shard(path) for path in shards]
        sizes = [len(shard.keys) for shard in self._shards]
        # Of duplicate texts, one.
        self._keys, first = np.unique(np.concatenate([np.zeros(0, _KEY), *(s.keys for s in self._shards)]), True)
        self._shard = np.repeat(np.arange(len(sizes)), sizes)[first]
        self._row = np.concatenate([np.zeros(0, int), *map(np.arange, sizes)])[first]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy maps the same files, rather than their content."""
        return Encodings.open, (self.folder.resolve(), self.manifest.fingerprint), {"_words": self._words}

    @classmethod
    def open(cls, folder: str | Path, checkpoint_fingerprint: str) -> Encodings:
        """Open what `ap-ranker encode` wrote; an InputError if it is damaged, or of another checkpoint."""
        folder = Path(folder)
        manifest = _read_manifest(folder, checkpoint_fingerprint)
        try:
            return cls(folder, manifest, list_shards(folder))
        except Exception as error:  # numpy raises different errors
            raise InputError(f"{folder}: a damaged shard ({one_line(error)}). {RENEW}") from error

    def check(self, example: QuantizedStates, words: int) -> None:
        """Raise InputError if a shard has other arrays than these states; for more `words`, when they are read."""
        self._words = words
        expected = _layout({name: value.cpu().numpy() for name, value in example.tensors().items()})
        for shard in self._shards:
            if (found := _layout(shard.arrays)) != expected:
                raise InputError(
                    f"{shard.path}: expected states of this model, {expected}, found {one_line(found)}: remove the "
                    "shard, and run ap-ranker encode again."
                )

    def __len__(self) -> int:
        return len(self._keys)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text; 0 if it is not in the folder."""
        return [0 if shard is None else shard.length(row) for shard, row in self._find(texts)]

    def states(self, texts: Sequence[str]) -> QuantizedStates:
        """The states of texts that are in the folder."""
        states = QuantizedStates.joined([shard.read(row) for shard, row in self._find(texts) if shard is not None])
        ids = states.per_token.get("ids")
        if ids is not None and self._words is not None and not ((ids >= 0) & (ids < self._words)).all():
            raise InputError(
                f"{self.folder}: a damaged shard: expected ids of {self._words:,} words, found {int(ids.min())} to "
                f"{int(ids.max())}. {RENEW}"
            )
        return states

    def _find(self, texts: Sequence[str]) -> list[tuple[_Shard | None, int]]:
        keys = np.frombuffer(b"".join(map(text_key, texts)), _KEY)
        positions = np.searchsorted(self._keys, keys)
        exists = positions < len(self)
        exists[exists] = self._keys[positions[exists]] == keys[exists]
        return [
            (self._shards[self._shard[position]], int(self._row[position])) if is_stored else (None, 0)
            for position, is_stored in zip(positions.tolist(), exists.tolist(), strict=True)
        ]


def _read_manifest(folder: Path, checkpoint_fingerprint: str) -> Manifest:
    path = folder / MANIFEST
    try:
        manifest = read_fields(Manifest, json.loads(path.read_text(encoding="utf-8")), path)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder}: expected a folder that `ap-ranker encode` wrote, found no {MANIFEST}.") from None
    except InputError as error:
        raise InputError(f"{error} {RENEW}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not the description of encodings ({one_line(error)}).") from error
    if manifest.fingerprint != checkpoint_fingerprint:
        raise InputError(
            f"{folder}: expected states of this checkpoint ({checkpoint_fingerprint[:12]}), found those of another "
            f"({one_line(manifest.model, 80)}, {one_line(manifest.fingerprint, 12)}). {RENEW}"
        )
    return manifest


def begin_encodings(folder: Path, manifest: Manifest) -> None:
    """Create a folder of encodings, or check an existing one; several processes may do so at once."""
    is_new = not folder.exists() or (folder.is_dir() and all(file.name.startswith(".") for file in folder.iterdir()))
    if not is_new and not (folder / MANIFEST).exists():  # in this order, because the manifest is written first
        found = f"other files without {MANIFEST}" if folder.is_dir() else "a file"
        raise InputError(f"{folder}: expected a new folder, or one of encodings; found {found}.")
    make_folder(folder)
    if not (folder / MANIFEST).exists():
        write_first(folder / MANIFEST, json.dumps(asdict(manifest), indent=2) + "\n")
    existing = _read_manifest(folder, manifest.fingerprint)
    if existing.dtype != manifest.dtype:
        raise InputError(
            f"{folder}: expected encodings in {manifest.dtype}, found {existing.dtype}: name another folder."
        )


def list_shards(folder: Path) -> list[Path]:
    """The shards of a folder; none if there is no folder."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in paths if path.is_dir() and not path.name.startswith("."))


def write_shard(folder: Path, keys: Sequence[bytes], states: QuantizedStates) -> None:
    """Write the states of the texts with these hashes as a new shard, atomically."""
    with atomic_directory(folder / f"{process_number():03}-{uuid.uuid4().hex}") as draft:
        np.save(draft / "keys.npy", np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_BYTES))
        np.save(draft / "offsets.npy", np.concatenate([[0], np.cumsum(states.lengths)]))
        for name, value in states.tensors().items():
            np.save(draft / f"{name}.npy", value.cpu().numpy())
        (draft / CHECKSUM).write_text(_checksum(draft), encoding="utf-8")


def _checksum(shard: Path) -> str:
    return f"{reduce(lambda total, file: zlib.crc32(file.read_bytes(), total), sorted(shard.glob('*.npy')), 0):08x}"


def _layout(arrays: dict[str, np.ndarray]) -> str:
    """The dtype of each array, and the shape of one state (of a token or of a text)."""
    return ", ".join(f"{name} {array.dtype}{list(array.shape[1:])}" for name, array in sorted(arrays.items()))


class _Shard:
    """The arrays of one shard, mapped into memory, if they are consistent; numpy raises all kinds of errors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Mapping checks that the file is as large as its header says; "c", as torch warns of what cannot be written.
        self.arrays = {file.stem: np.load(file, mmap_mode="c", allow_pickle=False) for file in path.glob("*.npy")}
        keys, offsets = self.arrays.pop("keys"), self.arrays.pop("offsets")
        found = keys.dtype, *keys.shape[1:], offsets.dtype, offsets.shape
        if found != (np.uint8, KEY_BYTES, np.int64, (len(keys) + 1,)):
            raise ValueError(f"{path.name}: keys and offsets of {len(keys)} texts are {found}")
        self.keys = np.ascontiguousarray(keys).view(_KEY)[:, 0]
        self._offsets = np.array(offsets)
        if self._offsets[0] != 0 or (np.diff(self._offsets) < 1).any():
            raise ValueError(f"{path.name}/offsets.npy: does not increase from 0")
        rows = {"token": self._offsets[-1], "text": len(self.keys)}
        for name, values in self.arrays.items():
            if values.shape[:1] != (rows[name.partition(".")[0]],):
                raise ValueError(f"{path.name}/{name}.npy: {list(values.shape)} instead of {rows}")

    def length(self, row: int) -> int:
        return int(self._offsets[row + 1] - self._offsets[row])

    def read(self, row: int) -> QuantizedStates:
        """The states of one text."""
        kinds: dict[str, dict[str, torch.Tensor]] = {"token": {}, "text": {}}
        rows = {"token": slice(*self._offsets[row : row + 2]), "text": slice(row, row + 1)}
        for name, values in self.arrays.items():
            kind, _, own = name.partition(".")
            kinds[kind][own] = torch.from_numpy(values[rows[kind]])
        return QuantizedStates(np.array([self.length(row)]), kinds["token"], kinds["text"])


class KeptEncodings:
    """The kept encodings of one kind of texts, such as answers on cpu. Threads may share it."""

    def __init__(self, manifest: Manifest, kind: str) -> None:
        programs = [metadata.version("ap-ranker"), READING_VERSION, torch.__version__, torch.cpu.get_capabilities()]
        states = [manifest.fingerprint, manifest.dtype, manifest.format_version, kind]
        key = json.dumps([*states, *programs], default=str)
        self._root = cache_folder("encodings")
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
                logger.warning("%s: texts are not kept for the next run (%s).", self._folder, one_line(error, 200))

    def _open(self) -> Encodings:
        try:
            now = time.time_ns()
            shards = sorted(list_shards(self._folder), key=lambda shard: shard.stat().st_mtime_ns)
            for number, shard in enumerate(shards):  # which keep their order
                if (shard / CHECKSUM).read_text(encoding="utf-8") != _checksum(shard):
                    raise ValueError(f"{shard.name}: another checksum than when it was written")
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
        self._root.mkdir(parents=True, exist_ok=True)
        self._root.chmod(0o700)
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
