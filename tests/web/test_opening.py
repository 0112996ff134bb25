"""What the page opens with: questions of the FAQ, its topics, and never what somebody else has typed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from haystack import Document
from searches import filled, write_pipeline

from ap_ranker.data.faq import Entry, Match
from ap_ranker.errors import InputError
from ap_ranker.ranking.bm25 import shared_words
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.offered_questions import LONGEST_QUESTION
from ap_ranker.web.browse import COUNT, MAX_QUESTIONS, MAX_TOPICS, Catalogue
from ap_ranker.web.judgements import LEAST_NETWORKS, Judgements
from ap_ranker.web.page.settings import PageSettings
from haystack_integrations.common.ap_ranker.entries import to_document

from .visiting import answers, click, client_of, judgements_of


def documents(*rows: tuple[str, str]) -> list[Document]:
    return [
        Document(content=f"{number}", meta={"question": each, "category": topic})
        for number, (each, topic) in enumerate(rows)
    ]


ROWS = [("a?", "A"), ("b?", "B"), ("aa?", "A"), ("c?", ""), ("bb?", "B"), ("aaa?", "A"), ("aaaa?", "A")]


def test_each_topic_begins() -> None:
    """The first of each in the FAQ's order, then the second; what has no topic is there, too."""
    catalogue = Catalogue(documents(*ROWS))
    assert catalogue.by_topic == {"A": ["a?", "aa?", "aaa?", "aaaa?"], "B": ["b?", "bb?"], "": ["c?"]}
    assert catalogue.beginning() == ["a?", "b?", "c?", "aa?", "bb?", "aaa?"]
    assert Catalogue(()).beginning() == []


def test_what_is_preferred_begins_if_it_is_in_the_faq() -> None:
    catalogue = Catalogue(documents(*ROWS))
    begun = catalogue.beginning(["aaaa?", "Call 0900 FRAUD", "b?", "aaaa?"])
    assert begun == ["aaaa?", "b?", "a?", "c?", "aa?", "bb?"]


def test_nearly_equal_questions_are_one() -> None:
    same = "How long does it take until my parcel arrives in Norway"
    zones = [f"What does a parcel to a country of the shipping zone {zone} cost?" for zone in (1, 2)]
    rows = [(f"{same}?", "A"), (f"{same.upper()} ??", "A"), (f"{same}, please?", "A"), *((zone, "A") for zone in zones)]
    assert Catalogue(documents(*rows, (f"{same}?", "B"))).by_topic == {"A": [f"{same}?", *zones], "B": [f"{same}?"]}


def test_passages_count_by_their_titles() -> None:
    titles = ["Handbook > Returns > By post", "Handbook > Returns > By post", "Handbook > Hours", "Rules"]
    passages = [Document(content=str(row), meta={"title": title}) for row, title in enumerate(titles)]
    passages.append(Document(content="x", meta={"title": "Handbook", "question": "How do I start?"}))
    passages.append(Document(content="nothing is known of it"))
    expected = {"Handbook": ["Returns > By post", "Hours", "How do I start?"], "Rules": ["Rules"]}
    assert Catalogue(passages).by_topic == expected


def test_a_large_faq_is_browsed_in_part() -> None:
    rows = [(f"{'abcdefgh'[row % 8] * 9} {row}?", "A") for row in range(MAX_QUESTIONS + 5)]
    rows += [(f"{row}?", f"topic {row}") for row in range(MAX_TOPICS + 5)]
    by_topic = Catalogue(documents((f"{'x' * LONGEST_QUESTION}?", "A"), *rows)).by_topic
    assert (len(by_topic), len(by_topic["A"])) == (MAX_TOPICS, MAX_QUESTIONS)


def with_topics(tmp_path: Path, checkpoint: Path) -> DeclaredPipeline:
    search = filled(write_pipeline(tmp_path, checkpoint, top_k=20))
    rows = [
        (f"What does the {name} cost?", f"The {name} costs {price} euros.", "Prices")
        for price, name in enumerate(["bell", "lamp"])
    ]
    rows.append(("Who are you?", "A shop.", "About us"))
    search.index(
        [to_document(Entry(question, answer, {"topic": topic}, ""), Match.both) for question, answer, topic in rows]
    )
    return search


