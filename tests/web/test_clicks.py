"""What users said is kept: by many processes, beside people who edit the file, on disks that are full."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from ap_ranker.data.feedback import read_feedback
from ap_ranker.data.tables import read_table
from ap_ranker.errors import InputError
from ap_ranker.web import clicks as feedback_module
from ap_ranker.web.clicks import FeedbackFile, FeedbackFullError


def helping(path: Path, answer: str) -> list[str]:
    """The questions that an answer helped, as the file says."""
    rows = [row for row in read_feedback(path) if row.need("answer") == answer and row.get("label") == "1"]
    return list(dict.fromkeys(row.need("question") for row in rows))


LINE = {"question": "a", "answer": "b", "label": 1}


def keep(file: FeedbackFile, question: str = "q", *, helped: bool = True, visit: str = "") -> None:
    file.append(question=question, answer="b", stored_question="s", helped=helped, visit=visit)


def questions(path: Path) -> list[str]:
    return [row.need("question") for row in read_table(path).rows]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feedback.jsonl"


def test_what_a_crash_left_incomplete_is_repaired_before_anybody_reads_the_file(path: Path) -> None:
    path.write_text(json.dumps(LINE) + '\n{"question": "half a li')
    FeedbackFile(path)
    assert helping(path, "b") == ["a"]
    assert path.with_name("feedback.jsonl.damaged").read_text() == '{"question": "half a li\n'


def write_many(path: Path, name: str, count: int, acknowledged: Path) -> None:
    """A server's process: what it acknowledges, it notes."""
    file = FeedbackFile(path)
    with acknowledged.open("w", buffering=1) as notes:
        for number in range(count):
            keep(file, f"{name} {number} " + "\N{BICYCLE}" * (number % 700))
            notes.write(f"{name} {number}\n")


def start(tmp_path: Path, path: Path, count: int) -> list[multiprocessing.process.BaseProcess]:
    context = multiprocessing.get_context("fork")
    names = ("first", "second", "third", "fourth")
    processes = [context.Process(target=write_many, args=(path, one, count, tmp_path / one)) for one in names]
    for process in processes:
        process.start()
    return processes


def acknowledged(tmp_path: Path) -> set[str]:
    files = (tmp_path / name for name in ("first", "second", "third", "fourth"))
    return {line for file in files if file.exists() for line in file.read_text().split("\n")[:-1]}


def test_several_servers_on_one_file(tmp_path: Path, path: Path) -> None:
    processes = start(tmp_path, path, 60)
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    kept = [" ".join(text.split()[:2]) for text in questions(path)]
    assert sorted(kept) == sorted(acknowledged(tmp_path))
    assert len(kept) == 240


def test_servers_that_are_killed(tmp_path: Path, path: Path) -> None:
    processes = start(tmp_path, path, 10_000)
    time.sleep(0.5)
    for process in processes:
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    keep(FeedbackFile(path), "after all")
    kept = {" ".join(text.split()[:2]) for text in questions(path)}
    assert acknowledged(tmp_path)
    assert kept >= acknowledged(tmp_path) | {"after all"}


def test_a_last_line_without_a_line_break_stays(path: Path) -> None:
    file = FeedbackFile(path)
    path.write_text(json.dumps(LINE) + "\n" + json.dumps(LINE | {"question": "by hand"}))
    keep(file)
    assert questions(path) == ["a", "by hand", "q"]
    assert not path.with_name("feedback.jsonl.damaged").exists()


@pytest.mark.parametrize(
    "half", ['{"question": "half a li', '{"question": "typed by h\n and', '{"a": "\N{BICYCLE}'[:-1], "\0" * 40, "[1, 2"]
)
def test_a_half_line_is_kept_aside(path: Path, half: str, caplog: pytest.LogCaptureFixture) -> None:
    content = half.encode() + b"\xf0\x9f"  # in the middle of a character
    path.write_bytes(json.dumps(LINE).encode() + b"\n" + content.split(b"\n")[-1])
    keep(FeedbackFile(path))
    assert questions(path) == ["a", "q"]
    damaged = path.with_name("feedback.jsonl.damaged")
    assert damaged.read_bytes() == content.split(b"\n")[-1] + b"\n"
    assert f"moved to {damaged}" in caplog.text


def test_a_half_line_that_cannot_be_moved_stays(path: Path) -> None:
    path.write_text('{"half')
    path.with_name("feedback.jsonl.damaged").mkdir()
    with pytest.raises(InputError, match=r"feedback\.jsonl\.damaged: expected a writable file"):
        FeedbackFile(path)
    assert path.read_text() == '{"half'


def test_a_repeat_is_one_judgement(path: Path) -> None:
    file = FeedbackFile(path)
    for visit in ("one", "one", "two", "", ""):
        keep(file, visit=visit)
    keep(file, helped=False, visit="one")
    keep(FeedbackFile(path), visit="one")  # another server, or the same after a restart
    rows = [(row.get("visit"), row.get("label")) for row in read_table(path).rows]
    assert rows == [("one", "1"), ("two", "1"), ("", "1"), ("one", "0")]


