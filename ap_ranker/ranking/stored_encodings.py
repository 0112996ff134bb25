"""The states of texts on disk, in a table of SQLite: a corpus may be larger than memory, and a restart is fast.

A row of the table `states` is a text: its hash, its number of tokens, and the numbers of its states, as `state_bytes`
writes them; `tensors` has the dtype of each tensor, and the shape of a state.
Several processes may read and write a file at once; of a text that two of them write, one row is kept.

`Encodings` are what `ap-ranker encode` wrote for a whole corpus. `KeptEncodings` outlive a process in the user's cache
folder, or in one that the user names, so that a second run encodes nothing: folders of their owner alone, one of this
format per checkpoint, kind of texts and way to compute them. If it is damaged, full, read-only or removed meanwhile,
texts are encoded as without it, and one line in the log says so.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field

from ap_ranker.errors import InputError, one_line
from ap_ranker.files import cache_folder, make_folder
from ap_ranker.ranking.fingerprint import stored_name, text_key
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.state_bytes import layout_of, rows_of, states_of
from ap_ranker.settings import read_fields, settings

logger = logging.getLogger(__name__)

DATABASE = "encodings.sqlite"

_TABLES = (
    "CREATE TABLE IF NOT EXISTS manifest (content TEXT)",
    "CREATE TABLE IF NOT EXISTS tensors (name TEXT PRIMARY KEY, dtype TEXT, shape TEXT)",
    "CREATE TABLE IF NOT EXISTS states (text BLOB PRIMARY KEY, length INTEGER, numbers BLOB)",
)

_PAGE = 16_384  # bytes of a page of the file: in the usual 4,096, an answer of 4 KB would take a quarter more
_AT_ONCE = 500  # rows that one statement asks for: older versions of SQLite take 999 values
_WAIT = 60  # seconds for another process that is writing

RENEW = "Write new ones, into another folder: ap-ranker encode CHECKPOINT DOCUMENTS --output DIR"

MOST_BYTES = 500 * 10**6
"""Maximum size of all kept encodings: of 80,000 answers by `ap-transformer`. The files that were not used for longest
are removed."""

UNWRITTEN_BYTES = 16 * 10**6
"""What a run keeps in memory before it writes: a killed one loses as much."""


@settings
class Manifest:
    """What encodings are of; states of a checkpoint with another fingerprint would be meaningless."""

    model: str
    fingerprint: str
    dtype: Annotated[StateDtype, Field(strict=False)]


class Encodings:
    """The encoded texts of a folder, of the manifest's checkpoint and dtype. Threads and processes may share it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def open(cls, folder: str | Path, checkpoint_fingerprint: str) -> Encodings:
        """Open what `ap-ranker encode` wrote; an InputError if it is damaged, or of another checkpoint."""
        folder = Path(folder).absolute()
        if not (folder / DATABASE).is_file():
            raise InputError(f"{folder}: expected a folder that `ap-ranker encode` wrote, found no {DATABASE}. {RENEW}")
        with _database(folder) as database:
            [content] = database.execute("SELECT content FROM manifest").fetchone()
            manifest = read_fields(Manifest, json.loads(content), "manifest")
        if manifest.fingerprint != checkpoint_fingerprint:
            raise InputError(
                f"{folder}: expected states of this checkpoint ({checkpoint_fingerprint[:12]}), found those of another "
                f"({one_line(manifest.model, 80)}, {one_line(manifest.fingerprint, 12)}). {RENEW}"
            )
        return cls(folder, manifest)

    @classmethod
    def begin(cls, folder: Path, manifest: Manifest) -> Encodings:
        """Create a folder of encodings, or open an existing one; several processes may do so at once."""
        files = []
        if folder.is_dir():
            files = [file.name for file in folder.iterdir() if file.name[0] != "."]
        if folder.is_file() or (files and DATABASE not in files):
            others = one_line(", ".join(files), 80) or "a file"
            raise InputError(f"{folder}: expected a new folder, or one with {DATABASE}, found {others}.")
        make_folder(folder)
        with _database(folder, to_write=True) as database:
            database.execute(f"PRAGMA page_size = {_PAGE}")
            database.execute("BEGIN IMMEDIATE")
            for table in _TABLES:
                database.execute(table)
            if not database.execute("SELECT * FROM manifest").fetchall():
                database.execute("INSERT INTO manifest VALUES (?)", [json.dumps(asdict(manifest))])
        encodings = cls.open(folder, manifest.fingerprint)
        dtype = encodings.manifest.dtype
        if dtype != manifest.dtype:
            raise InputError(f"{folder}: expected encodings in {manifest.dtype}, found {dtype}: name another folder.")
        return encodings

    def __len__(self) -> int:
        with _database(self.folder) as database:
            return int(database.execute("SELECT COUNT(*) FROM states").fetchone()[0])

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text; 0 if it is not in the folder."""
        with _database(self.folder) as database:
            lengths: list[int] = []
            for row in _rows(database, "length", texts):
                lengths.append(row[0] if row else 0)
            return lengths

    def states(self, texts: Sequence[str]) -> QuantizedStates:
        """The states of texts that are in the folder."""
        with _database(self.folder) as database:
            stored_rows = [row for row in _rows(database, "length, numbers", texts) if row]
            layout: dict[str, tuple[np.dtype, tuple[int, ...]]] = {}
            for name, dtype, shape in database.execute("SELECT name, dtype, shape FROM tensors ORDER BY name"):
                layout[name] = np.dtype(dtype), tuple(json.loads(shape))
            return states_of(layout, stored_rows)

    def add(self, keys: Sequence[bytes], states: QuantizedStates) -> None:
        """Write the states of the texts with these hashes, all or none."""
        rows = []
        for key, (length, numbers) in zip(keys, rows_of(states), strict=True):
            rows.append((key, length, numbers))
        layout: list[tuple[str, str, str]] = []
        for name, (dtype, shape) in layout_of(states).items():
            layout.append((name, dtype.name, json.dumps(shape)))
        with _database(self.folder, to_write=True) as database:
            database.executemany("INSERT OR IGNORE INTO tensors VALUES (?, ?, ?)", layout)
            database.executemany("INSERT OR IGNORE INTO states VALUES (?, ?, ?)", rows)


@contextmanager
def _database(folder: Path, *, to_write: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection for one use, as threads and forks share none; an InputError if it cannot be read, else OSError.

    Who only reads takes back, if it may, what a killed process began to write.
    """
    try:
        place = f"{(folder / DATABASE).absolute().as_uri()}?mode={'rwc' if to_write else 'rw'}"
        with closing(sqlite3.connect(place, timeout=_WAIT, uri=True)) as database, database:
            yield database
    except (sqlite3.Error, ValueError, TypeError) as error:
        if to_write:
            raise OSError(str(error)) from error
        raise InputError(f"{folder}: expected encodings, found damaged ones ({one_line(error)}). {RENEW}") from error


