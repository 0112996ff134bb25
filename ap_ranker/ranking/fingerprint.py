"""What encoded texts are of: a checkpoint's fingerprint, how this program reads, and the text's own key."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import torch

from ap_ranker.errors import InputError
from ap_ranker.files import cache_folder, file_version, hash_of_files, write_text_atomically
from ap_ranker.ranking.checkpoint import CALIBRATED, CONFIG, TOKENIZER, WEIGHTS
from ap_ranker.text.reading import READING_VERSION

Version = tuple[tuple[int, ...], ...]


def text_key(text: str) -> bytes:
    """The hash by which the states of a text are stored."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def fingerprint(checkpoint: Path) -> str:
    """A hash of a checkpoint's weights, vocabulary and sizes: 64 hexadecimal digits, the same after a calibration."""
    config = json.loads((checkpoint / CONFIG).read_text(encoding="utf-8"))
    uncalibrated = config.get("uncalibrated")
    not_encoding = ["training", "calibration", "uncalibrated"]
    if uncalibrated is not None:
        not_encoding += CALIBRATED
    for name in not_encoding:
        config.pop(name, None)
    config |= uncalibrated or {}
    return hash_of_files([checkpoint / WEIGHTS, checkpoint / TOKENIZER], json.dumps(config, sort_keys=True).encode())


def known_fingerprint(checkpoint: Path) -> str:
    """As `fingerprint`, without reading the weights again of a checkpoint whose files are those of an earlier run."""
    version: list[list[int]] = []
    for name in (CONFIG, WEIGHTS, TOKENIZER):
        status = (checkpoint / name).stat()
        version.append([status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns])
    path = cache_folder("fingerprints") / text_key(json.dumps(version)).hex()
    with suppress(OSError, ValueError):
        kept_digest = path.read_text(encoding="utf-8")
        if re.fullmatch(r"[0-9a-f]{64}", kept_digest):
            return kept_digest
    digest = fingerprint(checkpoint)
    with suppress(InputError):
        write_text_atomically(path, digest)
    return digest


def checkpoint_version(folder: Path) -> Version:
    """What differs between two checkpoints that are in a folder one after the other."""
    return tuple(file_version(folder / name) for name in (CONFIG, WEIGHTS, TOKENIZER))


def stored_name(checkpoint_fingerprint: str, dtype: str, kind: str) -> str:
    """The name under which states of a kind of texts are stored: another one for all that would compute others."""
    programs = [metadata.version("ap-ranker"), READING_VERSION, torch.__version__, torch.cpu.get_capabilities()]
    key = json.dumps([checkpoint_fingerprint, dtype, kind, *programs], default=str)
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