def test_what_others_do_with_the_file_is_noticed(path: Path) -> None:
    ours, theirs = FeedbackFile(path), FeedbackFile(path)
    keep(ours, "x")
    keep(theirs, "y")
    keep(ours, "y")  # a repeat of what another server kept
    assert questions(path) == ["x", "y"]
    path.rename(path.with_name("old.jsonl"))
    keep(ours, "x")  # a new file: nothing was said in it yet
    assert questions(path) == ["x"]
    line = path.read_text()
    path.write_text(line.replace('"x"', '"z"') + line.replace('"x"', '"w"'))
    keep(ours, "x")
    assert questions(path) == ["z", "w", "x"]
    path.write_text("")
    keep(ours, "x")
    assert questions(path) == ["x"]


def test_a_line_that_is_no_judgement_is_left_alone(path: Path) -> None:
    lines = '{"question": "a", "answer": "b", "label": 1}\n\nnot JSON\n[]\n' + "[" * 100_000 + "\n"
    path.write_text(lines)
    keep(FeedbackFile(path))
    assert path.read_text().startswith(lines)
    assert json.loads(path.read_text().split("\n")[-2])["question"] == "q"


def test_a_full_file_says_so_once_and_goes_on_in_a_new_one(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = FeedbackFile(path, max_bytes=400)
    with caplog.at_level(logging.ERROR):
        for number in range(9):
            try:
                keep(file, str(number))
            except FeedbackFullError as error:
                assert "400 bytes" in str(error)
    kept = questions(path)
    assert 1 < len(kept) < 9
    assert path.stat().st_size <= 400
    assert caplog.text.count("400 bytes") == 1
    path.unlink()
    keep(file, "again")
    assert questions(path) == ["again"]


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_full_disk_leaves_no_half_line(path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    file = FeedbackFile(path)
    keep(file, "before")
    before = path.read_bytes()
    write = os.write

    def fail(descriptor: int, data: Any = b"") -> int:
        if failing == "write":
            write(descriptor, bytes(data)[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(feedback_module.os, failing, fail)
        with pytest.raises(OSError, match="No space"):
            keep(file, "lost")
    assert path.read_bytes() == before
    keep(file, "lost")  # was not acknowledged, so it is no repeat
    assert questions(path) == ["before", "lost"]


def test_lines_of_an_older_version(path: Path) -> None:
    """Without a visit; they count as judgements of programs that do not tell one."""
    path.write_text(json.dumps(LINE) + "\n")
    file = FeedbackFile(path)
    file.append(question="a", answer="b", stored_question="", helped=True, visit="")
    assert questions(path) == ["a"]
    keep(file, "new", visit="v")
    assert questions(path) == ["a", "new"]


def test_a_judgement_is_taken_back_with_its_wording(path: Path) -> None:
    file = FeedbackFile(path)
    keep(file, "ours", visit="one")
    keep(file, "theirs", visit="two")
    assert helping(path, "b") == ["ours", "theirs"]
    line = path.read_text().splitlines(keepends=True)[0]
    assert FeedbackFile(path).take_back(question="ours", answer="b", visit="one") == 1  # by another server
    assert helping(path, "b") == ["theirs"]
    assert path.with_name("feedback.jsonl.removed").read_text() == line  # nothing is lost
    assert file.take_back(question="ours", answer="b", visit="one") == 0
    assert file.take_back(question="theirs", answer="b", visit="one") == 0  # somebody else's
    keep(file, "ours", helped=False, visit="one")
    assert [(row.need("question"), row.get("label")) for row in read_table(path).rows] == [
        ("theirs", "1"),
        ("ours", "0"),
    ]


def test_a_comment_joins_its_judgement(path: Path) -> None:
    file = FeedbackFile(path)
    for visit in ("one", "two"):
        keep(file, helped=False, visit=visit)
    given: dict[str, Any] = {"question": "q", "answer": "b", "stored_question": "s", "helped": False, "visit": "one"}
    file.append(**given, comment='No word of "tandems", \N{BICYCLE}')
    file.append(**given, comment="A second one would need no judgement.")
    keep(file, "new", visit="one")
    rows = [(row.need("question"), row.get("visit"), row.get("comment")) for row in read_table(path).rows]
    assert rows == [("q", "one", 'No word of "tandems", \N{BICYCLE}'), ("q", "two", ""), ("new", "one", "")]


def test_a_file_without_comments_takes_them(path: Path) -> None:
    """As an older version wrote it."""
    path.write_text(json.dumps(LINE) + "\n")
    FeedbackFile(path).append(question="q", answer="b", stored_question="", helped=True, comment="c")
    assert questions(path) == ["a", "q"]
    assert sorted(helping(path, "b")) == ["a", "q"]


def test_taking_back_on_a_full_disk_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FeedbackFile(path)
    keep(file, visit="v")
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail)
        with pytest.raises((OSError, InputError)):
            file.take_back(question="q", answer="b", visit="v")
    assert path.read_bytes() == before
    assert file.take_back(question="q", answer="b", visit="v") == 1
