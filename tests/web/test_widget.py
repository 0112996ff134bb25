"""The search in pages of other sites: which may have it, what their policies must allow, what cannot leave it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from forked import served
from playwright.sync_api import Browser, Page, expect
from searches import write_pipeline
from starlette.testclient import TestClient
from waiting import wait_until

from ap_ranker.data.html_cells import as_cell
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.page.files import page_files
from ap_ranker.web.page.settings import PageSettings

from .accessibility import axe_faults, is_as_wide_as_its_window
from .browsing import opened, wait_for_the_model
from .sites import Foreign, foreign_site
from .visiting import QUESTION, client_of

SITE, STRANGER = "https://shop.example", "https://evil.example"
NASTY = "<img src=x onerror=alert(1)> bike</summary><script>alert(2)</script>"
ROWS = [
    ("What does a bike cost?", "A **bike** costs 900 euros: [prices](https://fjord.example/prices)."),
    (NASTY, "<img src=x onerror=alert(3)> [link](javascript:alert(4)) bike"),
    ("كم سعر الدراجة؟", "سعر الدراجة 900 يورو."),
    ("自転車はいくらですか？", "自転車は900ユーロです。"),
    ("", "A bike without a question of its own " * 4),
]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@dataclass(frozen=True)
class Sites:
    """A server of a FAQ, a site that may have it, and one that may not."""

    faq: str
    allowed: Foreign
    refused: Foreign
    folder: Path


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Iterator[Sites]:
    folder = tmp_path_factory.mktemp("widget")
    write_pipeline(folder, checkpoint, top_k=20)
    # Escaped, so that their tags are texts.
    rows = [{"question": as_cell(q), "answer": as_cell(a)} for q, a in ROWS]
    (folder / "faq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--documents", "faq.jsonl", "--pipeline", "search.yaml", "--page", "page.yaml", "--rate", "0")
    with foreign_site() as allowed, foreign_site() as refused:
        (folder / "page.yaml").write_text(f"sites: ['{allowed.address.rstrip('/')}']\n")
        with served(*options, "--score-threshold", "-1", folder=folder) as server:
            wait_for_the_model(server.address)
            yield Sites(server.address, allowed, refused, folder)


@contextmanager
def shown(sites: Sites, browser: Browser, body: str = "", *, locale: str = "en", **more: Any) -> Iterator[Page]:
    """A page of the allowed site with the widget."""
    site = sites.allowed
    site.body = body or f'<script src="{sites.faq}widget.js"></script>'
    site.policy, site.root = more.pop("policy", ""), more.pop("root", "lang=en")
    with opened(browser, site.address, locale, others=[sites.faq], **more) as page:
        yield page


def ask(page: Page, question: str) -> None:
    page.get_by_role("textbox").fill(question)
    page.keyboard.press("Enter")


STRICT = "default-src 'none'; script-src {faq}; connect-src {faq}; img-src data:; base-uri 'none'"
POLICIES = {
    "none": "",
    "hosts": STRICT,
    "trusted types": f"{STRICT}; require-trusted-types-for 'script'; trusted-types ap-ranker",
    "nonce": "default-src 'none'; script-src 'nonce-abc' 'strict-dynamic'; connect-src {faq}; img-src data:",
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_an_allowed_site(sites: Sites, browser: Browser, policy: str) -> None:
    """Whatever its policy: no style in the page, no program in it, no picture, no cookie."""
    body = f'<script nonce="abc" src="{sites.faq}widget.js"></script>'
    with shown(sites, browser, body, policy=policy.format(faq=sites.faq.rstrip("/"))) as page:
        expect(page.get_by_role("search").get_by_label("Your question")).to_be_visible()
        assert page.get_by_role("button", name="Search").evaluate("e => getComputedStyle(e).fontWeight") == "600"
        ask(page, "what does a bike cost")
        expect(page.get_by_role("status").first).to_have_text("3 answers")
        first = page.locator("details").first
        expect(first.locator("summary")).to_have_text("What does a bike cost?")
        expect(first.locator(".text strong")).to_have_text("bike")
        expect(first.locator(".text a")).to_have_attribute("href", "https://fjord.example/prices")
        expect(first.locator("mark").first).to_have_text("bike")
        assert page.context.cookies() == []
        assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]


def test_what_is_no_question(sites: Sites, browser: Browser) -> None:
    """As the search page does, the widget says what it takes a text for, in its own words."""
    with shown(sites, browser) as page:
        ask(page, "hello")
        expect(page.get_by_role("status").first).to_have_text("Hello! Type your question, and we look for the answer.")
        expect(page.locator("details")).to_have_count(0)
        ask(page, "what does a bike cost")
        expect(page.get_by_role("status").first).to_have_text("3 answers")


def test_several_questions_in_one(sites: Sites, browser: Browser) -> None:
    """Each has its heading and its answers; what is judged is the answer to the part."""
    with shown(sites, browser) as page:
        ask(page, "What does a bike cost? كم سعر الدراجة؟")
        expect(page.get_by_role("status").first).to_have_text("An answer to each of your questions")
        headings = page.get_by_role("heading", level=2)
        expect(headings).to_have_text(["What does a bike cost?", "كم سعر الدراجة؟"])
        expect(page.locator("details")).to_have_count(2)
        assert axe_faults(page) == []
        page.route("**/api/feedback", lambda route: route.fulfill(json={}))  # other tests count what is kept
        with page.expect_request("**/api/feedback") as judged:
            page.locator("details").first.get_by_role("button", name="This answered it").click()
        assert (judged.value.post_data_json or {})["question"] == "What does a bike cost?"


def test_a_refused_site(sites: Sites, browser: Browser) -> None:
    """Nothing is shown there, and the console says what to do."""
    sites.refused.body = f'<script src="{sites.faq}widget.js"></script>'
    said: list[str] = []
    with opened(browser, "about:blank", "en", refused="http") as page:
        page.unroute("**/*")
        page.on("console", lambda message: said.append(message.text))
        page.goto(sites.refused.address)
        wait_until(lambda: page.evaluate("document.querySelector('ap-ranker-search') !== null"))
        page.wait_for_timeout(1000)
        assert page.get_by_role("textbox").count() == 0
        script = """async (address) => {
            const headers = { "Content-Type": "application/json" };
            const answer = fetch(address, { method: "POST", headers, body: '{"question": "a"}' });
            return answer.then(() => "answered", () => "refused");
        }"""
        assert page.evaluate(script, f"{sites.faq}api/search") == "refused"
    assert any("Are they among its sites?" in text and sites.refused.address.rstrip("/") in text for text in said)


def test_hostile_answers(sites: Sites, browser: Browser) -> None:
    with shown(sites, browser) as page:
        ask(page, NASTY)
        nasty = page.locator("details").filter(has_text="onerror=alert(1)")
        expect(nasty.locator("summary")).to_have_text(NASTY)
        expect(nasty.locator(".text")).to_have_text("<img src=x onerror=alert(3)> [link](javascript:alert(4)) bike")
        assert page.locator("img, details script, details a[href^=javascript]").count() == 0


def test_hostile_attributes(sites: Sites, browser: Browser) -> None:
    """Of whoever may write into the page: none of them becomes HTML or a program."""
    attributes = 'data-question="<img src=x onerror=alert(1)>" data-lang="../../api"'
    attributes += ' data-contact="javascript:alert(2)//a@b.example"'
    with shown(sites, browser, f'<script src="{sites.faq}widget.js" {attributes}></script>') as page:
        field = page.get_by_label("<img src=x onerror=alert(1)>")
        field.fill("zebra")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status").first).to_have_text("We have no answer to that.")
        expect(page.locator(".contact")).to_be_hidden()
        assert page.locator("img").count() == 0


def test_contact(sites: Sites, browser: Browser) -> None:
    body = f'<script src="{sites.faq}widget.js" data-contact="https://shop.example/?ask={{question}}"></script>'
    with shown(sites, browser, body) as page:
        ask(page, "zebra $& <u>?")
        contact = page.get_by_role("link", name="Send us your question")
        expect(contact).to_have_attribute("href", "https://shop.example/?ask=zebra%20%24%26%20%3Cu%3E%3F")
        assert (contact.get_attribute("rel"), contact.get_attribute("target")) == ("noopener noreferrer", "_blank")


def test_the_keyboard_is_enough(sites: Sites, browser: Browser) -> None:
    with shown(sites, browser) as page:
        page.get_by_role("textbox").wait_for()
        page.keyboard.press("Tab")
        page.keyboard.type("what does a bike cost")
        page.keyboard.press("Enter")
        second = page.locator("details").nth(1)
        expect(second).to_be_visible()
        expect(page.locator("details[open]")).to_have_count(1)
        for name in ("Search", "What does a bike cost?"):
            page.keyboard.press("Tab")
            script = "document.querySelector('ap-ranker-search').shadowRoot.activeElement.textContent"
            assert page.evaluate(script) == name
        page.keyboard.press("Enter")
        expect(page.locator("details[open]")).to_have_count(0)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(second.locator(".text")).to_be_visible()


def test_feedback_is_kept_and_taken_back(sites: Sites, browser: Browser) -> None:
    def records() -> list[tuple[str, int]]:
        kept = Judgements(open_database(sites.folder / "faq.db")).records()
        return [(record["question"], record["label"]) for record in kept]

    with shown(sites, browser) as page:
        ask(page, "bike price")
        first = page.locator("details").first
        if not first.evaluate("e => e.open"):
            first.locator("summary").click()
        yes, no = first.get_by_role("button", name="This answered it"), first.get_by_role("button", name="It did not")
        yes.click()
        expect(first.get_by_role("status")).to_have_text("Thank you.")
        expect(yes).to_have_attribute("aria-pressed", "true")
        assert records() == [("bike price", 1)]
        no.click()
        expect(no).to_have_attribute("aria-pressed", "true")
        expect(yes).to_have_attribute("aria-pressed", "false")
        assert records() == [("bike price", 0)]
        no.click()
        expect(first.get_by_role("status")).to_have_text("Taken back.")
        assert records() == []


def test_an_answer_that_did_not_help_is_no_dead_end(sites: Sites, browser: Browser) -> None:
    body = f'<script src="{sites.faq}widget.js" data-contact="help@shop.example"></script>'
    with shown(sites, browser, body) as page:
        ask(page, "a bike <b>or</b> what")
        entries = page.locator("details")
        first, second = entries.nth(0), entries.nth(1)
        expect(first).to_be_visible()
        titles = page.locator("details > summary").all_inner_texts()
        first.get_by_role("button", name="It did not").click()
        contact = first.get_by_role("link", name="Send us your question")
        expect(contact).to_have_attribute("href", re.compile(r"mailto:help@shop\.example\?subject=a%20bike%20%3Cb%3E"))
        expect(first.locator(".otherwise li")).to_have_text(titles[1:])
        first.get_by_label("What were you looking for?").fill("a <i>tandem</i>")
        page.keyboard.press("Enter")
        expect(first.get_by_role("status")).to_have_text("Thank you for telling us.")
        [record] = [
            each for each in Judgements(open_database(sites.folder / "faq.db")).records() if "<b>" in each["question"]
        ]
        assert (record["label"], record["comment"]) == (0, "a <i>tandem</i>")
        first.locator(".otherwise button").first.click()
        expect(second.locator("summary")).to_be_focused()
        expect(second.locator(".text")).to_be_visible()
        second.get_by_role("button", name="It did not").click()
        expect(second.locator(".otherwise li")).to_have_text(titles[2:])
        first.get_by_role("button", name="This answered it").click()
        expect(first.locator(".otherwise")).to_be_hidden()


def test_the_last_search_is_there_on_going_back(sites: Sites, browser: Browser) -> None:
    """Beside what the site's own scripts keep with their place in the history; another kind of state is left alone."""
    script = f'<script src="{sites.faq}widget.js"></script>'
    for state, comes_back in (("{ own: [1] }", True), ("'own'", False)):
        own = f"<script>history.state ?? history.replaceState({state}, '')</script>"
        with shown(sites, browser, own + script) as page:
            ask(page, "what does a bike cost")
            expect(page.get_by_role("status").first).not_to_be_empty()
            expect(page.locator("details").first).to_be_visible()
            page.goto(f"{sites.allowed.address}elsewhere")
            expect(page.get_by_role("textbox")).to_have_value("")
            page.go_back()
            expect(page.get_by_role("textbox")).to_have_value("what does a bike cost" if comes_back else "")
            expect(page.locator("details")).to_have_count(3 if comes_back else 0)
            kept = page.evaluate("history.state")
            assert kept == ({"own": [1], "ap-ranker-search": "what does a bike cost"} if comes_back else "own")


