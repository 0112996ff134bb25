"""What the page shows of what is no question, and of several questions in one; the API's replies are given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from forked import served
from playwright.sync_api import Browser, Page, Route, expect
from searches import write_pipeline

from .accessibility import axe_faults
from .browsing import ask, maybe, opened

CONTACT = "https://fjord.example/contact"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("typed")
    (folder / "faq.csv").write_text("question,answer\nWhere is my bike?,In the shed.\n")
    (folder / "page.yaml").write_text(f"contact: {CONTACT}?message={{question}}\n")
    write_pipeline(folder, checkpoint)
    options = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--page", "page.yaml", "--rate", "0")
    with served(*options, folder=folder) as server:
        yield server.address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser, address, "en-GB") as page:
        yield page


def reply_with(page: Page, **fields: Any) -> None:
    def answer(route: Route) -> None:
        route.fulfill(json={**maybe(question="Where is my bike?", html="<p>In the shed.</p>"), **fields})

    page.route("**/api/search", answer)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("person", "People do not answer in this search."),
        ("greeting", "Hello!"),
        ("thanks", "You are welcome."),
        ("insult", "We are sorry"),
        ("incomplete", "Please type a whole question."),
        ("question", "We have no answer to that."),
    ],
)
def test_a_sentence_and_the_contact(page: Page, kind: str, says: str) -> None:
    reply_with(page, outcome="none", kind=kind, answers=[])
    ask(page, "human please")
    expect(page.locator("#status")).to_contain_text(says)
    expect(page.locator("#nothing .contact")).to_have_attribute("href", f"{CONTACT}?message=human%20please")
    expect(page.locator("#answers article")).to_have_count(0)


def test_maybes_of_a_word_and_of_another_language(page: Page) -> None:
    reply_with(page, kind="word")
    ask(page, "bike")
    expect(page.locator("#status")).to_have_text("Which of these do you mean?")
    page.unroute("**/api/search")
    reply_with(page, kind="language", language="de")
    ask(page, "Where is my bike, please?")
    expect(page.locator("#status")).to_have_text("The questions and answers here are in German.")
    expect(page.locator("#answers .maybe")).to_have_count(1)


def test_each_question_has_its_answer(page: Page) -> None:
    one = maybe(question="Where is my bike?", html="<p>In the shed.</p>") | {"question": "Where is it?"}
    other = one | {"question": "What <b>else</b>?", "outcome": "answer", "answers": one["answers"] * 2}
    reply_with(page, kind="several", parts=[one, other])
    ask(page, "Where is it, and what else?")
    expect(page.locator("#status")).to_have_text("An answer to each of your questions")
    headings = page.locator("#answers .part h2")
    expect(headings).to_have_text(["Where is it?", "What <b>else</b>?"])  # as text
    expect(page.locator("#answers article")).to_have_count(2)
    expect(page.locator("#answers .maybe")).to_have_count(1)
    expect(page.locator("#nothing .contact")).to_be_visible()
    assert not axe_faults(page)
