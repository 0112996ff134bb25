"""The owner's page in a browser: from a gap to an entry that the search finds, and back."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from conftest import TEXTS
from forked import served
from playwright.sync_api import APIResponse, Browser, Route, expect

from ap_ranker.web.changes import read_changes
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements

from .accessibility import axe_faults
from .browsing import opened
from .bytes_on_disk import bytes_of
from .desk import KEY, card, go, logged_in, save_preview
from .visiting import logged_questions

NASTY = "<img src=x onerror=alert(1)> rent a bike"
SENTENCE = "<b>my</b> parcel, order 4711 \u202e<script>alert(2)</script>"
ASKED = ("do you rent bikes for a day", "Do you rent bikes for a day?", NASTY, "xyzzy")


COLOURS = """[...document.querySelectorAll("button.main")].map((button) => getComputedStyle(button))
    .map((style) => [style.color, style.backgroundColor, style.fontFamily])[0]"""
"""Of the page's main button: of its text and of itself, and its font."""


@pytest.fixture(scope="module")
def address(searched_folder: Path) -> Iterator[str]:
    """A search that asserts nothing, so that each question is a gap."""
    options = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--score-threshold", "2", "--log-questions")
    with pytest.MonkeyPatch.context() as environment, ExitStack() as stack:
        environment.setenv("AP_RANKER_OWNER_KEY", KEY)
        server = stack.enter_context(served(*options, folder=searched_folder))
        database = open_database(searched_folder / "faq.db")
        with httpx.Client(base_url=server.address, timeout=60) as client:

            def outcome(question: str) -> str:
                found: str = client.post("/api/search", json={"question": question}).json()["outcome"]
                return found

            assert {outcome(question) for question in ASKED} == {"maybe", "none"}
        wait_until(lambda: {*ASKED} <= {logged.question for logged in logged_questions(database)})
        for question, networks in {SENTENCE: 2, "the hotline is 0900 1234": 1}.items():
            for number in range(networks):
                given = {"answer": f"{TEXTS[0]}\n{TEXTS[1]}", "stored_question": TEXTS[0], "network": f"n{number}"}
                Judgements(database).keep(**given, question=question, helped=True)
        yield server.address


def test_from_a_gap_to_an_answer_and_back(browser: Browser, address: str, searched_folder: Path) -> None:
    with logged_in(browser, address, section="gaps") as page:
        expect(page.locator("#gaps .list > li")).to_have_count(3)
        first = page.locator("#gaps .list > li").first
        expect(first.locator(".asked")).to_have_text("asked 2 times")
        expect(card(page, "gaps", NASTY)).to_have_count(1)  # as text
        expect(first.get_by_role("checkbox")).to_have_count(1)
        expect(first.get_by_label(f"{ASKED[0]} asked 2 times")).to_be_checked()
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
        expect(page.locator("#gaps .list > li")).to_have_count(2)
        go(page, "entries")
        expect(card(page, "entries", "Yes, <b>for</b> 20 euros.")).to_contain_text("2 more wordings")
        (made,) = read_changes(open_database(searched_folder / "faq.db"))
        assert made.wordings == ("bike rental", "day hire")

        go(page, "gaps")
        card(page, "gaps", NASTY).get_by_role("button", name="Add as wordings of the nearest entry").click()
        save_preview(page)
        expect(page.locator("#gaps .list > li")).to_have_count(1)
        go(page, "changes")
        expect(card(page, "changes", "Added wordings")).to_contain_text(NASTY)

        go(page, "entries")
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
        expect(page.locator("#entries .list > li")).to_have_text("Nothing yet.")
        go(page, "changes")
        card(page, "changes", "Deleted entry").get_by_role("button", name="Undo").click()
        expect(card(page, "entries", "25 euros")).to_have_count(1)
        expect(card(page, "changes", "Deleted entry")).to_contain_text("undone")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("The owner's key")).to_be_visible()