def test_a_question_that_is_cut_says_so(sites: Sites, browser: Browser) -> None:
    with shown(sites, browser) as page:
        page.get_by_role("textbox").fill("bike " * 300)
        expect(page.get_by_role("textbox")).to_have_value("bike " * 200)
        expect(page.get_by_text("Only the first 1,000 characters of your question are searched.")).to_be_visible()
        page.keyboard.press("Enter")
        expect(page.locator("details").first).to_be_visible()


def test_an_element_of_the_page_itself(sites: Sites, browser: Browser) -> None:
    """Where it stands, once, and with the site's own colours; a second script changes nothing."""
    script = f'<script src="{sites.faq}widget.js" defer></script>'
    style = "<style>ap-ranker-search { --ap-ranker-accent: rgb(15, 107, 92); --ap-ranker-radius: 0 }</style>"
    body = f'{style}<ap-ranker-search lang="de" question="Frag uns"></ap-ranker-search>{script}{script}'
    with shown(sites, browser, body) as page:
        expect(page.get_by_label("Frag uns")).to_be_visible()
        button = page.get_by_role("button", name="Suchen")
        expect(button).to_have_css("background-color", "rgb(15, 107, 92)")
        expect(button).to_have_css("border-radius", "0px")
        assert page.locator("ap-ranker-search").count() == 1


