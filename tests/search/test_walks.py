"""The five ways through the project stay as short as they are (`benchmarks/walks.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from benchmarks.walks import WALKS, Walks, write_random_checkpoint

MOST = {
    "a warm question": (26, 44),
    "a web question": (44, 110),
    "a training pair": (94, 4300),
    "an accepted wording": (23, 60),
    "an encoded answer": (27, 12),
}
"""Files, and changes of room. A training's depend on what was imported before; a request's, on how often it waits.

A question passes `ranking/ranking_request.py`, as questions are scored together; so does an answer, whose states
`ranking/state_bytes.py` makes bytes for the disk and for Elasticsearch. Reading a FAQ passes `progress.py`, as a long
reading tells how far it is.
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_checkpoint(tmp_path_factory.mktemp("walks") / "checkpoint")


@pytest.fixture
def walks() -> Iterator[Walks]:
    walks = Walks(ROOT)
    yield walks
    walks.close()


@pytest.mark.parametrize("name", WALKS)
def test_a_way_is_no_longer_than_it_was(name: str, checkpoint: Path, walks: Walks, tmp_path: Path) -> None:
    walk = WALKS[name](walks, tmp_path, checkpoint)
    most_files, most_changes = MOST[name]
    files = "\n".join(sorted(walk.files))
    assert len(walk.files) <= most_files, f"A file is new on this way. Can it be spared?\n{files}"
    assert walk.room_changes <= most_changes