def test_a_visitors_sentence_is_read_before_it_is_accepted(browser: Browser, address: str) -> None:
    with logged_in(browser, address, "Änne", section="wordings") as page:
        expect(page.locator("#wordings .list > li")).to_have_count(2)
        first = page.locator("#wordings .list > li").first
        expect(first.locator(".question")).to_have_text("<b>my</b> parcel, order 4711 <script>alert(2)</script>")
        expect(first).to_contain_text(TEXTS[0])
        expect(first).to_contain_text("from 2 networks")
        assert page.locator("#wordings b, #wordings script").count() == 0
        first.get_by_role("button", name="Add as a wording of this entry").click()
        assert page.locator("#preview b, #preview script").count() == 0
        save_preview(page)
        expect(page.locator("#wordings .list > li")).to_have_count(1)
        card(page, "wordings", "hotline").get_by_role("button", name="No wording").click()
        expect(page.locator("#wordings .list > li")).to_have_text("Nothing yet.")
        go(page, "changes")
        expect(card(page, "changes", "hotline")).to_contain_text("Not made a wording")
        made = card(page, "changes", "order 4711")
        expect(made).to_contain_text("Änne")
        made.get_by_role("button", name="Undo").click()
        expect(card(page, "wordings", "order 4711")).to_have_count(1)
        expect(card(page, "wordings", "hotline")).to_have_count(0)


def test_a_sentence_beside_an_answer_is_deleted_by_one_click(
    browser: Browser, address: str, searched_folder: Path
) -> None:
    judged = {"answer": f"{TEXTS[0]}\n{TEXTS[1]}", "stored_question": TEXTS[0], "helped": False}
    database = open_database(searched_folder / "faq.db")
    for number, comment in enumerate(("too long ago", NASTY, "I am Erika Mustermann")):
        Judgements(database).keep(question="to judge", network=f"c{number}", comment=comment, **judged)
    with logged_in(browser, address, section="comments") as page:
        expect(page.locator("#comments .list > li")).to_have_count(3)
        expect(card(page, "comments", NASTY)).to_have_count(1)  # as text
        first = page.locator("#comments .list > li").first
        expect(first).to_contain_text("I am Erika Mustermann")
        expect(first).to_contain_text(f"Did not help, for the question “to judge”: {TEXTS[0]}")
        assert axe_faults(page) == []
        first.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("status")).to_have_text("Deleted, also from the database's files.")
        expect(page.locator("#comments .list > li")).to_have_count(2)
        assert b"Mustermann" not in bytes_of(str(searched_folder / "faq.db"))
        expect(page.locator("#kept")).not_to_contain_text("What was deleted is still")

        go(page, "unhelpful")
        card(page, "unhelpful", "to judge").get_by_role("button", name="Delete").click()
        expect(card(page, "unhelpful", "to judge")).to_have_count(0)
        expect(page.locator("#comments .list > li")).to_have_text("Nothing yet.")


@pytest.mark.parametrize(
    ("scheme", "locale", "key", "name", "title"),
    [
        ("light", "de-AT", "Schlüssel des Betreibers", "Ihr Name", "Was gefragt wird"),
        ("dark", "en-GB", "The owner's key", "Your name", "What users ask"),
    ],
)
def test_the_first_screen(
    browser: Browser, address: str, scheme: Any, locale: str, key: str, name: str, title: str
) -> None:
    """In the browser's language, as the page is; also after a wrong key, by keyboard, on a phone."""
    size = {"width": 390, "height": 844}
    options = {"viewport": size, "color_scheme": scheme, "refused": "/owner"}
    with opened(browser, f"{address}owner", locale, **options) as page:
        expect(page.get_by_label(key)).to_be_focused()
        assert axe_faults(page) == []
        accents = page.evaluate(COLOURS)
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_be_visible()
        assert axe_faults(page) == []
        assert page.evaluate(COLOURS) == accents, "it is styled there, too"
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        page.keyboard.type(KEY)
        page.keyboard.press("Tab")
        expect(page.get_by_label(name)).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        assert page.evaluate("document.documentElement.lang") == locale[:2]
        page.wait_for_load_state("networkidle")
        page.goto(address)
        assert page.evaluate(COLOURS) == accents, "of the search page"
        page.wait_for_load_state("networkidle")


def test_without_encryption_from_another_machine(browser: Browser, searched_folder: Path) -> None:
    """As in a trial in the office: a browser tells less of a form's page there than of one of this machine."""
    own = own_address()
    if own is None:
        pytest.skip("this machine has no address but its own")
    options = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--host", "0.0.0.0", "--database", "other.db")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AP_RANKER_OWNER_KEY", KEY)
        with served(*options, folder=searched_folder) as server:
            address = f"http://{own}:{urlsplit(server.address).port}/"
            with logged_in(browser, address, section="entries") as page:
                page.get_by_role("button", name="Log out").click()
                expect(page.get_by_label("The owner's key")).to_be_visible()


