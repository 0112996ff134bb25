"""The owner's page in a browser: sections, other entries for what did not help, what a wording changes, undoing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from conftest import TEXTS
from forked import served
from playwright.sync_api import Browser, Page, expect

from ap_ranker.web.changes import read_changes
from ap_ranker.web.database import Database, open_database
from ap_ranker.web.judgements import Judgements

from .accessibility import WINDOWS, announced, axe_faults, faults, listen, width_faults
from .browsing import ask, opened, wait_in
from .desk import KEY, card, go, logged_in, save_preview
from .visiting import logged_questions

LONG = "my bicycle " + "makes a strange noise when it rains " * 12 + "why"


@pytest.fixture(scope="module")
def database(searched_folder: Path) -> Database:
    return open_database(searched_folder / "faq.db")


@pytest.fixture(scope="module")
def address(searched_folder: Path, database: Database) -> Iterator[str]:
    options = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--log-questions")
    with pytest.MonkeyPatch.context() as environment, ExitStack() as stack:
        environment.setenv("AP_RANKER_OWNER_KEY", KEY)
        server = stack.enter_context(served(*options, folder=searched_folder))
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


def faults_in_window(page: Page) -> list[tuple[str, ...]]:
    """As `faults`, while a window is open: the keyboard's way around the page below is closed then."""
    return [*axe_faults(page), *width_faults(page)]


def test_sections_have_addresses(browser: Browser, address: str) -> None:
    """One is shown; its link, its address and the browser's "Back" lead there, and readers hear which it is."""
    with logged_in(browser, address) as page:
        assert page.evaluate("document.documentElement.scrollHeight") < 2500
        for section, heading in (("gaps", "What the FAQ lacks"), ("state", "The search")):
            go(page, section)
            assert page.url.endswith(f"/owner#{section}")
            expect(page.get_by_role("heading", name=heading)).to_be_focused()
            expect(page.locator("main > section:visible")).to_have_count(1)
            expect(page.locator("#sections a[aria-current=page]")).to_have_attribute("href", f"#{section}")
            expect(page).to_have_title(f"{heading} – What users ask")
        page.go_back()
        expect(page.locator("#gaps")).to_be_visible()
        expect(page.locator("#state")).to_be_hidden()
        page.goto(f"{address}owner#usage")
        page.reload()
        expect(page.locator("#usage")).to_be_visible()
        page.goto(f"{address}owner#nothing")
        expect(page.locator("#new")).to_be_visible()


def test_what_did_not_help_a_visitor_gets_another_entry(browser: Browser, address: str, database: Database) -> None:
    """A visitor and the owner at once: the entry that did not help is not to be had, and nothing is saved untold."""
    question = "okapi parcel money"
    with opened(browser, address, "en-GB") as visitor, logged_in(browser, address, section="unhelpful") as page:
        ask(visitor, question)
        visitor.locator(".maybe > summary").first.click()
        refused = visitor.locator("h2.stored").first.text_content() or ""
        visitor.get_by_role("button", name="It did not").first.click()
        wait_in(visitor, lambda: question in [votes.question for votes in Judgements(database).votes()])
        page.reload()
        row = card(page, "unhelpful", question)
        expect(row).to_contain_text(refused)
        expect(row.get_by_role("button", name="Add as a wording of this entry")).to_be_hidden()
        assert row.get_by_role("button").first.inner_text() == "Add to another entry"

        row.get_by_role("button", name="Add to another entry").click()
        chooser = page.locator("#chooser")
        expect(chooser.locator("li").first).to_be_visible()
        assert refused not in chooser.locator("li").all_inner_texts()
        chooser.get_by_label("Find an entry").fill(refused)
        expect(chooser.locator(".none")).to_be_visible()
        expect(chooser.locator("li")).to_have_count(0)
        chooser.get_by_label("Find an entry").fill("")
        other = chooser.locator("li").first.inner_text()
        chooser.locator("li button").first.click()

        preview = page.locator("#preview")
        tried = preview.locator(".tried li").first
        expect(tried).to_contain_text(question)
        expect(tried).to_contain_text(f"now a maybe: {refused}; then an answer: {other}")
        preview.get_by_role("button", name="Cancel").click()
        assert read_changes(database) == []
        row.get_by_role("button", name="Add to another entry").click()
        chooser.locator("li button").first.click()
        save_preview(page)
        expect(page.get_by_role("status")).to_contain_text("Saved.")
        expect(row).to_have_count(0)
        (made,) = read_changes(database)
        assert (made.of, made.wordings) == (other, (question,))

        def first_answer() -> str | None:
            visitor.goto(f"{address}?q={question.replace(' ', '+')}")
            return visitor.locator("h2.stored").first.text_content()

        wait_until(lambda: first_answer() == other)
        page.locator("#undo").click()
        expect(page.get_by_role("status")).to_have_text("Undone.")
        expect(card(page, "unhelpful", question)).to_have_count(1)


