"""Search page and widget for everybody: by keyboard alone, with a screen reader, narrow, enlarged, dark, right to left.

Each state is shown in each window; `faults` finds nothing there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from forked import served
from playwright.sync_api import Browser, Locator, Page, Route, expect
from searches import write_pipeline

from .accessibility import WINDOWS, announced, faults, listen
from .browsing import maybe, opened, wait_for_the_model
from .sites import Foreign, foreign_site

ENTRIES = [
    ("What does a bike cost?", "A bike costs **900 euros**: [prices](https://fjord.example/prices).", "Prices"),
    ("May a bike go back?", "A bike goes back within 30 days, with its papers, keys and all parts of it.", "Returns"),
    ("كم سعر bike؟", "سعر الدراجة bike هو 900 يورو.", "Prices"),
]
PAGE = """
introduction: Ask about **bikes**.
nothing_found: "Call us, or [write](https://fjord.example/contact)."
contact: help@fjord.example
sites: ['{site}']
"""
OPTIONS = ("--documents", "faq.jsonl", "--pipeline", "search.yaml", "--page", "page.yaml", "--rate", "0")


@pytest.fixture(scope="module")
def site() -> Iterator[Foreign]:
    with foreign_site() as site:
        yield site


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path, site: Foreign) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("everybody")
    rows = [{"question": question, "answer": answer, "topic": topic} for question, answer, topic in ENTRIES]
    (folder / "faq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "page.yaml").write_text(PAGE.format(site=site.address.rstrip("/")))
    write_pipeline(folder, checkpoint, top_k=20)
    with served(*OPTIONS, "--score-threshold", "-1", folder=folder) as server:
        wait_for_the_model(server.address)
        yield server.address


def ask(page: Page, question: str) -> None:
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")


def first_answer(page: Page) -> Locator:
    """The first card of the page, or the first entry of the widget."""
    return page.locator("#answers article, ap-ranker-search details").first


def show_start(page: Page) -> None:
    expect(page.locator("#question")).to_be_visible()


def show_answers(page: Page) -> None:
    ask(page, "bike cost")
    expect(first_answer(page).get_by_text("900").first).to_be_visible()


def show_maybes(page: Page) -> None:
    page.route("**/api/search", lambda route: route.fulfill(json=maybe(question="Rent?", html="<p>Rent a bike.</p>")))
    ask(page, "rent")
    first_answer(page).get_by_text("Rent?").click()
    expect(first_answer(page).get_by_text("Rent a bike.")).to_be_visible()


def show_nothing(page: Page) -> None:
    ask(page, "zebra")
    expect(page.get_by_text("zebra")).to_have_count(0)
    expect(page.locator(".contact:visible")).to_have_count(1)


def show_error(page: Page) -> None:
    def fail(route: Route) -> None:
        route.fulfill(status=503, json={"error": "busy"})

    page.route("**/api/search", fail)
    ask(page, "bike")
    expect(page.get_by_role("status").filter(has_text="503")).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="server")).to_be_visible()


def show_cut(page: Page) -> None:
    page.locator("#question").fill("bike " * 300)
    expect(page.get_by_text("Only the first 1,000 characters")).to_be_visible()


def show_after_it_did_not(page: Page) -> None:
    show_answers(page)
    first_answer(page).locator(".no").click()
    expect(first_answer(page).get_by_label("What were you looking for?")).to_be_visible()


def show_thanks_for_words(page: Page) -> None:
    show_after_it_did_not(page)
    first_answer(page).get_by_label("What were you looking for?").fill("the price of a child's bike")
    page.keyboard.press("Enter")
    expect(first_answer(page).get_by_text("Thank you for telling us.")).to_be_visible()


def show_reasons(page: Page) -> None:
    show_answers(page)
    first_answer(page).get_by_role("button", name="Which words counted?").click()
    expect(first_answer(page).locator(".map").first).to_be_visible()


def show_suggestions(page: Page) -> None:
    page.get_by_role("combobox").press_sequentially("what")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_be_visible()


def show_topic(page: Page) -> None:
    page.get_by_role("link", name="Prices (2)").click()
    expect(page.get_by_role("heading", name="Prices")).to_be_visible()


Show = Callable[[Page], None]
OF_BOTH: dict[str, Show] = {
    "start": show_start,
    "answers": show_answers,
    "maybes": show_maybes,
    "nothing found": show_nothing,
    "error": show_error,
    "a question that was cut": show_cut,
    "after it did not": show_after_it_did_not,
    "thanks for words": show_thanks_for_words,
}
OF_THE_PAGE = OF_BOTH | {"reasons": show_reasons, "suggestions": show_suggestions, "topic": show_topic}


def check_states(page: Page, states: dict[str, Show]) -> None:
    wrong = {}
    for name, show in states.items():
        page.unroute_all()
        page.goto(page.url.partition("?")[0])
        show(page)
        wrong[name] = faults(page)
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize("window", WINDOWS)
def test_the_page(browser: Browser, address: str, window: str) -> None:
    with opened(browser, address, "en", refused="/api/search", **WINDOWS[window]) as page:
        check_states(page, OF_THE_PAGE)


@pytest.mark.parametrize("window", WINDOWS)
def test_the_widget(browser: Browser, address: str, site: Foreign, window: str) -> None:
    style = "<style>:root { color-scheme: light dark; background: Canvas; color: CanvasText }</style>"
    site.body = f'{style}<script src="{address}widget.js" data-contact="help@fjord.example"></script>'
    with opened(browser, site.address, "en", others=[address], refused="/api/search", **WINDOWS[window]) as page:
        check_states(page, OF_BOTH)


def test_right_to_left(browser: Browser, address: str, site: Foreign) -> None:
    site.body = f'<script src="{address}widget.js" data-contact="help@fjord.example" data-lang="ar"></script>'
    for place in (address, site.address):
        with opened(browser, place, "ar", others=[address]) as page:
            ask(page, "bike")
            expect(first_answer(page)).to_be_visible()
            if not first_answer(page).locator(".no").is_visible():
                first_answer(page).locator("summary").first.click()
            first_answer(page).locator(".no").click()
            expect(first_answer(page).get_by_label("عمّ كنت تبحث؟")).to_be_visible()
            assert faults(page) == []


def test_results_are_announced_once(browser: Browser, address: str, site: Foreign) -> None:
    site.body = f'<script src="{address}widget.js"></script>'
    for place in (address, site.address):
        with opened(browser, place, "en", others=[address]) as page:
            page.locator("#question").wait_for()
            listen(page)
            ask(page, "bike cost")
            expect(first_answer(page)).to_be_visible()
            ask(page, "zebra")
            expect(first_answer(page)).to_have_count(0)
            expect(page.get_by_role("status").filter(has_text="no answer")).to_be_visible()
            searching = "Searching …"
            assert announced(page) == [searching, "3 answers", searching, "We have no answer to that."]


def test_the_focus_stays_where_the_answer_was_judged(browser: Browser, address: str, site: Foreign) -> None:
    """By keyboard: from the button on to the box, and from the box on to the other entries."""
    site.body = f'<script src="{address}widget.js"></script>'
    for place in (address, site.address):
        with opened(browser, place, "en", others=[address]) as page:
            show_answers(page)
            button = first_answer(page).locator(".no")
            button.focus()
            page.keyboard.press("Enter")
            box = first_answer(page).get_by_label("What were you looking for?")
            expect(box).to_be_visible()
            expect(button).to_be_focused()
            for _ in range(4):
                page.keyboard.press("Tab")
                if is_focused(box):
                    break
            page.keyboard.type("the price of a child's bike")
            page.keyboard.press("Enter")
            expect(first_answer(page).get_by_text("Thank you for telling us.")).to_be_visible()
            other = first_answer(page).locator(".otherwise button").first
            for _ in range(3):
                page.keyboard.press("Tab")
                if is_focused(other):
                    break
            expect(other).to_be_focused()
            page.keyboard.press("Enter")
            expect(page.locator("#answers article, ap-ranker-search summary").nth(1)).to_be_focused()


def is_focused(element: Locator) -> bool:
    focused: Any = element.evaluate("element => element.getRootNode().activeElement === element")
    return bool(focused)
