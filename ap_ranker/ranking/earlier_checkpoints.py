"""The checkpoints that were in a folder before, `FOLDER.earlier/NUMBER`: another one takes its place in one step."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ap_ranker.errors import InputError
from ap_ranker.files import hash_of_files, kept_alone, make_folder, restore, writing
from ap_ranker.ranking.checkpoint import CONFIG, WEIGHTS, checkpoint_draft, find_checkpoint, is_checkpoint

KEPT = 3
"""Number of earlier checkpoints that are kept."""


@contextmanager
def alone(folder: Path) -> Iterator[Path]:
    """A folder for drafts beside another one, which one process at a time has; an InputError tells the others."""
    restore(folder)
    work = Path(f"{folder}.retraining")
    make_folder(work, private=True)  # what it learns from is what visitors said
    with kept_alone(work, "retraining", "Wait for it."):
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def exchange(folder: Path, new: Path, former: Path) -> None:
    """Let a new checkpoint take the place of the one in a folder, once the former is kept; one of them is always there.

    WriteError if that is impossible: then nothing has changed.
    """
    _keep(folder, former)
    _copy(new, folder)
    _remove_oldest(folder)


def keep_former(folder: Path) -> None:
    """Keep the checkpoint of a folder, which another one is about to replace, as its latest earlier one.

    WriteError if that is impossible: then nothing has changed.
    """
    _keep(folder, folder)
    _remove_oldest(folder)


def _keep(folder: Path, former: Path) -> None:
    earlier = earlier_checkpoints(folder)
    number = int(earlier[-1].name) + 1 if earlier else 1
    latest = Path(f"{folder}.earlier") / str(number)
    copies = [checkpoint for checkpoint in earlier if _content(checkpoint) == _content(former)]
    if copies:
        with writing(latest):
            copies[0].rename(latest)
    else:
        _copy(former, latest)


def _remove_oldest(folder: Path) -> None:
    for old in earlier_checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def go_back(folder: Path) -> Path:
    """Exchange a checkpoint for the latest earlier one that differs, and return its folder; InputError without any."""
    current = find_checkpoint(folder)
    with alone(folder):
        earlier = []
        for checkpoint in earlier_checkpoints(folder):
            if _content(checkpoint) != _content(current):
                earlier.append(checkpoint)
        if not earlier:
            raise InputError(f"{folder}: expected an earlier checkpoint, which `ap-ranker retrain` keeps, found none.")
        exchange(folder, earlier[-1], current)
    return earlier[-1]


def take(folder: Path, new: Path) -> None:
    """Let a copy of a ready checkpoint take the place of the one in a folder, if any, which is kept.

    InputError if there is no checkpoint, or only the one that the folder has already.
    """
    ready = find_checkpoint(new)
    with alone(folder):
        if not is_checkpoint(folder):
            _copy(ready, folder)
            return
        if _content(ready) == _content(folder):
            raise InputError(f"{new}: expected another checkpoint than {folder}, found the same one. Nothing changed.")
        exchange(folder, ready, folder)


def _copy(source: Path, target: Path) -> None:
    with checkpoint_draft(target) as draft:
        shutil.copytree(source, draft, dirs_exist_ok=True)


def earlier_checkpoints(folder: Path) -> list[Path]:
    """The earlier checkpoints of a folder, oldest first; without what is left of one that was being removed."""
    checkpoints: list[Path] = []
    for path in Path(f"{folder}.earlier").glob("*"):
        if path.name.isdecimal() and is_checkpoint(path):
            checkpoints.append(path)
    return sorted(checkpoints, key=lambda path: int(path.name))


def _content(folder: Path) -> str:
    return hash_of_files([folder / CONFIG, folder / WEIGHTS])
