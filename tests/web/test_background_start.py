"""A server answers before its answers are encoded: by BM25, which the log says, and then by the model."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import TEXTS, write_checkpoint, write_faq

from ap_ranker.errors import InputError
from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Basis
from ap_ranker.search import declared_pipeline, watch_search
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.setup import SearchSetup, set_up
from ap_ranker.search.watch_search import SearchWatcher
from ap_ranker.threads import leave_what_lives
from ap_ranker.web import background_start
from ap_ranker.web.background_start import BackgroundStart
from ap_ranker.web.workers import SearchWorkers

pytestmark = pytest.mark.usefixtures("forking")

QUESTION = "Which battery fits my parcel?"


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(background_start, "PATIENCE", 0.0)
    caplog.set_level(logging.INFO, "ap_ranker")
    return caplog


@pytest.fixture(params=["qa-cnn", "ap-cnn"])
def setup(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SearchSetup]:
    """By meaning and by words alone."""
    faq, model = write_faq(tmp_path / "faq.csv"), write_checkpoint(request.param, tmp_path / "checkpoint")
    with set_up(faq, model=str(model), limits={}, keep=True) as setup:
        yield setup


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No two answers are encoded until it is set; the first one alone shows whether the limits are valid."""
    gate, encode = threading.Event(), Ranker.encode_answers

    def waiting(self: Ranker, tokens: list[list[int]]) -> object:
        if threading.current_thread().name.startswith("background start") and len(tokens) > 1:
            gate.wait(30)
        return encode(self, tokens)

    monkeypatch.setattr(Ranker, "encode_answers", waiting)
    yield gate
    gate.set()


def wait_until_it_ranks(started: BackgroundStart) -> None:
    started._thread.shutdown()  # and until it has said so


def found_by(started: BackgroundStart | DeclaredPipeline) -> list[tuple[str, float | None]]:
    return [(document.meta["answer"], document.score) for document in started.answer(QUESTION)[0]]


def by_words(search: DeclaredPipeline) -> list[str]:
    [store] = search._stores()
    return [document.meta["answer"] for document in store.bm25_retrieval(QUESTION, top_k=5)]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_bm25_answers_until_the_model_can(
    setup: SearchSetup, gate: threading.Event, workers: int, log: pytest.LogCaptureFixture
) -> None:
    search, documents = setup.load()
    started = BackgroundStart(search, setup, documents, workers)
    assert [answer for answer, _ in found_by(started)] == by_words(search)
    assert started.answer(QUESTION)[1] == Decision(Outcome.MAYBE, None, Basis.NOTHING)
    assert started.answer("zebra")[1] == Decision(Outcome.NONE, None, Basis.NOTHING)
    assert "BM25" in log.text
    assert "ranked by the model" not in log.text
    gate.set()
    wait_until_it_ranks(started)
    expected, documents = setup.load()
    setup.warm_up(expected, documents)
    for (answer, score), (right, its) in zip(found_by(started), found_by(expected), strict=True):
        assert answer == right
        assert score == pytest.approx(its, abs=1e-5)
    assert "ranked by the model" in log.text
    if isinstance(started._ranks, SearchWorkers):
        started._ranks.close()


def test_a_small_faq_is_encoded_before_the_server_begins(
    setup: SearchSetup, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background_start, "PATIENCE", 60.0)
    search, documents = setup.load()
    started = BackgroundStart(search, setup, documents, 1)
    info = started.cache_info
    assert info is not None
    assert info.entries >= len(documents)
    started.answer(QUESTION)
    assert started.cache_info is not None
    assert started.cache_info.misses == info.misses
    assert "BM25" not in log.text
    assert log.messages.count(search.describe_decisions()) == 1


def test_progress_is_said(setup: SearchSetup, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(background_start, "REPORT_SECONDS", -1.0)
    search, documents = setup.load()
    wait_until_it_ranks(BackgroundStart(search, setup, documents, 1))
    assert f"of {len(documents)} answers" in log.text


def test_an_error_ends_the_start(setup: SearchSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_start, "PATIENCE", 60.0)
    from dataclasses import replace

    search, documents = setup.load()
    with pytest.raises(InputError, match="precision"):
        BackgroundStart(search, replace(setup, limits={"precision": 1.5}), documents, 1)


def test_a_late_error_leaves_bm25(
    setup: SearchSetup, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object, **__: object) -> None:
        time.sleep(0.5)
        raise InputError("the disk is gone.")

    search, documents = setup.load()
    monkeypatch.setattr(DeclaredPipeline, "encode", failing)
    started = BackgroundStart(search, setup, documents, 1)
    wait_until_it_ranks(started)
    assert [answer for answer, _ in found_by(started)] == by_words(search)
    assert "the disk is gone. BM25 alone" in log.text


def test_an_edit_is_found_meanwhile(setup: SearchSetup, gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_search, "PAUSE", 0.05)
    monkeypatch.setattr(watch_search, "STILL", 0.05)
    search, documents = setup.load()
    started = BackgroundStart(search, setup, documents, 1)
    following = SearchWatcher(search, setup)
    assert setup.documents is not None
    try:
        for answer in ("In the pool.", "On the ice."):
            rows = f'question,answer\n"{TEXTS[0]}","{TEXTS[1]}"\nWhere is the walrus?,{answer}\n'
            setup.documents.path.write_text(rows)
            end = time.monotonic() + 30
            while not any(found.meta["answer"] == answer for found in started.answer("walrus")[0]):
                assert time.monotonic() < end
                time.sleep(0.05)
            assert started._ranks is None
        gate.set()
        wait_until_it_ranks(started)
        assert {found.meta["answer"] for found in started.answer("walrus")[0]} <= {TEXTS[1], "On the ice."}
    finally:
        following.close()


def test_an_answer_can_be_explained_meanwhile(setup: SearchSetup, gate: threading.Event) -> None:
    search, documents = setup.load()
    started = BackgroundStart(search, setup, documents, 1)
    document = started.answer(QUESTION)[0][0]
    try:
        asked, _, explanation = started.explain(QUESTION, document)
    except InputError as error:
        assert "attention" in str(error)  # a model without any
    else:
        assert asked == QUESTION
        assert explanation.question


def test_the_end_of_the_server_ends_it(
    setup: SearchSetup, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ended while torch computes would be aborted."""
    monkeypatch.setattr(declared_pipeline, "BATCH", 1)
    search, documents = setup.load()
    started = BackgroundStart(search, setup, documents, 1)
    monkeypatch.setattr(background_start, "PATIENCE", 60.0)
    threading.Timer(0.2, gate.set).start()
    started.close()
    assert started._preparing.done()


def test_what_lives_is_no_garbage_until_it_dies() -> None:
    class Circle:
        def __init__(self) -> None:
            self.itself = self

    circle = Circle()
    left = weakref.ref(circle)
    leave_what_lives()
    del circle
    gc.collect()
    assert left() is not None
    leave_what_lives()  # as once another checkpoint ranks
    assert left() is None
    gc.unfreeze()
