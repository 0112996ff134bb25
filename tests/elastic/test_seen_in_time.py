"""What an owner changes at one server is found at the other within two seconds, counted from the change itself."""

from __future__ import annotations

import os

import pytest
from busy import within
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from pathlib import Path

from playwright.sync_api import Browser
from web.conftest import browser, postgres  # noqa: F401  fixtures
from web.desk import logged_in

from elastic.conftest import Search
from elastic.engine import WHOLE, Engine
from elastic.test_site import (  # noqa: F401  also fixtures
    FAQ,
    NEW,
    Server,
    before_the_first_write,
    index,
    owned,
    place,
    the_other_after_a_change,
    two_servers,
)

SECONDS = 2.0
OTHER = ("Do you repair lawn mowers?", "No, bicycles only.")

pytestmark = pytest.mark.usefixtures("owned", "indexed")


@pytest.fixture
def indexed(search: Search, bi_encoder: Path) -> None:
    """The FAQ is in the index."""
    search.write_pipelines(bi_encoder)
    index(search)


def find(server: Server, entry: tuple[str, str] = NEW) -> None:
    """Wait until a visitor of a server finds an entry."""
    question, answer = entry
    wait_until(lambda: answer in server.answers(question))


def test_an_entry_that_is_saved_in_a_browser(
    search: Search,
    place: str,  # noqa: F811
    browser: Browser,  # noqa: F811
) -> None:
    with (
        two_servers(search, place) as (first, second),
        logged_in(browser, first.address, section="entries") as desk,
    ):
        assert NEW[1] not in second.answers(NEW[0])
        desk.get_by_role("button", name="New entry").click()
        desk.get_by_label("Question", exact=True).fill(NEW[0])
        desk.get_by_label("Answer", exact=True).fill(NEW[1])
        with within(SECONDS):
            desk.get_by_role("button", name="Save").click()
            find(second)


def test_a_wording_that_is_accepted(
    search: Search,
    place: str,  # noqa: F811
) -> None:
    with two_servers(search, place) as (first, second):
        sentence = "qwertz uiop please"

        def basis() -> str:
            reply: str = first.post("api/search", question=sentence)["basis"]
            return reply

        assert basis() != "known question"
        [entry] = second.desk("entries", words="battery")["entries"]
        change = {"entry": entry["key"], "version": entry["version"], "wordings": [sentence]}
        with within(SECONDS):
            second.desk("change", action="add wordings", **change)
            wait_until(lambda: basis() == "known question")


def test_the_writer_is_killed(
    search: Search,
    place: str,  # noqa: F811
) -> None:
    """It has the lock, and has written nothing: the other server writes in its place."""
    with two_servers(search, place) as servers:
        killed: list[Server] = []

        def kill(server: Server) -> None:
            killed.append(server)
            server.process.kill()
            raise ConnectionError

        for server in servers:
            assert NEW[1] not in server.answers(NEW[0])
        before_the_first_write(servers, killed, kill)
        with within(SECONDS):
            find(the_other_after_a_change(servers, killed))


@pytest.mark.skipif(WHOLE not in os.environ, reason="three nodes: run by `make cluster`")
def test_a_node_is_lost(
    search: Search,
    cluster: Engine,
    place: str,  # noqa: F811
) -> None:
    """A change of that moment is found, and one of later on within the two seconds."""
    with two_servers(search, place, cluster.urls) as (first, second):
        cluster.run("kill", 3)
        try:
            first.add(OTHER)
            find(second, OTHER)
            with within(SECONDS):
                first.add()
                find(second)
        finally:
            cluster.run("up", 3)
