"""The page as a user has it: `ap-ranker serve` in a process of its own, and a browser without a window."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from conftest import reconfigure
from forked import served
from playwright.sync_api import Browser, Page, Route, expect
from searches import NASTY, write_pipeline
from waiting import wait_until

from ap_ranker.cli.main import app
from ap_ranker.data.html_cells import as_cell
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements

from .browsing import ask, opened, wait_for_the_model

ADDRESS, SCRIPT = "https://manual.example/power?a=1&b=%3Cb%3E", "javascript:alert(4)"
TOPICS = ("parcel", "refund", "battery", "helmet")
ASSERTED = ("--score-threshold", "-1")  # whatever is found is an answer
PATTERNS = ("where is my {}", "the {} is gone", "help with a {}", "tell me of the {}", "a {} please")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toy data, and a checkpoint that has learnt it."""
    place = tmp_path_factory.mktemp("browser")
    rows = [f"{pattern.format(topic)},All about your {topic}.\n" for topic in TOPICS for pattern in PATTERNS]
    (place / "pairs.csv").write_text("question,answer\n" + "".join(rows))
    (place / "settings.yaml").write_text("model: ap-cnn\noptions: {filters: 16}\nembedding_size: 16\nepochs: 40\n")
    entries = [{"question": f"What of the {topic}?", "answer": f"All about your {topic}."} for topic in TOPICS]
    # Escaped, so that its tags are texts.
    entries.append({"question": as_cell(NASTY.question), "answer": as_cell(NASTY.answer)})
    entries[1] |= {"title": "Manual > <b>Money</b>", "file_path": "manual.pdf", "page_number": "3", "url": SCRIPT}
    entries[2] |= {"title": "Manual > <b>Power</b>", "URL": ADDRESS}
    (place / "faq.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    command = ["train", place / "pairs.csv", "--config", place / "settings.yaml", "--output", place / "ranker"]
    result = CliRunner().invoke(app, [*map(str, command), "--device", "cpu"])
    assert result.exit_code == 0, result.output
    reconfigure(place / "ranker", calibration={})  # so that what is found is shown, however toy scores are
    write_pipeline(place, place / "ranker")
    return place


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served("--documents", "faq.jsonl", "--pipeline", "search.yaml", *ASSERTED, folder=folder) as server:
        wait_for_the_model(server.address)
        yield server.address
    assert server.process.returncode in (0, 130, -signal.SIGINT)


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser, address, "en-GB") as page:
        yield page


def test_a_question_its_reasons_and_feedback(page: Page, folder: Path) -> None:
    ask(page, "help my battery is gone")
    first = page.locator("#answers article").first
    expect(first.locator(".stored")).to_have_text("What of the battery?")
    expect(first.locator(".text")).to_have_text("All about your battery.")
    expect(first.locator(".numbers")).to_be_hidden()  # of no use to customers
    first.get_by_role("button", name="Which words counted?").click()
    expect(first.locator(".reasons .map").first).to_have_text("help my battery is gone")
    expect(first.locator(".reasons .words").first).to_have_text(re.compile("Counted most: |All words counted about"))
    first.get_by_role("button", name="This answered it").click()
    expect(first.locator(".thanks")).to_have_text("Thank you.")
    (record,) = Judgements(open_database(folder / "faq.db")).records()
    kept = {name: record[name] for name in ("question", "answer", "label", "comment")}
    matched = "What of the battery?\nAll about your battery."
    assert kept == {"question": "help my battery is gone", "answer": matched, "label": 1, "comment": ""}


def test_no_good_answer(page: Page) -> None:
    ask(page, "zebra crossing")
    expect(page.get_by_role("status").first).to_have_text("We have no answer to that.")
    expect(page.locator("#answers article")).to_have_count(0)


def test_text_is_never_html(page: Page) -> None:
    ask(page, "bike <img src=x onerror=alert(3)>")
    first = page.locator("#answers article").first
    expect(first.locator(".stored")).to_have_text(NASTY.question)
    expect(first.locator(".text")).to_have_text(NASTY.answer)
    first.get_by_role("button", name="Which words counted?").click()
    expect(first.locator(".reasons .map").last).to_have_text(f"{NASTY.question} {NASTY.answer}")
    assert page.locator("main img, main script").count() == 0


def test_sources(page: Page) -> None:
    """An address is a link if it is one of the web; everything else is text."""
    ask(page, "help my battery is gone")
    link = page.locator("#answers article").first.locator(".source a")
    expect(link).to_have_text("Manual > <b>Power</b>")
    assert (link.get_attribute("href"), link.get_attribute("rel")) == (ADDRESS, "noopener noreferrer")
    ask(page, "where is my refund")
    first = page.locator("#answers article").first
    expect(first.locator(".path")).to_have_text("Manual › <b>Money</b>")
    expect(first.locator(".source")).to_have_text("manual.pdf, page 3")
    assert first.locator(".path a, .source a, .source b").count() == 0
    ask(page, "where is my parcel")
    first = page.locator("#answers article").first
    expect(first.locator(".stored")).to_have_text("What of the parcel?")
    expect(first.locator(".source")).to_be_hidden()


