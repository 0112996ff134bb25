"""The owner's page in a browser: from a gap to an entry that the search finds, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("hayhooks", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from conftest import TEXTS
from playwright.sync_api import Page, Route, expect
from search_server import served
from searches import write_pipeline

from ap_ranker.web.changes import read_changes

from .browsing import axe_faults, opened

KEY = "the-owner's-key-0123456789"
NASTY = "<img src=x onerror=alert(1)> rent a bike"
ASKED = ("do you rent bikes for a day", "Do you rent bikes for a day?", NASTY, "xyzzy")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    folder = tmp_path_factory.mktemp("owner")
    rows = zip(TEXTS[::2], TEXTS[1::2], strict=True)
    (folder / "faq.csv").write_text("question,answer\n" + "".join(f'"{q}","{a}"\n' for q, a in rows))
    write_pipeline(folder, checkpoint)
    return folder


@pytest.fixture(scope="module")
def address(place: Path) -> Iterator[str]:
    """A search that finds nothing good enough, so that each question is a gap."""
    options = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--score-threshold", "2", "--owner-key", KEY)
    with served(*options, "--log-questions", "questions.jsonl", folder=place) as server:
        with httpx.Client(base_url=server.address, timeout=60) as client:
            for question in ASKED:
                assert client.post("/api/search", json={"question": question}).status_code == 200
        end = time.monotonic() + 60
        while (place / "questions.jsonl").read_text().count("\n") < len(ASKED):
            assert time.monotonic() < end
            time.sleep(0.05)
        yield server.address


@contextmanager
def logged_in(browser_path: str, address: str, **options: Any) -> Iterator[Page]:
    """The page after logging in; that the form to do so has status 401, the browser says in the console."""
    with opened(browser_path, f"{address}owner", "en-GB", refused="/owner", **options) as page:
        page.get_by_label("The owner's key").fill(KEY)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="What users ask")).to_be_visible()
        yield page


def card(page: Page, section: str, text: str) -> Any:
    return page.locator(f"#{section} .list > li").filter(has_text=text)


def test_from_a_gap_to_an_answer_and_back(browser_path: str, address: str, place: Path) -> None:
    with logged_in(browser_path, address) as page:
        expect(page.locator("#gaps .list > li")).to_have_count(3)
        first = page.locator("#gaps .list > li").first
        expect(first.locator(".asked")).to_have_text("asked 2 times")
        expect(card(page, "gaps", NASTY)).to_have_count(1)  # as text
        expect(first.get_by_role("checkbox")).to_have_count(1)
        expect(first.get_by_label("Do you rent bikes for a day? asked 2 times")).to_be_checked()
        new = first.get_by_role("button", name="New entry")
        expect(new).to_have_class("write main")  # no probability says that the nearest entry is the answer
        first.get_by_role("checkbox").uncheck()
        expect(new).to_be_disabled()
        first.get_by_role("checkbox").check()
        new.click()
        expect(page.get_by_label("Question", exact=True)).to_have_value("Do you rent bikes for a day?")
        page.get_by_label("Answer", exact=True).fill("Yes, <b>for</b> 20 euros.")
        page.get_by_label("Other wordings, one per line").fill("bike rental\n\n day hire ")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_contain_text("Saved.")
        expect(card(page, "entries", "Yes, <b>for</b> 20 euros.")).to_contain_text("2 more wordings")
        expect(page.locator("#gaps .list > li")).to_have_count(2)
        (made,) = read_changes(place / "changes.jsonl")
        assert made.wordings == ("bike rental", "day hire")

        card(page, "gaps", NASTY).get_by_role("button", name="Add as wordings of the nearest entry").click()
        expect(card(page, "changes", "Added wordings to")).to_contain_text(NASTY)
        expect(page.locator("#gaps .list > li")).to_have_count(1)

        page.get_by_label("Find an entry").first.fill("20 euros")
        page.get_by_label("Find an entry").first.press("Enter")
        expect(page.locator("#entries .list > li")).to_have_count(1)
        card(page, "entries", "20 euros").get_by_role("button", name="Edit").click()
        page.get_by_label("Answer", exact=True).fill("Yes, for 25 euros.")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#editor")).to_be_hidden()
        page.get_by_label("Find an entry").first.fill("25 euros")
        page.get_by_label("Find an entry").first.press("Enter")
        card(page, "entries", "25 euros").get_by_role("button", name="Delete").click()
        expect(card(page, "changes", "Deleted entry")).to_have_count(1)
        expect(page.locator("#entries .list > li")).to_have_text("Nothing yet.")
        card(page, "changes", "Deleted entry").get_by_role("button", name="Undo").click()
        expect(card(page, "entries", "25 euros")).to_have_count(1)
        expect(card(page, "changes", "Deleted entry")).to_contain_text("undone")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("The owner's key")).to_be_visible()


def test_a_late_reply_changes_no_list(browser_path: str, address: str) -> None:
    """What an earlier letter asked for comes last; the focus stays where the owner moved it."""
    late: list[Route] = []

    def keep(route: Route) -> None:
        late.append(route)

    with logged_in(browser_path, address) as page:
        page.locator("#gaps .list > li").first.get_by_role("button", name="Add to another entry").click()
        dialog = page.locator("#chooser")
        expect(dialog.locator("li").nth(1)).to_be_visible()
        page.route("**/owner/api/entries", keep, times=len("batter"))
        page.keyboard.type("battery")
        expect(dialog.locator("li")).to_have_count(1)
        page.keyboard.press("Tab")
        chosen = dialog.get_by_role("button", name="Which battery fits my bike?")
        expect(chosen).to_be_focused()
        assert len(late) == len("batter")
        for route in late:
            with page.expect_response("**/owner/api/entries"):
                route.continue_()
        expect(dialog.locator("li")).to_have_count(1)
        expect(chosen).to_be_focused()


def test_by_keyboard_alone(browser_path: str, address: str) -> None:
    with logged_in(browser_path, address) as page:
        choose = card(page, "gaps", "xyzzy").get_by_role("button", name="Add to another entry")
        choose.focus()
        page.keyboard.press("Enter")
        dialog = page.locator("#chooser")
        expect(dialog).to_be_visible()
        expect(dialog.get_by_label("Find an entry")).to_be_focused()
        page.keyboard.type("battery")
        expect(dialog.locator("li")).to_have_count(1)
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(choose).to_be_focused()
        page.keyboard.press("Enter")
        expect(dialog.get_by_label("Find an entry")).to_be_focused()
        page.keyboard.type("battery")
        expect(dialog.locator("li")).to_have_count(1)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(card(page, "changes", "xyzzy")).to_have_count(1)
        expect(card(page, "gaps", "xyzzy")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser_path: str, address: str, scheme: str) -> None:
    with logged_in(browser_path, address, viewport={"width": 390, "height": 844}, color_scheme=scheme) as page:
        expect(page.locator("#entries .list > li").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert axe_faults(page) == []
        ink, paper = page.evaluate("(style => [style.color, style.backgroundColor])(getComputedStyle(document.body))")
        brightness = [sum(map(int, colour.strip("rgb()").split(",")[:3])) for colour in (ink, paper)]
        assert (brightness[0] < brightness[1]) == (scheme == "light")
        heights = page.locator("button:visible").evaluate_all("all => all.map((one) => one.offsetHeight)")
        assert min(heights) >= 24
        page.locator("#entries .list > li").first.get_by_role("button", name="Edit").click()
        editor = page.locator("#editor")
        expect(editor).to_be_visible()
        assert axe_faults(page) == []
        box = editor.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