@pytest.mark.parametrize(("language", "row", "window"), [("ar", 2, PHONE), ("ja", 3, {})], ids=["Arabic", "Japanese"])
def test_everybody_can_use_it_in(sites: Sites, browser: Browser, language: str, row: int, window: Any) -> None:
    """As the site has it: in its language, and dark if it is."""
    root = f"lang={language} dir={'rtl' if language == 'ar' else 'ltr'}"
    style = "<style>:root { color-scheme: light dark; background: Canvas; color: CanvasText }</style>"
    body = f'{style}<script src="{sites.faq}widget.js"></script>'
    with shown(sites, browser, body, root=root, **window) as page:
        page.get_by_role("textbox").wait_for()
        assert axe_faults(page) == []
        ask(page, ROWS[row][0])
        first = page.locator("details").first
        expect(first.locator("summary")).to_have_text(ROWS[row][0])
        first.get_by_role("button").first.click()
        expect(first.get_by_role("status")).not_to_be_empty()
        assert axe_faults(page) == []
        assert is_as_wide_as_its_window(page)
        box = page.locator("ap-ranker-search > *, ap-ranker-search").first
        assert box.evaluate("e => getComputedStyle(e.shadowRoot.lastChild).direction") == root.split("dir=")[1]
        small = first.locator("summary, button").evaluate_all("all => all.filter((e) => e.offsetHeight < 44).length")
        assert small == 0