def test_a_page_that_is_stale_saves_nothing(browser: Browser, address: str, database: Database) -> None:
    """Another owner deletes the entry while a preview is open."""
    judge(database, "stale parcel", helped=True)
    headers = {"Authorization": f"Bearer {KEY}"}
    with (
        logged_in(browser, address, section="wordings") as page,
        httpx.Client(base_url=f"{address}owner/api/", headers=headers, timeout=60) as other,
    ):
        card(page, "wordings", "stale parcel").get_by_role("button", name="Add as a wording of this entry").click()
        expect(page.locator("#preview .tried li").first).to_be_visible()
        [entry] = other.post("entries", json={"words": TEXTS[0]}).json()["entries"]
        named = {"entry": entry["key"], "version": entry["version"]}
        deleted = other.post("change", json={"action": "delete entry", **named}).json()
        before = read_changes(database)
        page.locator("#preview").get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert").filter(has_text="is not in the FAQ any more")).to_be_visible()
        assert read_changes(database) == before
        assert faults_in_window(page) == []
        other.post("undo", json={"change": deleted["id"]}).raise_for_status()


def test_several_are_rejected_at_once_and_come_back(browser: Browser, address: str, database: Database) -> None:
    for sentence in ("reject me", "and me", "not me"):
        judge(database, sentence, helped=True)
    with logged_in(browser, address, section="wordings") as page:
        several = page.locator("#wordings .several")
        reject = several.get_by_role("button", name="Ticked ones: no wording")
        expect(reject).to_be_disabled()
        for sentence in ("reject me", "and me"):
            page.get_by_role("checkbox", name=sentence).check()
        reject.click()
        expect(page.get_by_role("status")).to_have_text("2 sentences are no wordings.")
        expect(card(page, "wordings", "not me")).to_have_count(1)
        expect(card(page, "wordings", "reject me")).to_have_count(0)
        expect(page.get_by_role("heading", name="Wordings")).to_be_focused()
        page.get_by_role("button", name="Undo").first.click()
        expect(card(page, "wordings", "reject me")).to_have_count(1)
        expect(card(page, "wordings", "and me")).to_have_count(1)
        several.get_by_label("Tick all").check()
        expect(page.locator("#wordings .tick:not(:checked)")).to_have_count(0)


def test_what_is_not_for_the_faq_leaves_every_list(browser: Browser, address: str, database: Database) -> None:
    """A question of a visitor from New questions, another from the gaps, two together from Did not help."""
    sentences = ("who won the football match", "tell me a joke about okapis", "is god real", "what shall I cook")
    with httpx.Client(base_url=address, timeout=60) as client:
        for question in sentences[:2]:
            client.post("/api/search", json={"question": question}).raise_for_status()
    for question in sentences[2:]:
        judge(database, question, helped=False)
    wait_until(lambda: set(sentences[:2]) <= {row.question for row in logged_questions(database)})

    def gone(page: Page, question: str) -> None:
        for section in ("new", "unhelpful", "gaps"):
            go(page, section)
            expect(card(page, section, question)).to_have_count(0)

    with logged_in(browser, address, section="new") as page:
        card(page, "new", sentences[0]).get_by_role("button", name="Not for the FAQ").click()
        expect(page.get_by_role("status")).to_have_text("One question is not for the FAQ.")
        gone(page, sentences[0])
        expect(page.locator("#gaps .grouping")).to_have_text("")
        row = card(page, "gaps", sentences[1])
        row.get_by_role("button", name="Not for the FAQ").click()
        gone(page, sentences[1])
        go(page, "unhelpful")
        for question in sentences[2:]:
            page.get_by_role("checkbox", name=question).check()
        page.get_by_role("button", name="Ticked ones: not for the FAQ").click()
        expect(page.get_by_role("status")).to_have_text("2 questions are not for the FAQ.")
        gone(page, sentences[2])
        page.locator("#undo").click()
        expect(page.get_by_role("status")).to_have_text("Undone.")
        go(page, "unhelpful")
        expect(card(page, "unhelpful", sentences[2])).to_have_count(1)
        go(page, "changes")
        made = card(page, "changes", sentences[0])
        expect(made).to_contain_text("Not for the FAQ")
        made.get_by_role("button", name="Undo").click()
        expect(made).to_have_count(0)
        go(page, "new")
        expect(card(page, "new", sentences[0])).to_have_count(1)