def test_the_route(tmp_path: Path, checkpoint: Path) -> None:
    client = client_of(with_topics(tmp_path, checkpoint), page=PageSettings(categories="topic"))
    opened = client.post("/api/browse", json={}).json()
    assert opened["topics"] == {"Prices": 2, "About us": 1}
    assert len(opened["questions"]) == COUNT
    assert client.post("/api/browse", json={"topic": "Prices"}).json() == {
        "questions": ["What does the bell cost?", "What does the lamp cost?"],
        "topics": {},
    }
    for topic, status in (("Prizes", 404), ("__proto__", 404), ("", 422), ("x" * 1001, 422), (3, 422)):
        refused = client.post("/api/browse", json={"topic": topic})
        assert (refused.status_code, list(refused.json())) == (status, ["error"])
    assert client.get("/api/browse").status_code == 405


def test_browsing_counts_as_searching(search: DeclaredPipeline) -> None:
    client = client_of(search, rate=1)
    asked = [client.post("/api/browse", json={}).status_code for _ in range(4)]
    assert (asked[0], asked[-1]) == (200, 429)


def test_the_owners_choice(search: DeclaredPipeline) -> None:
    chosen = ["Are you open on Sundays?", "Where is my parcel?"]
    client = client_of(search, page=PageSettings(questions=chosen))
    assert client.post("/api/browse", json={}).json()["questions"] == chosen
    with pytest.raises(InputError, match="questions"):
        PageSettings(questions=["x" * 121])


def beginning(search: DeclaredPipeline) -> list[str]:
    found: list[str] = client_of(search, "198.51.100.1").post("/api/browse", json={}).json()["questions"]
    return found


def test_popular_is_what_helped_many_networks(search: DeclaredPipeline) -> None:
    """Nobody alone moves a question, however much they click, and from however many addresses of their network."""
    before = beginning(search)
    question = "quagga my bike"
    worst = next(one for one in answers(client_of(search), question) if one["question"] == before[-1])

    def helped(address: str, name: str) -> None:
        assert click(client_of(search, address), worst, question=question, visit=name) == 200

    for number in range(30):
        helped(f"203.0.113.{number}", f"v{number}")
    for network in range(LEAST_NETWORKS - 2):
        helped(f"198.18.{network}.1", f"w{network}")
    assert beginning(search) == before
    helped("192.0.2.9", "x")
    assert beginning(search) == [before[-1], *before[:-1]]
    assert not [text for text in beginning(search) if "quagga" in text]


def test_a_question_that_is_no_longer_in_the_faq_does_not_begin(search: DeclaredPipeline) -> None:
    judgements = Judgements(judgements_of(search).database)
    for network in range(LEAST_NETWORKS):
        said = {"question": "q", "answer": "a", "stored_question": "Call 0900 FRAUD"}
        judgements.keep(**said, helped=True, network=f"n{network}", visit=f"v{network}")
    assert judgements.most_helpful(9) == ["Call 0900 FRAUD"]
    assert "Call 0900 FRAUD" not in beginning(search)


def test_what_did_not_help_is_not_popular(search: DeclaredPipeline) -> None:
    judgements = Judgements(judgements_of(search).database)
    for network in range(3 * LEAST_NETWORKS):
        for name, helped in (
            ("A", network < LEAST_NETWORKS),
            ("B", True),
            ("C", network < LEAST_NETWORKS - 1),
            ("", True),
        ):
            said = {"question": name, "answer": name, "stored_question": name}
            judgements.keep(**said, helped=helped, network=f"n{network}", visit=f"v{network}")
    assert judgements.most_helpful(9) == ["B", "A"]
    assert judgements.most_helpful(1) == ["B"]


def test_a_database_that_fails_leaves_the_faqs_order(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    before = beginning(search)

    def fail(*_: object) -> list[str]:
        raise InputError("the database is gone")

    monkeypatch.setattr(Judgements, "most_helpful", fail)
    assert beginning(search) == before != []


@pytest.mark.parametrize(
    ("question", "text", "language", "expected"),
    [
        ("How do I return my bikes?", "Return a BIKE, or bikes. I do.", None, ["return", "bikes"]),
        ("How do I return my bikes?", "Returning a BIKE, or bikes.", "english", ["returning", "bike", "bikes"]),
        ("Wie storniere ich die Bestellung", "Die Bestellung stornieren Sie.", "german", ["bestellung", "stornieren"]),
        ("informacion", "La información.", None, ["información"]),
        ("自行车怎么退货", "您的自行车可以退货。", None, ["自", "行", "车", "退", "货"]),
        ("كم سعر الدراجة؟", "سعر الدراجات للدراجة", None, ["سعر", "للدراجة"]),
        ("1000€?", "Coûte 1 000 €, ou 1.000 €.", None, ["1 000", "1.000"]),
        ("My email", "By E-Mail to mail@shop.example", None, ["e-mail"]),
        ("mail", "By e-mail", None, ["mail"]),
        ("401k", "The 401(k) plan", None, ["401(k"]),
        ("the of and", "the of and", None, []),
        ("", "a text", None, []),
        ("<b>&", "<b>&", None, ["b"]),
    ],
)
def test_words_that_matched(question: str, text: str, language: str | None, expected: Sequence[str]) -> None:
    assert shared_words(question, text, language) == expected


# In a browser.

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from forked import served  # noqa: E402
from playwright.sync_api import Browser, Page, expect  # noqa: E402

from .accessibility import axe_faults, is_as_wide_as_its_window  # noqa: E402
from .browsing import ask, maybe, opened, wait_for_the_model  # noqa: E402

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}

