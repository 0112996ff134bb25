"""What customers do on the search page: find, filter, share, take back; on any window, by any means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from forked import served
from playwright.sync_api import Browser, Locator, Page, Route, expect
from searches import write_pipeline
from waiting import wait_until

from ap_ranker.data.html_cells import as_cell
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements

from .accessibility import axe_faults
from .browsing import ask, maybe, opened, wait_for_the_model

LONG = """**Send it back** within *30 days*, see [the terms](https://fjord.example/terms?a=1&b=2):

1. Open the bike in your account.
2. Press `Return`.

Write to help@fjord.example or read https://fjord.example/returns. Not [this](javascript:alert(5)),
nor <b>that</b>, and 2 * 3 * 4 bikes stay snake_case_words.

| bike <img src=x onerror="alert(6)"> | ![price](https://evil.example/x.png) |
|:---:|---:|
| [any](data:text/html;base64,PHNjcmlwdD4=) | [900](JaVaScRiPt:alert(7)) |

<script>alert(8)</script> <a href="javascript:alert(9)">a</a> [x]("onmouseover=alert(10)//)

""" + "\n\n".join(f"Rule {number} of a bike that goes back is as long as the others of them." for number in range(12))
ONLINE = "A bike that you bought from us goes back to any of our shops, with its papers, keys and all parts of it."
SHOP = ONLINE.replace("any", "one")
ENTRIES = [
    ("How do I return a bike?", LONG, "Returns"),
    ("May a bike bought online go back?", ONLINE, "Returns"),
    ("May a bike bought in a shop go back?", SHOP, "Returns"),
    ("What does a bike cost?", "A bike costs 900 euros.", "Prices"),
    ("What does a used bike cost?", "A bike costs 400 euros.", "Prices"),
    ("كم سعر bike هنا؟", "السعر 900 يورو للدراجة bike", "Prices"),
]
PAGE = """
name: Fjord Help
link: https://fjord.example
logo: logo.svg
accent: "#0f6b5c"
introduction: Ask about **bikes**.
nothing_found: "Call us, or [write](https://fjord.example/contact)."
contact: https://fjord.example/contact?message={question}
categories: topic
"""
LOGO = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path style="fill:red" d="M0 0h1v1H0z"/>
<script>document.documentElement.setAttribute("width", "7")</script></svg>"""
OPTIONS = ("--documents", "faq.jsonl", "--pipeline", "search.yaml", "--page", "page.yaml", "--rate", "0")
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    place = tmp_path_factory.mktemp("page")
    rows = [{"question": question, "answer": answer, "topic": topic} for question, answer, topic in ENTRIES]
    # Escaped, so that their tags are texts.
    escaped = [{name: as_cell(text) for name, text in row.items()} for row in rows]
    (place / "faq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in escaped))
    (place / "page.yaml").write_text(PAGE)
    (place / "logo.svg").write_text(LOGO)
    write_pipeline(place, checkpoint, top_k=20)
    return place


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Whatever is found is an answer."""
    with served(*OPTIONS, "--score-threshold", "-1", folder=folder) as server:
        wait_for_the_model(server.address)
        yield server.address


@pytest.fixture(scope="module")
def unsure(folder: Path) -> Iterator[str]:
    """Without a calibration, all but known questions get maybes."""
    with served(*OPTIONS, "--database", "unsure.db", folder=folder) as server:
        wait_for_the_model(server.address, ENTRIES[3][0])
        yield server.address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser, address, "en-GB") as page:
        yield page


def card(page: Page, question: str) -> Locator:
    return page.locator("#answers article").filter(has=page.locator(".stored", has_text=question))


def answered_with(page: Page, path: str, answer: dict[str, Any]) -> None:
    def answer_it(route: Route) -> None:
        route.fulfill(json=answer)

    page.route(f"**{path}", answer_it)


def test_the_companys_page(page: Page) -> None:
    expect(page).to_have_title("Fjord Help")
    expect(page.get_by_role("heading", level=1)).to_have_text("Fjord Help")
    home = page.get_by_role("heading", level=1).get_by_role("link")
    assert (home.get_attribute("href"), home.get_attribute("target")) == ("https://fjord.example", None)
    wait_until(lambda: page.evaluate("document.querySelector('h1 img')?.naturalWidth > 0"))
    expect(page.locator("#introduction strong")).to_have_text("bikes")
    button = page.get_by_role("button", name="Search")
    light = button.evaluate("button => getComputedStyle(button).backgroundColor")
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--brand')") == "#0f6b5c"
    page.emulate_media(color_scheme="dark")
    expect(button).not_to_have_css("background-color", light)


def test_a_program_in_the_logo_does_not_run(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}page/logo", "en", refused="page/logo") as page:
        assert page.locator("svg").get_attribute("width") is None


def test_the_address_is_the_question(page: Page, address: str) -> None:
    ask(page, "return & bike?")
    expect(page).to_have_url(f"{address}?q=return+%26+bike%3F")
    expect(page).to_have_title("return & bike? – Fjord Help")
    expect(card(page, "return a bike")).to_be_visible()
    ask(page, "used bike cost")
    expect(page).to_have_title("used bike cost – Fjord Help")
    page.go_back()
    expect(page.get_by_role("combobox")).to_have_value("return & bike?")
    expect(page).to_have_title("return & bike? – Fjord Help")
    expect(card(page, "return a bike")).to_be_visible()
    page.go_back()
    expect(page.locator("#answers article")).to_have_count(0)
    expect(page).to_have_title("Fjord Help")
    page.go_forward()
    page.reload()
    expect(page.get_by_role("combobox")).to_have_value("return & bike?")
    expect(card(page, "return a bike")).to_be_visible()


def test_an_address_is_text(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}?q=<img src=x onerror=alert(1)>bike&category=<b>", "en") as page:
        expect(page.get_by_role("combobox")).to_have_value("<img src=x onerror=alert(1)>bike")
        expect(page.locator("#answers article").first).to_be_visible()
        assert page.locator("main img").count() == 0


def test_a_long_answer_folds(page: Page) -> None:
    ask(page, "How do I return a bike?")
    long = card(page, "How do I return a bike?")
    short = card(page, "What does a used bike cost?")
    more = long.get_by_role("button", name="Show more")
    expect(more).to_have_attribute("aria-expanded", "false")
    height = long.locator(".text").bounding_box()["height"]  # type: ignore[index]
    more.click()
    expect(long.get_by_role("button", name="Show less")).to_have_attribute("aria-expanded", "true")
    assert long.locator(".text").bounding_box()["height"] > 2 * height  # type: ignore[index]
    long.get_by_role("button", name="Show less").click()
    assert long.locator(".text").bounding_box()["height"] == height  # type: ignore[index]
    expect(short.locator(".more")).to_be_hidden()
    long.get_by_role("link", name="help@fjord.example").focus()  # by the keyboard; it may have been out of sight
    expect(long.get_by_role("button", name="Show less")).to_be_visible()


def test_markdown(page: Page) -> None:
    ask(page, "How do I return a bike?")
    text = card(page, "How do I return a bike?").locator(".text")
    expect(text.locator("strong")).to_have_text("Send it back")
    expect(text.locator("em")).to_have_text("30 days")
    expect(text.locator("ol li")).to_have_text(["Open the bike in your account.", "Press Return."])
    expect(text.locator("code")).to_have_text("Return")
    links = {link.inner_text(): link.get_attribute("href") for link in text.locator("a").all()}
    assert links == {
        "the terms": "https://fjord.example/terms?a=1&b=2",
        "help@fjord.example": "mailto:help@fjord.example",
        "https://fjord.example/returns": "https://fjord.example/returns",
        "price": "https://evil.example/x.png",  # a link, and no picture
    }
    assert {link.get_attribute("rel") for link in text.locator("a").all()} == {"noopener noreferrer"}
    expect(text).to_contain_text("nor <b>that</b>, and 2 * 3 * 4 bikes stay snake_case_words.")
    expect(text).to_contain_text("<script>alert(8)</script>")
    expect(text.locator("td")).to_have_count(2)
    others = ":not(a, code, div, em, li, mark, ol, p, span, strong, table, tbody, td, th, thead, tr)"
    expect(text.locator(others)).to_have_count(0)
    names = text.evaluate("text => [...text.querySelectorAll('*')].flatMap((each) => each.getAttributeNames())")
    assert set(names) <= {"class", "dir", "href", "rel", "tabindex", "target"}


def test_equal_answers_are_shown_once(page: Page) -> None:
    ask(page, "bike bought go back")
    both = page.locator("#answers article").filter(has_text="A bike that you bought from us")
    expect(both).to_have_count(1)
    also = both.locator(".also")
    expect(also.locator("summary")).to_have_text("Also here: 1 more")
    also.locator("summary").click()
    shown, hidden = both.locator(".stored").inner_text(), also.locator("li > span").inner_text()
    assert {shown, hidden} == {ENTRIES[1][0], ENTRIES[2][0]}
    expect(also.locator("li .text")).to_be_visible()  # one word differs: nothing is lost
    for price in ("900", "400"):  # these differ by one number only
        expect(page.locator("#answers article .text").filter(has_text=f"costs {price} euros")).to_have_count(1)


def test_categories(page: Page, address: str) -> None:
    ask(page, "new bike")
    bar = page.get_by_role("group", name="Categories")
    expect(bar.get_by_role("button")).to_have_count(3)
    bar.get_by_role("button", name="Prices (3)").click()
    expect(page.locator("#status")).to_have_text("3 of 5 answers")
    expect(card(page, "return a bike")).to_be_hidden()
    expect(card(page, "used bike")).to_be_visible()
    expect(page).to_have_url(f"{address}?q=new+bike&category=Prices")
    page.reload()
    expect(bar.get_by_role("button", name="Prices (3)")).to_have_attribute("aria-pressed", "true")
    expect(card(page, "return a bike")).to_be_hidden()
    bar.get_by_role("button", name="All (5)").click()
    expect(card(page, "return a bike")).to_be_visible()
    ask(page, "كم سعر")
    expect(page.locator("#answers article")).to_have_count(1)
    expect(bar).to_be_hidden()  # nothing to choose


def test_words_for_customers_and_numbers_for_the_owner(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}?q=what does a bike cost", "en") as page:
        first = card(page, "What does a bike cost?")
        expect(first.locator(".match")).to_have_text("Matches your question well")  # word for word
        expect(first.locator(".numbers")).to_be_hidden()
        assert "BM25" not in page.locator("body").inner_text()
    with opened(browser, f"{address}?view=owner", "en") as page:
        ask(page, "what does a bike cost")
        expect(page).to_have_url(re.compile("view=owner"))
        numbers = card(page, "What does a bike cost?").locator(".numbers")
        expect(numbers).to_be_visible()
        expect(numbers).to_have_text(re.compile(r"score \d\.\d{3} · BM25 rank \d"))


def test_a_question_before_the_page_is_there_keeps_the_view(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}?view=owner&category=Prices", "en") as page:
        page.route("**/texts/en.json", lambda _: None)  # it never comes
        page.reload()
        ask(page, "bike")
        expect(page).to_have_url(re.compile(r"\?q=bike&view=owner$"))


def test_the_heat_map_shows_what_made_the_difference(page: Page) -> None:
    """Half of the weight is of words that say nothing: they stay without a colour."""
    text = "\N{BICYCLE} my bike was stolen, and now?"
    heats = {"my": 0.2, "bike": 0.5, "was": 0.21, "sto": 0.3, "len": 1.0, ",": 0.6, "and": 0.19, "now": 0.2, "?": 0.2}
    tokens, at = [], 0
    for piece, heat in heats.items():
        at = text.index(piece, at)
        tokens.append({"start": at, "end": at + len(piece), "heat": heat})
    even = [{**token, "heat": 0.95 + number % 2 / 20} for number, token in enumerate(tokens)]
    sides = {"question": {"text": text, "tokens": tokens}, "answer": {"text": text, "tokens": even}}
    answered_with(page, "/api/explain", {"score": 1.0, **sides})
    ask(page, "new bike")
    first = page.locator("#answers article").first
    first.get_by_role("button", name="Which words counted?").click()
    maps = first.locator(".reasons .map")
    expect(maps).to_have_count(2)
    question, answer = maps.all()
    expect(question).to_have_text(text)
    marks = {mark.inner_text(): mark for mark in question.locator("mark").all()}
    assert list(marks) == ["bike", "stolen"]  # whole words, and no comma
    colours = {word: float(mark.evaluate("mark => mark.style.getPropertyValue('--w')")) for word, mark in marks.items()}
    assert colours["stolen"] == 1
    assert 0.1 < colours["bike"] < 0.5
    seen = {word: mark.evaluate("mark => getComputedStyle(mark).backgroundColor") for word, mark in marks.items()}
    assert len(set(seen.values())) == 2  # the policy let the colours through
    expect(question.locator("mark.top")).to_have_text("stolen")
    expect(first.locator(".reasons .words").first).to_have_text("Counted most: stolen")
    expect(answer.locator("mark")).to_have_count(0)
    expect(first.locator(".reasons .words").last).to_have_text("All words counted about equally.")


def test_suggestions(page: Page) -> None:
    field, list_ = page.get_by_role("combobox"), page.get_by_role("listbox")
    # The page's script names the list when it begins to listen: what is typed before that gets no suggestions.
    expect(page.locator("#suggestions")).to_have_attribute("aria-label", re.compile(r"\w"))
    field.press_sequentially("what does")
    expect(page.get_by_role("option")).to_have_text(["What does a bike cost?", "What does a used bike cost?"])
    expect(field).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = page.get_by_role("option", selected=True)
    expect(chosen).to_have_text("What does a used bike cost?")
    assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    page.keyboard.press("ArrowDown")  # back to what was typed
    expect(page.get_by_role("option", selected=True)).to_have_count(0)
    page.keyboard.press("Escape")
    expect(list_).to_be_hidden()
    expect(field).to_have_value("what does")
    field.press_sequentially(" a u")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(field).to_have_value("What does a used bike cost?")
    expect(page).to_have_url(re.compile(r"q=What\+does\+a\+used\+bike"))
    expect(list_).to_be_hidden()
    expect(card(page, "What does a used bike cost?")).to_be_visible()
    field.fill("how do")
    page.get_by_role("option", name="How do I return a bike?").click()
    expect(page).to_have_url(re.compile(r"q=How\+do"))


def judgements(folder: Path, database: str = "faq.db") -> list[tuple[str, str, str]]:
    records = Judgements(open_database(folder / database)).records()
    return [(record["question"], str(record["label"]), record["comment"]) for record in records]


def test_feedback_is_taken_back_and_explained(page: Page, folder: Path) -> None:
    ask(page, "two wheels bike")
    first = page.locator("#answers article").first
    yes, no = (first.get_by_role("button", name=name) for name in ("This answered it", "It did not"))
    yes.click()
    expect(yes).to_have_attribute("aria-pressed", "true")
    expect(first.locator(".thanks")).to_have_text("Thank you.")
    assert judgements(folder) == [("two wheels bike", "1", "")]
    no.click()  # another opinion replaces the first
    expect(no).to_have_attribute("aria-pressed", "true")
    expect(yes).to_have_attribute("aria-pressed", "false")
    first.get_by_label("What were you looking for?").fill('No word of "tandems".')
    page.keyboard.press("Enter")
    expect(first.locator(".thanks")).to_have_text("Thank you for telling us.")
    assert judgements(folder) == [("two wheels bike", "0", 'No word of "tandems".')]
    first.get_by_role("button", name="Take back").click()
    expect(first.locator(".thanks")).to_have_text("Taken back.")
    expect(first.locator(".comment")).to_be_hidden()
    expect(yes).to_be_focused()
    assert judgements(folder) == []


def test_an_answer_that_did_not_help_is_no_dead_end(page: Page) -> None:
    """There are the contact, with the question, and the other entries but those that did not help either."""
    ask(page, "used bike")
    cards = page.locator("#answers article")
    expect(cards).not_to_have_count(0)
    first, second = cards.nth(0), cards.nth(1)
    stored = page.locator("#answers article .stored").all_inner_texts()
    first.get_by_role("button", name="It did not").click()
    contact = first.get_by_role("link", name="Send us your question")
    expect(contact).to_have_attribute("href", "https://fjord.example/contact?message=used%20bike")
    assert (contact.get_attribute("rel"), contact.get_attribute("target")) == ("noopener noreferrer", "_blank")
    others = first.locator(".otherwise button")
    expect(others).to_have_text(stored[1:])
    second.get_by_role("button", name="It did not").click()
    expect(second.locator(".otherwise button")).to_have_text(stored[2:])
    others.nth(1).click()
    expect(cards.nth(2)).to_be_focused()
    first.get_by_role("button", name="This answered it").click()
    expect(first.locator(".otherwise")).to_be_hidden()
    expect(first.get_by_label("What was helpful?")).to_be_visible()


def test_a_maybe_that_did_not_help_names_no_other_where_there_is_none(page: Page) -> None:
    answered_with(page, "/api/search", maybe(question="Rent?", html="<p>Rent.</p>", receipt="x"))
    answered_with(page, "/api/feedback", {"status": "kept"})
    ask(page, "rent")
    page.locator("#answers summary").first.click()
    page.get_by_role("button", name="It did not").click()
    expect(page.locator(".otherwise .contact")).to_be_visible()
    expect(page.locator(".otherwise p, .otherwise button")).to_have_count(0)


def test_words_are_no_html(page: Page, folder: Path) -> None:
    ask(page, "<img src=x onerror=alert(11)> bike")
    first = page.locator("#answers article").first
    first.get_by_role("button", name="It did not").click()
    words = "<script>alert(12)</script> a bike " + "x" * 300
    first.get_by_label("What were you looking for?").fill(words)  # the browser cuts it
    page.keyboard.press("Enter")
    expect(first.locator(".thanks")).to_have_text("Thank you for telling us.")
    assert (words[:300] in [comment for *_, comment in judgements(folder)]) == (len(words) >= 300)
    assert page.locator("main script, #answers img").count() == 0
    first.get_by_role("button", name="Take back").click()
    expect(first.locator(".thanks")).to_have_text("Taken back.")
    assert words[:300] not in [comment for *_, comment in judgements(folder)]


def test_an_answer_has_an_address_of_its_own(browser: Browser, page: Page, folder: Path) -> None:
    """It opens the page with the entry; also after a restart, and after the entry has changed, while it is there."""
    ask(page, "used")
    link = card(page, "What does a used bike cost?").get_by_role("link", name="Link to this answer")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    link.click()
    expect(card(page, "What does a used bike cost?").locator(".thanks")).to_have_text("The link is copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == link.evaluate("link => link.href")
    path = link.get_attribute("href") or ""
    with served(*OPTIONS, "--score-threshold", "-1", "--database", "again.db", folder=folder) as again:
        wait_for_the_model(again.address)
        for address, title in (
            (path, "used bike"),
            (re.sub("answer=[0-9a-f]+", "answer=0", path), "used bike"),  # changed since, as its other id says
        ):
            with opened(browser, again.address.rstrip("/") + address, "en") as other:
                expect(card(other, title)).to_be_focused()
                expect(other.get_by_role("status").filter(has_text="answers")).to_be_visible()
                expect(other).to_have_url(re.compile(r"answer="))
                ask(other, "return")
                expect(other).not_to_have_url(re.compile(r"answer="))
                other.go_back()
                expect(card(other, title)).to_be_focused()


def test_an_entry_that_is_gone_says_so(browser: Browser, address: str) -> None:
    gone = "The answer of this link is gone."
    for question, text in (("bike+or+what%3F", f"{gone} Perhaps one of these:"), ("zebra", gone)):
        with opened(browser, f"{address}?q={question}&answer=<script>alert(13)</script>", "en") as page:
            expect(page.get_by_role("status").filter(has_text="gone")).to_have_text(text)
            expect(page.get_by_role("combobox")).to_be_focused()


def test_a_passage_in_a_group_or_a_maybe_is_opened(page: Page, address: str) -> None:
    answered_with(page, "/api/search", maybe(id="b", html="<p>Rent.</p>", question="Rent?"))
    page.goto(f"{address}?q=rent&answer=b")
    expect(page.get_by_text("Rent.")).to_be_visible()


def test_arrow_keys_are_told_of_where_there_are_answers(page: Page) -> None:
    hint = page.get_by_text("Arrow keys go from answer to answer")
    expect(page.locator("#opening")).to_be_visible()
    expect(hint).to_be_hidden()
    ask(page, "zebra")
    expect(page.locator("#nothing")).to_be_visible()
    expect(hint).to_be_hidden()
    ask(page, "used bike")
    expect(hint).to_be_visible()
    ask(page, "zebra")
    expect(page.locator("#nothing")).to_be_visible()
    expect(hint).to_be_hidden()


def test_a_question_that_is_cut_says_so(page: Page, address: str) -> None:
    """However it got into the box; characters are counted as the server counts them."""
    note, box = page.locator("#cut"), page.get_by_role("combobox")
    said = "Only the first 1,000 characters of your question are searched."
    box.focus()
    page.keyboard.insert_text("\N{BICYCLE}" * 1000)  # as a paste; 2,000 units of JavaScript
    expect(box).to_have_value("\N{BICYCLE}" * 1000)
    expect(note).to_be_empty()
    page.keyboard.insert_text("x")
    expect(box).to_have_value("\N{BICYCLE}" * 1000)
    expect(note).to_have_text(said)
    box.fill("used bike")
    expect(note).to_be_empty()
    page.goto(f"{address}?q=" + "bike+" * 300)
    expect(note).to_have_text(said)
    expect(page.locator("#answers article").first).to_be_visible()
    page.reload()
    expect(page.locator("#answers article").first).to_be_visible()


def test_a_click_moves_no_answer(page: Page) -> None:
    question = "bike as wide as a door"
    ask(page, question)
    answers, stored = page.locator("#answers article"), page.locator("#answers article .stored")
    expect(answers).not_to_have_count(0)
    found, last = stored.all_inner_texts(), answers.last
    last.get_by_role("button", name="This answered it").click()
    expect(last.locator(".thanks")).to_have_text("Thank you.")
    ask(page, f"{question} ")
    expect(page.locator("#answers .thanks").filter(visible=True)).to_have_count(0)  # these are the new answers
    expect(stored).to_have_text(found, use_inner_text=True)
    expect(page.get_by_text("Asked before as:").filter(visible=True)).to_have_count(0)


def test_no_answer_and_whom_to_ask(page: Page) -> None:
    ask(page, "zebra & <okapi>?")
    expect(page.get_by_role("status").first).to_have_text("We have no answer to that.")
    expect(page.locator("#answers article")).to_have_count(0)
    expect(page.locator("#nothing .advice")).to_have_text("Call us, or write.")
    expect(page.locator("#nothing .advice a")).to_have_attribute("href", "https://fjord.example/contact")
    contact = page.get_by_role("link", name="Send us your question")
    carried = "https://fjord.example/contact?message=zebra%20%26%20%3Cokapi%3E%3F"
    expect(contact).to_have_attribute("href", carried)
    ask(page, "How do I return a bike?")
    expect(card(page, "How do I return a bike?")).to_be_visible()
    expect(page.locator("#nothing")).to_be_hidden()


def test_a_question_is_carried_over(page: Page) -> None:
    script = "async (given) => (await import('/page/address.js')).carrying(...given)"
    asked = "a%26b%3D%241%20%3F"
    for contact, expected in (
        ("help@fjord.example", f"mailto:help@fjord.example?subject={asked}&body={asked}"),
        ("https://f.example/{question}/?q={question}", f"https://f.example/{asked}/?q={asked}"),
        ("https://f.example/@help", "https://f.example/@help"),
    ):
        assert page.evaluate(script, ["a&b=$1 ?", contact]) == expected


def test_maybes_are_folded(browser: Browser, unsure: str, folder: Path) -> None:
    with opened(browser, unsure, "en-GB") as page:
        ask(page, "return some bike please")
        expect(page.get_by_role("status").first).to_have_text("Perhaps one of these")
        cards = page.locator("#answers article")
        expect(cards).not_to_have_count(0)
        assert cards.count() <= 5
        expect(page.locator("#answers .text").filter(visible=True)).to_have_count(0)
        expect(page.locator("#answers .match").filter(visible=True)).to_have_count(0)
        long = card(page, "How do I return a bike?")
        long.locator("summary").first.click()
        expect(long.get_by_role("button", name="Show more")).to_be_visible()  # its height is known by now
        expect(page.locator("#answers .text").filter(visible=True)).to_have_count(1)
        long.get_by_role("button", name="This answered it").click()
        expect(long.locator(".thanks")).to_have_text("Thank you.")
        assert judgements(folder, "unsure.db") == [("return some bike please", "1", "")]
        long.locator("summary").first.click()
        expect(page.locator("#answers .text").filter(visible=True)).to_have_count(0)
        page.keyboard.press("Escape")
        page.keyboard.press("ArrowDown")
        expect(cards.first).to_be_focused()
        page.keyboard.press("Enter")
        expect(cards.first.locator(".text")).to_be_visible()
        page.get_by_role("button", name="Prices").click()
        expect(page.get_by_role("status").first).to_have_text("Perhaps one of these")
        expect(long).to_be_hidden()
        ask(page, "what does a bike COST")  # word for word
        expect(page.get_by_role("status").first).to_have_text(re.compile(r"\d answers"))
        expect(page.locator("#answers .maybe")).to_have_count(0)


def test_maybes_without_a_question_of_their_own(page: Page) -> None:
    """The beginning of the answer says what it is about."""
    answered_with(page, "/api/search", maybe(html=f"<p>{'Rent a bike. ' * 20}</p>"))
    ask(page, "bike")
    summary = page.locator("#answers summary").first
    expect(summary).to_have_text(re.compile(r"^(Rent a bike\. ){6}Re …$"))
    summary.press("Enter")
    expect(page.locator("#answers .text")).to_be_visible()


def test_keyboard_only(page: Page) -> None:
    expect(page.get_by_role("button", name="Search")).to_be_visible()  # the page has its words, and listens
    page.keyboard.type("return a bike")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(page.locator("#answers article").first).to_be_visible()
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => {
                const at = document.activeElement;
                const style = getComputedStyle(at);
                const text = at === document.body ? "" : at.textContent.trim();
                return [text, style.outlineStyle, parseFloat(style.outlineWidth)];
            }"""
        )
        if at[0] in [name for name, *_ in reached[:1]] or not at[0]:
            break
        reached.append(at)
    names = [name for name, *_ in reached]
    for name in ("Search", "All (5)", "Show less", "This answered it", "It did not", "Which words counted?"):
        assert name in names, names
    assert all(style != "none" and width >= 2 for _, style, width in reached), reached  # the focus is seen


def test_right_to_left(page: Page) -> None:
    ask(page, "كم سعر bike")
    arabic = card(page, "كم سعر")
    for part in (".stored", ".text p"):
        assert arabic.locator(part).evaluate("element => getComputedStyle(element).direction") == "rtl"
    english = card(page, "What does a used bike cost?")
    assert english.locator(".text p").evaluate("element => getComputedStyle(element).direction") == "ltr"
    assert page.get_by_role("combobox").evaluate("element => getComputedStyle(element).direction") == "rtl"


@pytest.mark.parametrize("window", [{}, PHONE], ids=["desktop", "phone"])
def test_everybody_can_use_it(browser: Browser, address: str, unsure: str, window: dict[str, Any]) -> None:
    """No fault that axe finds, nothing wider than the window, and nothing too small for a finger."""

    def check(page: Page) -> None:
        assert axe_faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        small = page.evaluate(
            """() => [...document.querySelectorAll("button, input, summary, a, [role=option]")]
                .filter((each) => each.checkVisibility() && !each.closest(".prose"))
                .map((each) => [each.outerHTML, each.getBoundingClientRect().height])
                .filter(([, height]) => height < 44)"""
        )
        assert small == []

    with opened(browser, address, "en", **window) as page:
        check(page)
        page.get_by_role("combobox").press_sequentially("what")
        expect(page.get_by_role("option")).to_have_count(2)
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("option", selected=True)).to_be_visible()
        check(page)
        ask(page, "bike bought go back")
        page.locator(".also summary:visible").click()
        first = page.locator("#answers article").first
        first.get_by_role("button", name="Which words counted?").click()
        expect(first.locator(".reasons .map").first).to_be_visible()
        first.get_by_role("button", name="It did not").click()
        expect(first.locator(".comment")).to_be_visible()
        check(page)
        ask(page, "zebra")
        expect(page.locator("#nothing")).to_be_visible()
        check(page)
    with opened(browser, unsure, "en", **window) as page:
        ask(page, "bike bought go back")
        page.locator("#answers summary").first.click()
        expect(page.locator("#answers .text").first).to_be_visible()
        check(page)
