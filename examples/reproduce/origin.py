"""Where a run of the papers' tables comes from: kept beside its checkpoint, which may be used again by other code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import torch
from options import HERE

from ap_ranker.errors import InputError
from ap_ranker.files import write_text_atomically
from benchmarks.machine import describe_machine

ORIGIN = "origin.json"
"""The file in a run's checkpoint folder."""


def present_origin(device: torch.device, embeddings: str | None = None) -> dict[str, str]:
    """Where a run would come from that was trained now.

    Args:
        device: where it trains.
        embeddings: the word vectors that it begins with.
    """
    vectors = Path(embeddings).name if embeddings else "none"
    return {"machine": describe_machine(device), "commit": current_commit(HERE), "embeddings": vectors}


def current_commit(folder: Path) -> str:
    """The checkout's commit, with `+` if something in it is not committed; the results themselves do not count."""
    try:
        head = _git(folder, "rev-parse", "--short", "HEAD")
        written = [f":(exclude){HERE / name}" for name in ("results.json", "results.md")]
        changed = _git(folder, "status", "--porcelain", "--", ":(top)", *written)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"  # an unpacked archive, or no git
    return head + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def remember(run: Path, origin: Mapping[str, str]) -> dict[str, str]:
    """What trained a run: this very command, unless the run already says otherwise."""
    if not (run / ORIGIN).exists():
        write_text_atomically(run / ORIGIN, json.dumps(origin, indent=2) + "\n")
    return read_origin(run)


def read_origin(run: Path) -> dict[str, str]:
    """What `remember` kept of a run.

    Raises:
        InputError: no such file, or not what was kept.
    """
    try:
        origin: dict[str, str] = json.loads((run / ORIGIN).read_text(encoding="utf-8"))
        return {name: origin[name] for name in ("machine", "commit", "embeddings")}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{run / ORIGIN}: expected what trained the run ({error!r}). Remove the folder.") from error