ARABIC = [
    ("كيف أعيد الدراجة؟", "أعد الدراجة خلال 30 يومًا. اتصل بالرقم <b>123</b>.", "الإرجاع"),
    ("متى يصل الطرد؟", "يصل الطرد خلال ثلاثة أيام.", "التوصيل"),
    ("كم تكلفة التوصيل؟", "التوصيل مجاني فوق 50 يورو.", "التوصيل"),
]
JAPANESE = [
    ("自転車を返品できますか？", "自転車は30日以内に返品できます。", "返品"),
    ("荷物はいつ届きますか？", "荷物は3日以内に届きます。", "配送"),
    ("配送料はいくらですか？", "50ユーロ以上は無料です。", "配送"),
]
HANDBOOK = """# Staff handbook

## Returns

### By post

Put the label on the parcel.

## What do we say about staff?

We praise the team.

#### Not mentioning staff

Name nobody.
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    folder = tmp_path_factory.mktemp("opening")
    write_pipeline(folder, checkpoint, top_k=20)
    for name, rows in (("ar", ARABIC), ("ja", JAPANESE)):
        lines = [json.dumps({"question": one, "answer": two, "category": three}) for one, two, three in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / "handbook").mkdir()
    (folder / "handbook" / "staff.md").write_text(HANDBOOK)
    (folder / "page.yaml").write_text("contact: help@fjord.example\n")
    return folder


OPTIONS = ("--pipeline", "search.yaml", "--page", "page.yaml", "--rate", "0", "--score-threshold", "-1")


@pytest.fixture(scope="module")
def addresses(place: Path) -> Iterator[dict[str, str]]:
    with (
        served(*OPTIONS, "--documents", "ar.jsonl", folder=place) as arabic,
        served(*OPTIONS, "--documents", "ja.jsonl", folder=place) as japanese,
        served(*OPTIONS, "--documents", "handbook", folder=place) as handbook,
    ):
        for server in (arabic, japanese, handbook):
            wait_for_the_model(server.address)
        yield {"ar": arabic.address, "ja": japanese.address, "handbook": handbook.address}


@pytest.mark.parametrize(
    ("language", "rows", "window"), [("ar", ARABIC, PHONE), ("ja", JAPANESE, {})], ids=["Arabic", "Japanese"]
)
def test_everybody_can_use_the_page_in(
    browser: Browser, addresses: dict[str, str], language: str, rows: Any, window: Any
) -> None:
    with opened(browser, addresses[language], language, **window) as page:

        def check() -> None:
            assert axe_faults(page) == []
            assert is_as_wide_as_its_window(page)

        expect(page.locator("#opening .asked a")).to_have_count(3)
        check()
        page.locator("#opening .topics a").filter(has_text=rows[1][2]).click()
        expect(page.locator("#opening .asked a")).to_have_text([rows[1][0], rows[2][0]])
        check()
        page.locator("#opening .asked a").first.click()
        first = page.locator("#answers article").first
        expect(first.locator(".stored")).to_have_text(rows[1][0])
        expect(first.locator("mark.shared").first).to_be_visible()
        expect(page.locator("#opening")).to_be_hidden()
        check()
        first.locator(".no").click()
        expect(first.locator(".comment")).to_be_visible()
        check()


def test_the_way_through_topics_is_the_browsers(browser: Browser, addresses: dict[str, str]) -> None:
    address = addresses["ja"]
    with opened(browser, address, "en") as page:
        expect(page.get_by_role("heading", level=2)).to_have_text(["Frequently asked questions", "Categories"])
        topic = page.get_by_role("link", name="配送 (2)")
        assert re.fullmatch(r"/\?category=%E9%85%8D%E9%80%81", topic.get_attribute("href") or "")
        topic.focus()
        page.keyboard.press("Enter")
        expect(page).to_have_title(re.compile("^配送 – "))
        expect(page.get_by_role("heading", level=2)).to_have_text("配送")
        page.get_by_role("link", name="配送料はいくらですか？").click()
        expect(page.get_by_role("combobox")).to_have_value("配送料はいくらですか？")
        expect(page.locator("#answers article").first).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", level=2)).to_have_text("配送")
        page.get_by_role("link", name="All categories").click()
        expect(page).to_have_url(address)
        expect(page.locator("#opening .topics a")).to_have_count(2)
        page.go_back()
        page.reload()
        expect(page.locator("#opening .asked a")).to_have_count(2)


def test_a_topic_that_is_gone(browser: Browser, addresses: dict[str, str]) -> None:
    address = f"{addresses['ja']}?category=%3Cimg%20src=x%20onerror=alert(1)%3E"
    with opened(browser, address, "en", refused="/api/browse") as page:
        expect(page.locator("#opening .asked a")).to_have_count(3)
        assert page.locator("main img").count() == 0


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("Coûte 1\u202f000 €, 1 000 ou 11 000", ["1 000"], ["1\u202f000", "1 000"]),
        ("E\u2011Mail, e-mail, mail", ["e-mail"], ["E\u2011Mail", "e-mail"]),
        ("l\u2019eau, l'eau, eau", ["l'eau"], ["l\u2019eau", "l'eau"]),
        ("Use C++, not C or c#", ["c++"], ["C++"]),
        ("The 401(k) plan", ["401(k"], ["401(k"]),
    ],
)
def test_words_are_marked_as_they_are_written(
    browser: Browser, addresses: dict[str, str], text: str, words: list[str], expected: list[str]
) -> None:
    script = """async ([text, words]) => {
        const { mark } = await import(new URL("page/marks.js", document.baseURI));
        const element = Object.assign(document.createElement("p"), { textContent: text });
        mark([element], words);
        return [element.textContent, [...element.querySelectorAll("mark")].map((each) => each.textContent)];
    }"""
    with opened(browser, addresses["ja"], "en") as page:
        assert page.evaluate(script, [text, words]) == [text, expected]


def passage(page: Page, text: str) -> Any:
    return page.locator("#answers article").filter(has=page.locator(".text", has_text=text))


def test_a_passage_has_the_titles_above_it(browser: Browser, addresses: dict[str, str]) -> None:
    with opened(browser, addresses["handbook"], "en") as page:
        asked = [
            "Returns > By post",
            "What do we say about staff?",
            "What do we say about staff? > Not mentioning staff",
        ]
        expect(page.locator("#opening .asked a")).to_have_text(asked)
        ask(page, "label on the parcel")
        label = passage(page, "Put the label")
        expect(label.locator(".path")).to_have_text("Staff handbook › Returns")
        expect(label.locator(".stored")).to_have_text("By post")
        expect(label.locator(".source")).to_have_text("staff.md")
        assert [mark.inner_text() for mark in label.locator("mark").all()] == ["label", "parcel"]
        ask(page, "what do we say about staff")
        answer = passage(page, "We praise the team.")
        expect(answer.locator(".stored")).to_have_text("What do we say about staff?")
        expect(answer.locator(".text")).not_to_contain_text("Name nobody")
        nobody = passage(page, "Name nobody.")
        expect(nobody.locator(".stored")).to_have_text("Not mentioning staff")


def test_near_questions_are_shown_once(browser: Browser, addresses: dict[str, str]) -> None:
    """Of what asks nearly the same, the best is shown, and the others below it; other numbers ask something else."""
    script = """async (questions) => {
        const { group } = await import("/page/groups.js");
        const answer = (question, row) => ({ question, answer: `Answer ${"abcdef"[row]}`, category: "" });
        const groups = group(questions.map(answer)).map(({ answer, others }) => [answer, ...others]);
        return groups.map((each) => each.map(({ question }) => question));
    }"""
    with opened(browser, addresses["ja"], "en") as page:
        same = ["How do I return a bike that I have bought?", "how do I return a bike that I have bought ?!"]
        zones = ["What does shipping to the zone 1 cost?", "What does shipping to the zone 2 cost?"]
        assert page.evaluate(script, [*same, *zones, "", ""]) == [same, zones[:1], zones[1:], [""], [""]]


def test_contact_is_offered_for_a_maybe(browser: Browser, addresses: dict[str, str]) -> None:
    with opened(browser, addresses["ja"], "en") as page:
        page.route("**/api/search", lambda route: route.fulfill(json=maybe(question="Rent?", html="<p>b</p>")))
        ask(page, "rent & more?")
        contact = page.get_by_role("link", name="Send us your question")
        carried = "mailto:help@fjord.example?subject=rent%20%26%20more%3F&body=rent%20%26%20more%3F"
        expect(contact).to_have_attribute("href", carried)
