"""The log of questions: what it holds, what it does not, and that no answer depends on it."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import stat
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from disks import fill, small_disk_or_skip
from haystack import Document
from starlette.testclient import TestClient

from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import question_log as module
from ap_ranker.web.app import build_app
from ap_ranker.web.clicks import FeedbackFile
from ap_ranker.web.question_log import LONGEST, Outcome, QuestionLog, read_question_log

BEST = Document(id="e1", content="the answer", score=0.75)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "questions.jsonl"


def log_all(path: Path, *questions: str, **options: Any) -> None:
    log = QuestionLog(path, **options)
    for question in questions:
        log.add(question, [BEST])
    log.close()


def test_what_a_line_holds(path: Path) -> None:
    log_all(path, "where is\tmy\nparcel\x1b[31m\u202e?" + "x" * 1000)
    (line,) = path.read_text().splitlines()
    record = json.loads(line)
    assert record.keys() == {"time", "question", "outcome", "score", "entry"}
    assert record["question"].startswith("where is my parcel [31m ?xxx")
    assert len(record["question"]) == LONGEST
    assert (record["outcome"], record["score"], record["entry"]) == ("answered", 0.75, "e1")
    assert record["time"].endswith("+00:00")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_outcomes_over_http(search: DeclaredPipeline, path: Path) -> None:
    """With nothing good enough, the log knows what was nearest; the answer does not."""
    log = QuestionLog(path)
    feedback = FeedbackFile(path.with_name("feedback.jsonl"))
    for limits in ({}, {"score_threshold": 1.1}):
        client = TestClient(build_app(search, feedback, limits=limits, question_log=log), "http://localhost")
        for question in ("where is the parcel now", "xyzzy"):
            response = client.post(
                "/api/search", json={"question": question}, headers={"Cookie": "a=secret", "X-Forwarded-For": "9.9.9.9"}
            )
            assert response.status_code == 200
    log.close()
    questions = read_question_log(path)
    assert [(one.question, one.outcome) for one in questions] == [
        ("where is the parcel now", Outcome.answered),
        ("xyzzy", Outcome.nothing_found),
        ("where is the parcel now", Outcome.refused),
        ("xyzzy", Outcome.nothing_found),
    ]
    shown, refused = questions[0], questions[2]
    assert shown.entry == search.run("where is the parcel now")[0].id
    assert (refused.score, refused.entry) == (shown.score, shown.entry)
    assert (questions[1].score, questions[1].entry) == (None, "")
    assert "secret" not in path.read_text()
    assert "9.9.9.9" not in path.read_text()


def test_a_pipeline_without_a_threshold(path: Path) -> None:
    log = QuestionLog(path)
    log.add("what", [])
    log.close()
    (question,) = read_question_log(path)
    assert (question.outcome, question.score, question.entry) == (Outcome.refused, None, "")


def test_old_files_are_put_aside_and_the_oldest_deleted(path: Path) -> None:
    log_all(path, *(f"question number {n}" for n in range(40)), max_bytes=500)
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["questions.jsonl", *(f"questions.jsonl.{n}" for n in range(1, 5))]
    assert all(file.stat().st_size <= 500 for file in path.parent.iterdir())
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in path.parent.iterdir())
    numbers = [int(one.question.split()[-1]) for one in read_question_log(path)]
    assert numbers == list(range(numbers[0], 40))
    assert 10 < len(numbers) < 40


def _append_many(path: Path, name: str) -> None:
    log_all(path, *(f"{name} {n}" for n in range(200)), max_bytes=10_000)


def test_several_servers_share_a_file(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_append_many, args=(path, name)) for name in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    questions = [one.question.split() for one in read_question_log(path)]
    for file in path.parent.iterdir():
        assert all(json.loads(line) for line in file.read_text().splitlines())
    for name in "abc":  # each writer's lines are in order, and none is missing in between
        numbers = [int(number) for who, number in questions if who == name]
        assert numbers == list(range(200 - len(numbers), 200))
    assert len(questions) > 300


@pytest.mark.parametrize("failing", ["open", "write"])
def test_a_file_that_cannot_be_written_is_said_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failing: str
) -> None:
    log = QuestionLog(path)

    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        for question in "abc":
            log.add(question, [BEST])
        while not log._waiting.empty():
            pass
        log.close()
    assert path.read_bytes() == b""
    assert caplog.text.count("cannot be logged (No space left on device). Answers are not affected") == 1


def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with small_disk_or_skip(tmp_path / "disk", 64) as disk:
        path = disk / "questions.jsonl"
        log_all(path, "before")
        fill(disk)
        log_all(path, *["x" * 400] * 30)
        (disk / "filler").unlink()
        log_all(path, "after")
        questions = [one.question for one in read_question_log(path)]
        assert (questions[0], questions[-1]) == ("before", "after")
        assert all(json.loads(line) for line in path.read_text().splitlines())
    assert caplog.text.count("cannot be logged") == 1


def test_too_many_at_once_are_left_out(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    monkeypatch.setattr(module.QuestionLog, "_work", lambda log: None)
    log = QuestionLog(path)
    for question in "abcd":
        log.add(question, [BEST])
    assert caplog.text.count("some are left out") == 1


def test_a_line_that_a_crash_left_incomplete(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log_all(path, "before")
    with path.open("a") as file:
        file.write('{"question": "half a li')
    assert [one.question for one in read_question_log(path)] == ["before"]
    log_all(path, "after")
    assert [one.question for one in read_question_log(path)] == ["before", "after"]
    assert "1 lines that are no logged questions left out" in caplog.text


def test_a_place_that_cannot_be_written(path: Path) -> None:
    with pytest.raises(InputError, match="expected a writable file for the log of questions"):
        log_all(path / "nowhere")
    with pytest.raises(InputError, match="No file"):
        read_question_log(path)
    path.write_text("question,answer\n1,2\n")
    with pytest.raises(InputError, match="expected questions as `ap-ranker serve --log-questions FILE` logs them"):
        read_question_log(path)
