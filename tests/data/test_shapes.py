"""Files as other people keep them are read as they are meant: the tables of three modules beside these tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from file_shapes import SHAPES, Shape
from further_file_shapes import FURTHER
from more_file_shapes import MORE

from ap_ranker.documents.watched_folder import WatchedFolder


@pytest.mark.parametrize("shape", [*SHAPES, *MORE, *FURTHER], ids=lambda shape: shape.name)
def test_a_file_is_read_as_it_is_meant(shape: Shape, tmp_path: Path) -> None:
    path = tmp_path / shape.file
    path.write_bytes(shape.content)
    documents = WatchedFolder(path, shape.columns)
    entries = documents.read()
    assert [(entry.question, entry.answer, *entry.wordings) for entry in entries] == shape.entries
    assert len(documents.left_out) == shape.left_out, documents.left_out
    for name, text in shape.other.items():
        assert entries[0].other[name] == text