def own_address() -> str | None:
    """The address by which other machines reach this one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = str(asked.getsockname()[0])
    return None if address.startswith("127.") else address


def test_a_late_reply_changes_no_list(browser: Browser, address: str) -> None:
    """What was asked for earlier comes last; the focus stays where the owner moved it."""
    late: list[Route] = []

    def keep(route: Route) -> None:
        if json.loads(route.request.post_data or "")["words"] == "battery":
            route.continue_()
        else:
            late.append(route)

    with logged_in(browser, address, section="gaps") as page:
        page.locator("#gaps .list > li").first.get_by_role("button", name="Add to another entry").click()
        dialog = page.locator("#chooser")
        expect(dialog.locator("li").nth(1)).to_be_visible()
        page.route("**/owner/api/entries", keep)
        for earlier in ("bat", "te"):
            with page.expect_request("**/owner/api/entries"):
                page.keyboard.type(earlier)
        page.keyboard.type("ry")
        expect(dialog.locator("li")).to_have_count(1)
        page.keyboard.press("Tab")
        chosen = dialog.get_by_role("button", name="Which battery fits my bike?")
        expect(chosen).to_be_focused()
        assert len(late) == 2
        for route in late:
            with page.expect_response("**/owner/api/entries"):
                route.continue_()
        expect(dialog.locator("li")).to_have_count(1)
        expect(chosen).to_be_focused()


def test_a_request_too_many_is_sent_again(browser: Browser, address: str) -> None:
    """Each of an owner's steps shows a dozen lists anew; those of a quick owner may be more than the server takes."""
    refused: set[str] = set()

    def refuse_once(route: Route) -> None:
        if route.request.url in refused:
            route.continue_()
        else:
            refused.add(route.request.url)
            route.fulfill(status=429, json={"error": "Too many requests"})

    with logged_in(browser, address, section="gaps") as page:
        page.route("**/owner/api/*", refuse_once)
        page.reload()
        expect(card(page, "gaps", "xyzzy")).to_have_count(1)
        expect(page.get_by_role("status")).to_have_text("")
        assert len(refused) >= 10


def test_lists_of_an_earlier_step_replace_none_of_a_later(browser: Browser, address: str) -> None:
    earlier: list[tuple[Route, APIResponse]] = []
    with logged_in(browser, address, section="wordings") as page:
        sentence = card(page, "wordings", "order 4711")
        expect(sentence).to_have_count(1)
        page.route("**/owner/api/feedback", lambda route: earlier.append((route, route.fetch())), times=1)
        sentence.get_by_role("button", name="No wording").click()
        go(page, "changes")
        with page.expect_response("**/owner/api/undo_rejection"):
            card(page, "changes", "order 4711").filter(has_text="Not made").get_by_role("button", name="Undo").click()
        ((route, reply),) = earlier
        assert "order 4711" not in reply.text()
        page.wait_for_timeout(500)  # in which a later list would be shown
        route.fulfill(response=reply)
        go(page, "wordings")
        expect(sentence).to_have_count(1)
        page.wait_for_load_state("networkidle")
        expect(sentence).to_have_count(1)


@pytest.mark.parametrize(("section", "box"), [("entries", "#words"), ("gaps", "#wanted")])
def test_a_quick_typist_is_not_refused(browser: Browser, address: str, section: str, box: str) -> None:
    """The server takes twenty requests a second of an owner; letters that follow each other at once are one."""
    with logged_in(browser, address, section=section) as page:
        if section == "gaps":
            page.locator("#gaps .list > li").first.get_by_role("button", name="Add to another entry").click()
        page.wait_for_load_state("networkidle")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for _ in range(3):
            page.locator(box).press_sequentially("battery fits my bike?")
            page.locator(box).press("Control+a")
        page.locator(box).press_sequentially("battery")
        items = page.locator("#chooser li" if section == "gaps" else "#entries .list > li")
        expect(items).to_have_count(1)
        expect(items).to_contain_text("battery")
        assert len(asked) <= 20


def test_by_keyboard_alone(browser: Browser, address: str) -> None:
    with logged_in(browser, address, section="gaps") as page:
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
        preview = page.locator("#preview")
        expect(preview.locator(".tried li").first).to_be_visible()
        expect(preview.get_by_role("heading")).to_be_focused()
        page.keyboard.press("Tab")
        expect(preview.get_by_role("button", name="Save")).to_be_focused()
        page.keyboard.press("Enter")
        expect(card(page, "gaps", "xyzzy")).to_have_count(0)
        expect(card(page, "changes", "xyzzy")).to_have_count(1)