def test_an_entry_that_visitors_pressed_wrongly_is_right(browser: Browser, address: str, database: Database) -> None:
    question = "quokka parcel at the door"
    judge(database, question, helped=False)
    with logged_in(browser, address, section="unhelpful") as page:
        row = card(page, "unhelpful", question)
        expect(row).to_contain_text("1 × did not help, from 1 network: ")
        row.get_by_role("button", name="This entry is right").click()
        expect(page.locator("#preview .into")).to_have_text(f"New wording of: {TEXTS[0]}")
        save_preview(page)
        expect(page.get_by_role("status")).to_contain_text("Saved.")
        expect(row).to_have_count(0)
        assert [(made.of, made.wordings) for made in read_changes(database)][-1:] == [(TEXTS[0], (question,))]
        go(page, "entries")
        page.get_by_role("button", name="New entry").click()
        expect(page.get_by_role("status")).to_have_text("")  # "Saved" was of another step
        expect(page.locator("#undo")).to_be_hidden()
        page.keyboard.press("Escape")
        go(page, "new")
        card(page, "new", "parcel parcel battery").get_by_role("button", name="New entry").click()
        expect(page.get_by_label("Question", exact=True)).to_have_value("Parcel parcel battery")
        page.keyboard.press("Escape")
        go(page, "changes")
        card(page, "changes", question).get_by_role("button", name="Undo").click()
        go(page, "unhelpful")
        expect(row).to_have_count(1)


def test_what_is_deleted_can_be_kept_for_some_seconds(browser: Browser, address: str, database: Database) -> None:
    judge(database, "delete me not", helped=False)
    judge(database, "delete me", helped=False)

    def kept() -> set[str]:
        return {votes.question for votes in Judgements(database).votes()} & {"delete me not", "delete me"}

    with logged_in(browser, address, section="unhelpful") as page:
        row = card(page, "unhelpful", "delete me not")
        row.get_by_role("button", name="Delete").click()
        expect(row).to_be_hidden()
        expect(page.get_by_role("status")).to_have_text("It is deleted for good in 8 seconds.")
        expect(page.locator("#undo")).to_be_focused()
        page.keyboard.press("Enter")
        expect(row).to_be_visible()
        only = page.locator("#unhelpful .list > li").filter(has=page.get_by_text("delete me", exact=True))
        only.get_by_role("button", name="Delete").click()
        page.wait_for_timeout(500)
        assert kept() == {"delete me not", "delete me"}
        page.reload()  # whoever leaves has not undone it
        wait_in(page, lambda: kept() == {"delete me not"})


def test_what_is_new_since_the_last_visit(browser: Browser, address: str, database: Database) -> None:
    context = browser.new_context(locale="en-GB")
    headers = {"Authorization": f"Bearer {KEY}"}
    context.set_extra_http_headers(headers)
    try:
        page = context.new_page()
        page.goto(f"{address}owner")
        expect(page.locator("#happened")).to_contain_text("In the last four weeks")
        page.close()
        page = context.new_page()
        page.goto(f"{address}owner")
        expect(page.locator("#happened")).to_contain_text("In the last four weeks")  # the visit is the same
        page.close()
        judge(database, "a new complaint", networks=7, helped=False)
        page = context.new_page()
        page.clock.set_fixed_time(datetime.now() + timedelta(minutes=61))
        page.goto(f"{address}owner")
        expect(page.locator("#happened")).to_contain_text("Since your last visit, ")
        expect(page.locator("#happened")).to_contain_text("7 × “did not help”")
        for minutes in (90, 119):  # of one visit, each less than an hour after the one before
            page.clock.set_fixed_time(datetime.now() + timedelta(minutes=minutes))
            page.reload()
            expect(page.locator("#happened")).to_contain_text("7 × “did not help”")
        expect(page.locator("#next")).to_contain_text("Most useful now: Did not help – “a new complaint” comes first.")
        page.locator("#next a").click()
        expect(card(page, "unhelpful", "a new complaint")).to_be_visible()
    finally:
        context.close()


