"""Questions that arrive while others are searched are searched together; each gets its own answer or error."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from ap_ranker.errors import InputError
from ap_ranker.ranking.cache import TOGETHER
from ap_ranker.search.declared_pipeline import DeclaredPipeline, Limits
from ap_ranker.web import gathered_search
from ap_ranker.web.gathered_search import AT_ONCE, GatheredSearch

SECONDS = 30.0


class Search:
    """Answers a question by itself in capitals; `batches` are what was searched together."""

    def __init__(self) -> None:
        self.searches_in_memory = True
        self.batches: list[tuple[list[str], Limits, int]] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()

    def answer_each(self, questions: Sequence[str], limits: Limits) -> list[str]:
        self.batches.append(([*questions], limits, threading.get_ident()))
        self.begun.release()
        assert self.go.wait(SECONDS)
        for question in questions:
            if question.startswith("wrong"):
                raise InputError(question)
            if question == "interrupt":
                raise KeyboardInterrupt
        return [question.upper() for question in questions]

    def answer(self, question: str, limits: Limits) -> str:
        return f"alone {question}"

    @property
    def sizes(self) -> list[int]:
        return [len(questions) for questions, _, _ in self.batches]


@pytest.fixture
def search() -> Search:
    return Search()


@pytest.fixture
def gathered(search: Search, monkeypatch: pytest.MonkeyPatch) -> GatheredSearch:
    """One batch at a time, so that it is known what each has."""
    monkeypatch.setattr(gathered_search, "AT_ONCE", 1)
    return GatheredSearch(cast(DeclaredPipeline, search))


def ask_during_a_search(
    gathered: GatheredSearch, search: Search, questions: Sequence[str], limits: Sequence[Limits] | None = None
) -> list[Future[Any]]:
    """What comes of questions that arrive, in this order, while others are searched."""
    search.go.clear()
    threads = ThreadPoolExecutor(1 + len(questions))
    threads.submit(gathered.answer, "first")
    assert search.begun.acquire(timeout=SECONDS)
    futures = []
    for number, question in enumerate(questions):
        futures.append(threads.submit(gathered.answer, question, limits[number] if limits else {}))
        while len(gathered._waiting) < len(futures):
            threading.Event().wait(0.001)
    search.go.set()
    threads.shutdown(wait=False)
    return futures


def test_a_question_alone_is_searched_at_once_by_its_own_thread(gathered: GatheredSearch, search: Search) -> None:
    for question in ("a", "b"):
        assert gathered.answer(question) == question.upper()
    assert search.batches == [(["a"], {}, threading.get_ident()), (["b"], {}, threading.get_ident())]


def test_what_arrives_meanwhile_is_searched_together(gathered: GatheredSearch, search: Search) -> None:
    questions = [f"question {number}" for number in range(TOGETHER + 5)]
    futures = ask_during_a_search(gathered, search, questions)
    assert [future.result(SECONDS) for future in futures] == [question.upper() for question in questions]
    assert search.sizes == [1, TOGETHER, 5]
    assert gathered.answer("later") == "LATER"


def test_an_error_of_one_question_does_not_reach_the_others(gathered: GatheredSearch, search: Search) -> None:
    futures = ask_during_a_search(gathered, search, ["a", "wrong b", "c"])
    assert [futures[0].result(SECONDS), futures[2].result(SECONDS)] == ["A", "C"]
    with pytest.raises(InputError, match="wrong b"):
        futures[1].result(SECONDS)


def test_errors_block_nobody(gathered: GatheredSearch, search: Search) -> None:
    """Not even an interruption: what waited beside it fails, and what comes later is answered."""
    with pytest.raises(InputError, match="wrong"):
        gathered.answer("wrong")
    futures = ask_during_a_search(gathered, search, ["interrupt", "beside it"])
    for future, error in zip(futures, (KeyboardInterrupt, RuntimeError), strict=True):
        with pytest.raises(error):
            future.result(SECONDS)
    assert gathered.answer("x") == "X"


def test_limits_are_those_of_each_question(gathered: GatheredSearch, search: Search) -> None:
    high: Limits = {"precision": 0.9}
    futures = ask_during_a_search(gathered, search, ["a", "b", "c"], [{}, high, high])
    assert [future.result(SECONDS) for future in futures] == ["A", "B", "C"]
    searched = [(questions, limits) for questions, limits, _ in search.batches[1:]]
    assert searched == [(["a"], {}), (["b", "c"], high)]


def test_some_batches_are_searched_at_once(search: Search) -> None:
    gathered = GatheredSearch(cast(DeclaredPipeline, search))
    search.go.clear()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        futures = [threads.submit(gathered.answer, f"question {number}") for number in range(AT_ONCE)]
        for _ in futures:
            assert search.begun.acquire(timeout=SECONDS)
        search.go.set()
    assert [future.result() for future in futures] == [f"QUESTION {number}" for number in range(AT_ONCE)]


def test_a_search_that_waits_for_others_is_not_gathered(gathered: GatheredSearch, search: Search) -> None:
    """As one of Elasticsearch, whose answers would come one after the other."""
    search.searches_in_memory = False
    assert gathered.answer("a") == "alone a"
