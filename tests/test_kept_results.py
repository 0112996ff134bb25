"""What is made of sources is kept until they change, and threads that share it get what belongs to their sources."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest

from ap_ranker.kept_results import Latest

TIMES = 2_000


class Made:
    """Something large."""


def test_it_is_made_anew_when_its_sources_have_changed() -> None:
    latest: Latest[Made] = Latest()
    first = latest.get([1, "a"], Made)
    assert latest.get([1, "a"], Made) is first
    second = latest.get([2, "a"], Made)
    assert second is not first
    assert latest.get([1, "a"], Made) is not first, "only the latest is kept"


def test_none_is_kept_as_well() -> None:
    latest: Latest[None] = Latest()
    times: list[int] = []
    for _ in range(3):
        assert latest.get(None, lambda: times.append(1)) is None
    assert len(times) == 1


def test_the_same_object_is_not_compared() -> None:
    latest: Latest[Made] = Latest()
    array = np.zeros(3)  # which has no truth of its own if it is compared
    assert latest.get((array, 1), Made) is latest.get((array, 1), Made)


def test_the_earlier_one_is_gone_while_the_next_is_made() -> None:
    latest: Latest[Made] = Latest()
    earlier = weakref.ref(latest.get(1, Made))
    gone: list[bool] = []

    def make() -> Made:
        gc.collect()
        gone.append(earlier() is None)
        return Made()

    latest.get(2, make)
    assert gone == [True]


def test_nothing_is_kept_of_what_could_not_be_made() -> None:
    latest: Latest[int] = Latest()
    assert latest.get(1, lambda: 10) == 10
    with pytest.raises(ZeroDivisionError):
        latest.get(2, lambda: 1 // 0)
    assert latest.get(2, lambda: 20) == 20
    assert latest.get(1, lambda: 11) == 11


def test_what_is_forgotten_is_made_anew() -> None:
    latest: Latest[Made] = Latest()
    first = latest.get(1, Made)
    latest.forget()
    assert latest.get(1, Made) is not first


def test_a_copy_begins_without_it() -> None:
    latest: Latest[threading.Lock] = Latest()  # type: ignore[type-var]  # which cannot be copied
    lock = latest.get(1, threading.Lock)
    for copied in (deepcopy(latest), pickle.loads(pickle.dumps(latest))):
        assert copied.get(1, threading.Lock) is not lock
    assert latest.get(1, threading.Lock) is lock


def test_two_threads_that_come_at_once_make_it_once() -> None:
    latest: Latest[Made] = Latest()
    times: list[int] = []
    is_making = threading.Event()
    other_has_come = threading.Event()

    def make() -> Made:
        times.append(1)
        is_making.set()
        assert other_has_come.wait(60)
        return Made()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(latest.get, 1, make)
        assert is_making.wait(60)
        second = threads.submit(latest.get, 1, make)
        assert not second.done()
        other_has_come.set()
        assert second.result(60) is first.result(60)
    assert len(times) == 1


def test_two_threads_get_what_belongs_to_their_sources() -> None:
    latest: Latest[int] = Latest()

    def ask(sources: int) -> set[int]:
        return {latest.get(sources, lambda: 10 * sources) for _ in range(TIMES)}

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(ask, (1, 2))) == [{10}, {20}]