@pytest.mark.parametrize(
    ("locale", "date"), [("en-GB", r"\d+ \w+ \d{4}"), ("en-US", r"\w+ \d+, \d{4}"), ("fr-FR", r"\d+ \S+ \d{4}")]
)
def test_dates_are_those_of_the_browser(browser: Browser, address: str, locale: str, date: str) -> None:
    with logged_in(browser, address, locale=locale, section="state") as page:
        expect(page.locator("#served")).to_have_text(re.compile(rf"since {date}"))


def test_long_questions_are_folded(browser: Browser, address: str) -> None:
    with logged_in(browser, address) as page:
        question = card(page, "new", "my bicycle").locator(".question")
        expect(question).not_to_contain_text("why")
        button = question.get_by_role("button", name="Show all of it")
        expect(button).to_have_attribute("aria-expanded", "false")
        button.focus()
        page.keyboard.press("Enter")
        expect(question).to_contain_text(LONG)
        expect(question.get_by_role("button", name="Show less")).to_have_attribute("aria-expanded", "true")


def test_the_weeks_are_plotted_and_written(browser: Browser, address: str, database: Database) -> None:
    judge(database, LONG, networks=3, helped=True)
    with logged_in(browser, address, section="state") as page:
        plot = page.get_by_role("img", name="Share of judged answers that helped")
        expect(plot).to_be_visible()
        expect(plot.locator("circle.answered")).to_have_count(1)
        page.get_by_text("The same as a table").click()
        expect(page.locator("#weekly tbody tr")).to_have_count(12)
        expect(page.locator("#weekly tbody tr").first).to_have_text(re.compile(r"\d+% \(\d+/\d+\)$"))
        expect(page.locator("#promise")).to_contain_text("No share of right answers is promised.")


SECTIONS = ("new", "unhelpful", "gaps", "wordings", "comments", "entries", "changes", "usage", "state")


@pytest.mark.parametrize("window", WINDOWS)
def test_everybody_can_use_the_desk(browser: Browser, address: str, database: Database, window: str) -> None:
    """By keyboard, with a screen reader, in the dark, narrow, enlarged: the form, each section, open windows."""
    judge(database, "for everybody", helped=True, comment="thank you")
    judge(database, "for nobody", helped=False)
    options = WINDOWS[window]
    with opened(browser, f"{address}owner", "en-GB", refused="/owner", **options) as page:
        expect(page.locator("#key")).to_be_visible()
        assert faults(page) == []
    with logged_in(browser, address, **options) as page:
        for section in SECTIONS:
            go(page, section)
            page.locator("#sections a").first.focus()  # a field for a date would be several stops at first
            assert faults(page) == [], section
        go(page, "unhelpful")
        card(page, "unhelpful", "for nobody").get_by_role("button", name="Add to another entry").click()
        expect(page.locator("#chooser li").first).to_be_visible()
        assert faults_in_window(page) == [], "chooser"
        page.locator("#chooser li button").first.click()
        expect(page.locator("#preview .tried li").first).to_be_visible()
        assert faults_in_window(page) == [], "preview"
        page.keyboard.press("Escape")
        card(page, "unhelpful", "for nobody").get_by_role("button", name="New entry").click()
        expect(page.locator("#editor")).to_be_visible()
        assert faults_in_window(page) == [], "editor"
        page.keyboard.press("Escape")
        listen(page)
        card(page, "unhelpful", "for nobody").get_by_role("button", name="Not for the FAQ").click()
        expect(page.get_by_role("status")).to_have_text("One question is not for the FAQ.")
        assert announced(page).count("One question is not for the FAQ.") == 1
        assert faults(page) == [], "status"
        page.locator("#undo").click()
        expect(page.get_by_role("status")).to_have_text("Undone.")