def test_keyboard(page: Page) -> None:
    expect(page.get_by_label("Your question")).to_be_focused()
    ask(page, "where is my parcel")
    cards = page.locator("#answers article")
    expect(cards.nth(1)).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(cards.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(cards.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(cards.nth(0).locator(".reasons")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Your question")).to_be_focused()


def test_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    ask(page, "where is my " + "parcel" * 60 + " battery")
    expect(page.locator("#answers article").first).to_be_visible()
    page.locator(".why").first.click()
    expect(page.locator(".reasons .map").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        ink, paper = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
        brightness = [sum(map(int, re.findall(r"\d+", colour))) for colour in (ink, paper)]
        assert (brightness[0] > brightness[1]) == (scheme == "dark")


ENGLISH, GERMAN, CHINESE, FRENCH, ARABIC = (
    ("en", "Your question", "Search", "Which words counted?"),
    ("de", "Ihre Frage", "Suchen", "Welche Wörter"),
    ("zh", "您的问题", "搜索", "哪些词起了作用？"),
    ("fr", "Votre question", "Rechercher", "Quels mots ont compté ?"),
    ("ar", "سؤالك", "بحث", "أي الكلمات أثّرت؟"),
)


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ("de-AT", GERMAN),
        ("zh-CN", CHINESE),
        ("fr-CA", FRENCH),
        ("ar-EG", ARABIC),
        ("sv-SE", ENGLISH),
    ],
)
def test_the_readers_language(browser: Browser, address: str, locale: str, expected: tuple[str, ...]) -> None:
    language, question, search, why = expected
    with opened(browser, address, locale) as page:
        expect(page.locator("html")).to_have_attribute("lang", language)
        expect(page.locator("html")).to_have_attribute("dir", "rtl" if language == "ar" else "ltr")
        page.get_by_label(question).fill("where is my battery")
        page.get_by_role("button", name=search).click()
        expect(page.locator("#answers article").first.get_by_role("button", name=why)).to_be_visible()


def test_keys_that_compose_a_chinese_word_do_not_leave_the_search_box(browser: Browser, address: str) -> None:
    with opened(browser, address, "zh-CN") as page:
        ask(page, "where is my battery")
        expect(page.locator("#answers article").first).to_be_visible()
        box = page.get_by_role("combobox")
        box.focus()
        page.evaluate(
            "document.activeElement.dispatchEvent("
            "new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true, isComposing: true}))"
        )
        expect(box).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(page.locator("#answers article").first).to_be_focused()


def test_in_german(browser: Browser, address: str) -> None:
    """From the first word to the last; what the FAQ and the user wrote stays as it is."""
    with opened(browser, address, "de-DE") as page:
        expect(page).to_have_title("Fragen und Antworten")
        ask(page, "zebra crossing")
        expect(page.get_by_role("status").first).to_contain_text("Darauf haben wir keine Antwort.")
        ask(page, "where is my refund")
        first = page.locator("#answers article").first
        expect(first.locator(".source")).to_contain_text("manual.pdf, Seite 3")
        expect(first.locator(".numbers")).to_have_text(re.compile(r"Bewertung 0,\d{3} · BM25-Rang 1"))
        expect(page.get_by_role("status").first).to_have_text(re.compile(r"\d Antworten"))
        first.get_by_role("button", name="Welche Wörter zählten?").click()
        expect(first.locator(".reasons h3").first).to_have_text("Frage")
        first.get_by_role("button", name="Das hilft nicht").click()
        expect(first.locator(".thanks")).to_have_text("Vielen Dank.")
        english = ("Search", "Your", "answer", "words", "score", "rank", "Question")
        shown = page.locator("body").inner_text()
        assert [word for word in english if word in shown.replace("All about your refund.", "")] == []


def test_refusals_in_german(browser: Browser, address: str) -> None:
    """As `Limits` refuses; 0 for a server that is gone."""
    messages = {
        429: "Zu viele Anfragen. Warten Sie einen Moment.",
        503: "Der Server kann gerade nicht antworten. Versuchen Sie es gleich noch einmal.",
        418: "Der Server hat die Anfrage abgelehnt (418).",
        0: "Der Server ist nicht erreichbar. Läuft er?",
    }
    status = 0

    def refuse(route: Route) -> None:
        if status:
            route.fulfill(status=status, json={"error": "Too many requests."})
        else:
            route.abort()

    with opened(browser, address, "de-DE", refused="/api/search") as page:
        page.route("**/api/search", refuse)
        for status, message in messages.items():
            ask(page, f"where is my refund {status}")
            expect(page.get_by_role("status").first).to_have_text(message)


def test_the_page_says_everything(page: Page) -> None:
    wait_until(lambda: page.evaluate("[...document.querySelectorAll('[data-text]')].every(e => e.textContent)"))
