"""The owner's page in a browser: sections, other entries for what did not help, what a wording changes, undoing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from conftest import TEXTS, write_faq
from forked import served
from playwright.sync_api import Browser, expect
from searches import write_pipeline

from ap_ranker.web.database import Database, open_database
from ap_ranker.web.judgements import Judgements

from .accessibility import WINDOWS, announced, faults, listen
from .browsing import ask, opened
from .desk import KEY, card, go, logged_in, save_preview
from .visiting import logged_questions

LONG = "my bicycle " + "makes a strange noise when it rains " * 12 + "why"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    write_faq(folder / "faq.csv")
    write_pipeline(folder, checkpoint)
    return folder


@pytest.fixture(scope="module")
def database(place: Path) -> Database:
    return open_database(place / "faq.db")


@pytest.fixture(scope="module")
def address(place: Path, database: Database) -> Iterator[str]:
    options = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--log-questions")
    with pytest.MonkeyPatch.context() as environment, ExitStack() as stack:
        environment.setenv("AP_RANKER_OWNER_KEY", KEY)
        server = stack.enter_context(served(*options, folder=place))
        with httpx.Client(base_url=server.address, timeout=60) as client:
            for question in (LONG, "parcel parcel battery"):
                client.post("/api/search", json={"question": question}).raise_for_status()
        wait_until(lambda: len(logged_questions(database)) == 2)
        yield server.address


def judge(database: Database, question: str, networks: int = 1, entry: int = 0, **fields: Any) -> None:
    texts = TEXTS[2 * entry : 2 * entry + 2]
    for number in range(networks):
        given = {"answer": "\n".join(texts), "stored_question": texts[0], "network": f"{question}{number}"} | fields
        Judgements(database).keep(question=question, **given)


def test_try(browser: Browser, address: str, database: Database) -> None:
    judge(database, "xylo okapi", networks=2, helped=False)
    judge(database, "my lovely parcel", networks=3, helped=True)
    with logged_in(browser, address, viewport={"width": 1000, "height": 900}) as page:
        for section in ("new", "unhelpful", "gaps", "wordings", "entries", "changes", "usage", "state"):
            go(page, section)
            page.wait_for_timeout(500)
            page.screenshot(path=f"/tmp/desk_{section}.png")
        go(page, "unhelpful")
        card(page, "unhelpful", "xylo okapi").get_by_role("button", name="Add to another entry").click()
        page.wait_for_timeout(1500)
        page.screenshot(path="/tmp/desk_chooser.png")
        page.locator("#chooser li button").first.click()
        page.wait_for_timeout(3000)
        page.screenshot(path="/tmp/desk_preview.png")
