"""A browser without a window, for tests of pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Browser, Page, Route, expect
from waiting import wait_until

expect.set_options(timeout=60_000)  # milliseconds


@contextmanager
def opened(
    browser: Browser, address: str, locale: str, refused: str = "", others: Sequence[str] = (), **options: Any
) -> Iterator[Page]:
    """The page; a test fails if it asks another host, says anything in the console, or lets a program in a text run.

    What the browser says in the console of a `refused` address is expected, as is that the hosts of `others` are
    asked. `options` are of the window.
    """
    wrong: list[str] = []
    said: list[str] = []
    hosts = [urlsplit(each).netloc for each in (address, *others)]

    def watch(route: Route) -> None:
        if urlsplit(route.request.url).netloc not in hosts:
            wrong.append(route.request.url)
        route.continue_()

    page = browser.new_page(locale=locale, **options)
    try:
        page.set_default_timeout(60_000)
        page.route("**/*", watch)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("console", lambda message: said.append(f"{message.text} {message.location}"))
        page.goto(address)
        yield page
    finally:
        page.close()
    wrong += [each for each in said if not refused or refused not in each]
    assert not wrong, wrong


def ask(page: Page, question: str) -> None:
    page.get_by_role("combobox").fill(question)
    page.keyboard.press("Enter")


def maybe(**fields: Any) -> dict[str, Any]:
    """What the API says of a question for which there may be one answer, of which these fields are not empty."""
    answer = {"id": "a", "score": 0.5, "question": "", "answer": "b", "html": "", "words": [], "category": ""}
    answer |= {"bm25_rank": 1, **dict.fromkeys(("source", "matched_wording", "match", "receipt")), **fields}
    said = {"kind": "question", "language": None, "answers": [answer], "parts": []}
    return {"question": "x", "outcome": "maybe", "probability": 0.5, "basis": "prior", **said}


def wait_for_the_model(address: str, question: str = "bike 自転車 الدراجة staff", seconds: float = 120.0) -> None:
    """Until a server that asserts an answer to a question ranks with its model; before, BM25 finds maybes."""
    end, asked = time.monotonic() + seconds, {"question": question}
    while httpx.post(f"{address}api/search", json=asked, timeout=seconds).json()["outcome"] == "maybe":
        assert time.monotonic() < end, "the answers are not encoded"
        time.sleep(0.5)


def wait_in(page: Page, is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    """As `wait_until`, while the page goes on: its requests pass through this thread, which watches them."""
    wait_until(is_so, seconds, pause=partial(page.wait_for_timeout, 50))
