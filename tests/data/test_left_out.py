"""A served file that is unfinished, or has lost many entries, does not stop its search, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.safe_open import may_be_path, names_path


def table(path: Path, count: int, more: str = "") -> Path:
    rows = [f"Where is part {i}?,In room {i}." for i in range(count)]
    path.write_text("\n".join(["question,answer", *rows]) + f"\n{more}")
    return path


def test_an_unfinished_row_is_named_and_the_others_are_served(tmp_path: Path) -> None:
    documents = WatchedFolder(table(tmp_path / "FAQ.csv", 5, "Where is it?,\n"))
    assert len(documents.read()) == 5
    assert [left.place for left in documents.left_out] == [f"{tmp_path / 'FAQ.csv'}, line 7"]
    assert "Where is it?" in str(documents.left_out[0])


def test_a_file_that_loses_many_entries_waits_for_its_owner(tmp_path: Path) -> None:
    for folder in (False, True):
        place = tmp_path / str(folder)
        place.mkdir()
        path = table(place / "FAQ.csv", 40)
        documents = WatchedFolder(place if folder else path)
        assert len(documents.read()) == 40
        for left in (39, 37, 35):  # an edit each
            table(path, left)
            assert len(documents.read()) == left
        table(path, 20)
        assert len(documents.read()) == 35
        assert "FAQ.csv" in str(documents.left_out[0]) and "15 of 35" in str(documents.left_out[0])
        table(path, 36)  # as it was, and more
        assert len(documents.read()) == 36
        assert not documents.left_out
        table(path, 3)
        assert len(documents.read()) == 36
        assert len(WatchedFolder(place if folder else path).read()) == 3  # a restart confirms it


def test_twenty_entries_of_a_long_file_are_many(tmp_path: Path) -> None:
    documents = WatchedFolder(table(tmp_path / "FAQ.csv", 400))
    documents.read()
    table(tmp_path / "FAQ.csv", 380)
    assert len(documents.read()) == 400
    table(tmp_path / "FAQ.csv", 381)
    assert len(documents.read()) == 381


@pytest.mark.parametrize(
    ("before", "after", "is_read"),
    [(9, 4, False), (9, 5, True), (9, 8, True), (7, 3, False), (5, 2, False), (5, 3, True), (4, 1, False)]
    + [(3, 1, True), (2, 1, True), (10, 8, True), (10, 7, False), (30, 27, True), (30, 26, False)],
)
def test_what_is_many_of_a_short_file(before: int, after: int, is_read: bool, tmp_path: Path) -> None:
    documents = WatchedFolder(table(tmp_path / "FAQ.csv", before))
    documents.read()
    table(tmp_path / "FAQ.csv", after)
    assert len(documents.read()) == (after if is_read else before)
    assert bool(documents.left_out) != is_read


@pytest.mark.parametrize("count", [1, 3, 9])
def test_a_short_file_may_be_written_anew(count: int, tmp_path: Path) -> None:
    path = table(tmp_path / "FAQ.csv", count)
    documents = WatchedFolder(path)
    documents.read()
    path.write_text(path.read_text().replace("Where is part", "When comes bus").replace("In room", "At"))
    assert documents.read()[0].question == "When comes bus 0?"
    assert not documents.left_out


def test_entries_that_are_edited_are_not_gone(tmp_path: Path) -> None:
    path = table(tmp_path / "FAQ.csv", 40)
    documents = WatchedFolder(path)
    documents.read()
    path.write_text(path.read_text().replace("Where is", "Where do I find"))
    assert {entry.question for entry in documents.read()} >= {"Where do I find part 3?"}


def test_prose_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "My FAQ.csv").touch()
    assert names_path(str(tmp_path / "My FAQ.csv"))
    for text in ("x" * 256, "\u00e9" * 128, "Where is it?", "two\nlines", "\0", "word " * 2_000):
        assert not may_be_path(text) and not names_path(text)