# Without a browser.


def preflight(client: TestClient, path: str, origin: str, headers: str = "content-type") -> Any:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": headers, "Origin": origin}
    return client.options(path, headers=asked)


def test_which_origins_are_answered(search: DeclaredPipeline) -> None:
    client = client_of(search, page=PageSettings(sites=[SITE]), rate=0.01, api_key="k" * 20)
    allow = "access-control-allow-origin"
    assert preflight(client, "/api/search", SITE).headers[allow] == SITE
    assert allow not in preflight(client, "/api/search", STRANGER).headers
    assert preflight(client, "/api/search", SITE, "authorization").status_code == 400  # nor anybody's key
    for origin, expected in ((SITE, SITE), (STRANGER, None), ("null", None), (f"{SITE}.evil.example", None)):
        found = client.post("/api/search", json={"question": QUESTION}, headers={"Origin": origin}).headers
        assert (found.get(allow), found.get("access-control-allow-credentials")) == (expected, None)
    refused = client.post("/api/search", json={"question": QUESTION}, headers={"Origin": SITE})
    assert (refused.status_code, refused.headers[allow]) == (429, SITE)  # the page may say why
    assert client.get("/page/texts/de.json", headers={"Origin": SITE}).headers[allow] == SITE


def test_by_default_there_is_no_other_site(search: DeclaredPipeline) -> None:
    client = client_of(search)
    assert preflight(client, "/api/search", SITE).status_code == 405
    response = client.post("/api/search", json={"question": QUESTION}, headers={"Origin": SITE})
    assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "site",
    [
        "*",
        "null",
        "shop.example",
        "https://shop.example/",
        "https://shop.example/help",
        "https://*.example",
        "ftp://a.example",
    ],
)
def test_sites_are_origins(site: str) -> None:
    with pytest.raises(InputError, match="sites"):
        PageSettings(sites=[site])


def test_it_is_small() -> None:
    """With all that it loads, in the language that needs most; less than half as much travels with compression."""
    served_files = page_files(PageSettings())
    modules = [f"/page/{name}.js" for name in ("languages", "length", "marks", "otherwise", "typed")]
    parts = ("/widget.js", *modules)
    largest = max(len(file.content) for path, file in served_files.items() if path.startswith("/page/texts/"))
    assert sum(len(served_files[part].content) for part in parts) + largest < 27_000  # as docs/api.md says
