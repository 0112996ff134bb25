"""Files and folders written whole or not at all: beside their place first, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_aside(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` that takes its place when the block ends, and vanishes if it fails."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield draft
        draft.chmod(0o755)  # mkdtemp makes private folders
        if folder.exists():
            old = draft.with_name(draft.name + ".old")
            folder.rename(old)
            draft.rename(folder)
            shutil.rmtree(old)
        else:
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file beside `path` that takes its place when the block ends, and vanishes if it fails."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")  # of its own: several processes may write the same
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with written_whole(path) as draft:
        draft.write_text(text, encoding="utf-8")