def test_on_a_phone(browser: Browser, address: str) -> None:
    with logged_in(browser, address, section="entries", viewport={"width": 390, "height": 844}) as page:
        expect(page.locator("#entries .list > li").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert axe_faults(page) == []
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            script = "(style => [style.color, style.backgroundColor])(getComputedStyle(document.body))"
            brightness = [sum(map(int, colour.strip("rgb()").split(",")[:3])) for colour in page.evaluate(script)]
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


def test_days_of_the_owners_choice(browser: Browser, address: str) -> None:
    with logged_in(browser, address, section="usage") as page:
        numbers = page.locator("#counts dd")
        expect(numbers.first).to_have_text(str(len(ASKED)))
        top = page.get_by_role("table", name="Asked most")
        expect(top.get_by_role("row").nth(1)).to_contain_text("2")
        expect(top).to_contain_text(NASTY)  # as text
        expect(page.locator("#kept")).to_contain_text("365 days")
        with page.expect_download() as download:
            page.get_by_role("link", name="All questions as CSV").click()
        text = Path(download.value.path()).read_text(encoding="utf-8-sig")
        assert text.startswith("question,asked,before,")
        assert NASTY in text

        page.get_by_label("First day").fill("1999-12-25")
        page.get_by_label("Last day").fill("1999-12-31")
        page.get_by_role("button", name="Show").click()
        expect(numbers.first).to_have_text("0")
        expect(top).to_be_hidden()
        page.get_by_label("Last day").fill("1999-12-01")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("1999-12-25 and 1999-12-01")
        page.get_by_role("button", name="30 days").click()
        expect(numbers.first).to_have_text(str(len(ASKED)))
        expect(page.get_by_role("status")).to_be_empty()
        assert axe_faults(page) == []


def test_pages_of_entries_by_keyboard(browser: Browser, address: str) -> None:
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client:
        for number in range(30):
            body = {"action": "add entry", "question": f"Walrus {number}?", "answer": "In the pool. " * 40}
            assert client.post("/owner/api/change", json=body).status_code == 200
    with logged_in(browser, address, section="entries") as page:
        page.get_by_label("Find an entry").first.fill("walrus")
        entries, shown = page.locator("#entries .list > li"), page.locator("#shown")
        expect(shown).to_have_text("1–12 of 30 entries")
        following = page.get_by_role("button", name="Next entries")
        expect(page.get_by_role("button", name="Previous entries")).to_be_disabled()
        for text, count in (("13–24 of 30 entries", 12), ("25–30 of 30 entries", 6)):
            following.focus()
            page.keyboard.press("Enter")
            expect(shown).to_have_text(text)
            expect(shown).to_be_focused()  # the button may be disabled now
            expect(entries).to_have_count(count)
        expect(following).to_be_disabled()
        expect(entries.last).to_contain_text("Walrus 29?")
        assert axe_faults(page) == []
        page.get_by_label("Find an entry").first.fill("walrus 7?")
        expect(entries).to_have_count(3)
        expect(following).to_be_hidden()


def test_what_was_typed_outlives_the_session_and_is_kept_once(
    browser: Browser, address: str, searched_folder: Path
) -> None:
    database, change = open_database(searched_folder / "faq.db"), f"{address}owner/api/change"
    made = {"action": "add entry", "question": "Where is\nthe okapi?", "answer": "In the barn."}
    httpx.post(change, json=made, headers={"Authorization": f"Bearer {KEY}"}).raise_for_status()
    with logged_in(browser, address, section="entries") as page:
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url))
        page.get_by_label("Find an entry").first.fill("okapi")
        page.get_by_label("Find an entry").first.press("Enter")
        expect(page.locator("#entries .list > li")).to_have_count(1)
        card(page, "entries", "okapi").get_by_role("button", name="Edit").click()
        expect(page.get_by_label("Question", exact=True)).to_have_value("Where is the okapi?")  # the field has one line
        page.get_by_label("Answer", exact=True).fill("In the pool, since Monday.")
        page.context.clear_cookies()
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#editor .alert")).to_contain_text("Your session has ended. Log in in another window")
        assert page.request.post(f"{address}owner/login", form={"key": KEY}).ok  # as another window does
        page.get_by_role("button", name="Save").dblclick()
        expect(page.get_by_role("status")).to_contain_text("Saved.")
        expect(card(page, "entries", "okapi")).to_contain_text("since Monday")
        assert sent.count(change) == 2, "one was refused"
    assert [one.answer for one in read_changes(database)][-2:] == ["In the barn.", "In the pool, since Monday."]