def _rows(database: sqlite3.Connection, columns: str, texts: Sequence[str]) -> list[tuple[Any, ...] | None]:
    """The columns of each text; `None` for those that are not there."""
    keys = [text_key(text) for text in texts]
    row_of: dict[bytes, tuple[Any, ...]] = {}
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        query = f"SELECT text, {columns} FROM states WHERE text IN ({', '.join('?' * len(some))})"
        for key, *values in database.execute(query, some):
            row_of[key] = tuple(values)
    return [row_of.get(key) for key in keys]


class KeptEncodings:
    """The kept encodings of one kind of texts, such as answers on cpu. Threads may share it.

    They are in a folder that the user names, in which nothing is removed and everything is written at once; by default
    in the user's cache.
    """

    def __init__(self, manifest: Manifest, kind: str, folder: Path | None = None) -> None:
        self._is_named = folder is not None
        self._root = cache_folder("encodings") if folder is None else folder
        name = stored_name(manifest.fingerprint, manifest.dtype, kind)
        self._encodings = Encodings(self._root / name, manifest)
        self._new: list[tuple[list[bytes], QuantizedStates]] = []
        self._keys: set[bytes] = set()  # of those texts
        self._lock = threading.RLock()
        self._usable = True
        folder = self._encodings.folder
        try:
            if (folder / DATABASE).exists():
                with _database(folder) as database:
                    check = database.execute("PRAGMA quick_check(1)").fetchone()
                    if check != ("ok",):
                        raise ValueError(check)
                Encodings.open(folder, manifest.fingerprint)
        except InputError as error:
            shutil.rmtree(folder, ignore_errors=True)
            logger.warning("%s: damaged (%s); the texts are encoded again.", folder, one_line(error, 200))

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """As `Encodings.lengths`."""
        file = self._encodings.folder / DATABASE
        try:
            if self._usable and file.exists():
                with suppress(OSError):  # a read-only file can be read as well
                    os.utime(file)  # so that it is not removed
                return self._encodings.lengths(texts)
        except InputError as error:
            self._stop(error)
        return [0] * len(texts)

    def states(self, texts: Sequence[str]) -> QuantizedStates | None:
        """As `Encodings.states`; `None` if some are there no more since `lengths` found them."""
        try:
            states = self._encodings.states(texts)
        except InputError as error:
            self._stop(error)
            return None
        if len(states.lengths) == len(texts):
            return states
        return None

    def add(self, texts: Sequence[str], states: QuantizedStates) -> None:
        """Keep the states of these texts, once `flush` is called or there are many."""
        keys = [text_key(text) for text in texts]
        with self._lock:
            new = [row for row, key in enumerate(keys) if key not in self._keys]
            if not self._usable or not new or not states.is_finite():
                return
            self._keys.update(keys)
            kept = states[new].converted(self._encodings.manifest.dtype, torch.device("cpu"))
            self._new.append(([keys[row] for row in new], kept))
            if not self._is_named and sum(batch.nbytes for _, batch in self._new) < UNWRITTEN_BYTES:
                return
        self.flush()

    def flush(self) -> None:
        """Write what was added."""
        with self._lock:
            new = self._new
            self._new = []
            if not new or not self._usable:
                return
            keys: list[bytes] = []
            batches: list[QuantizedStates] = []
            for keys_of_batch, batch in new:
                keys += keys_of_batch
                batches.append(batch)
            try:
                states = QuantizedStates.joined(batches)
                if not self._is_named:
                    self._make_room(states.nbytes)
                    make_folder(self._root, private=True)
                make_folder(self._encodings.folder, private=True)
                encodings = Encodings.begin(self._encodings.folder, self._encodings.manifest)
                encodings.add(keys, states)
            except (OSError, InputError) as error:
                self._stop(error)

    def _stop(self, error: Exception) -> None:
        """Neither read nor write any more: of a full disk, a file system without locks, ..."""
        self._usable = False
        folder = self._encodings.folder
        logger.warning("%s: texts are not kept for the next run (%s).", folder, one_line(error, 200))

    def _make_room(self, size: int) -> None:
        """Remove the files that were not used for longest, so that there is room for so many bytes more."""
        if size > MOST_BYTES:
            raise OSError(f"{size:,} bytes at once")
        databases: list[tuple[int, int, Path]] = []
        total = size
        for file in self._root.glob(f"*/{DATABASE}"):
            status = file.stat()
            databases.append((status.st_mtime_ns, status.st_size, file))
            total += status.st_size
        for _, bytes_, file in sorted(databases):
            if total <= MOST_BYTES:
                break
            total -= bytes_
            shutil.rmtree(file.parent, ignore_errors=True)
