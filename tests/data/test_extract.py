"""Questions that documents ask themselves become entries of a FAQ."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from handbook import write_handbook
from hypothesis import given
from hypothesis import strategies as st
from refusals import absent, assert_refusal, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Entry, read_faq
from ap_ranker.documents import read_documents
from ap_ranker.documents.convert import convert
from ap_ranker.documents.extract import extract
from ap_ranker.documents.passages import split
from ap_ranker.documents.sections import asks
from ap_ranker.errors import InputError

GUIDE = """# Help center

Hello.

## How do I return a parcel?

Put the label on it.

### By mail

Any post office.

## Opening hours

Nine to five.

```sh
# Is this a heading?
```

<details><summary>Is delivery <i>free</i>?</summary>

Above **50 euro**, yes.

#### Abroad

No.

</details>

## Wie storniere ich

Per Mail.

## Wie storniere ich

Gar nicht.
"""

PAGE = """<html><head><title>Shop</title><link rel="canonical" href="https://x.example/p">
<script type="application/ld+json">{"@context": "https://schema.org", "@graph": [{"@type": ["FAQPage"], "mainEntity":
[{"@type": "Question", "name": "How do I pay?", "acceptedAnswer": {"@type": "Answer", "text": "By card."}},
 {"@type": "Question", "name": "Can I <b>cancel</b>?", "url": "https://x.example/p#cancel",
  "acceptedAnswer": [{"text": "<p>Yes &amp; no.</p>"}, {"text": "Call us."}]},
 {"@type": "Question", "name": "Unanswered?"}]}]}</script></head><body>
<h1>Payments</h1>
<section id="pay"><h2><button>How do I pay?</button></h2><p>By card &amp; cash.</p></section>
<h2>Terms</h2>
<dl><div><dt id="iban">IBAN</dt><dt>Account number</dt><dd>A long number.</dd><dd>Of a bank.</dd></div>
<dt>Alone</dt></dl>
<h2 id="bills">Bills</h2>
<details><summary>Late ones</summary>
 <details id="q1"><summary><h3>Where is my bill?</h3></summary>In your <b>account</b>.</details>
 <details><summary>And then?</summary>Pay.</details></details>
<details><summary>No content</summary></details>
<div itemscope itemtype="https://schema.org/Question" id="malta"><h3 itemprop="name">Do you ship to Malta?</h3>
<div itemprop="acceptedAnswer" itemscope><p itemprop="text">Daily.</p></div><p>Asked twice a week.</p></div>
</body></html>"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "handbook"
    root.mkdir()
    (root / "guide.md").write_text(GUIDE)
    (root / "page.html").write_text(PAGE)
    return root


FROM_GUIDE = {
    ("How do I return a parcel?", "Put the label on it.", "how-do-i-return-a-parcel"),
    ("Is delivery free?", "Above 50 euro, yes.\n\nAbroad\n\nNo.", "opening-hours"),
    ("Wie storniere ich", "Per Mail.", "wie-storniere-ich"),
    ("Wie storniere ich", "Gar nicht.", "wie-storniere-ich-1"),
}
FROM_PAGE = {
    ("How do I pay?", "By card & cash.", "pay"),
    ("Can I cancel?", "Yes & no.\n\nCall us.", "cancel"),
    ("IBAN", "A long number.\n\nOf a bank.", "iban"),
    ("Where is my bill?", "In your account.", "q1"),
    ("And then?", "Pay.", "bills"),
    ("Do you ship to Malta?", "Daily.", "malta"),
}


def test_each_kind_of_question(folder: Path) -> None:
    found = extract(folder)
    assert {(entry.question, entry.answer, source) for entry, source in found.entries} == {
        (question, answer, f"{file}#{anchor}")
        for file, expected in (("guide.md", FROM_GUIDE), ("page.html", FROM_PAGE))
        for question, answer, anchor in expected
    }
    assert found.kinds == {"heading": 4, "details": 3, "definition": 1, "JSON-LD": 1, "microdata": 1}
    assert Counter(source.partition("#")[0] for _, source in found.entries) == {"guide.md": 4, "page.html": 6}
    [wordings] = [entry.wordings for entry, _ in found.entries if entry.wordings]
    assert wordings == ("Account number",)


def test_passages_have_them_as_stored_questions(folder: Path) -> None:
    entries = read_documents(folder).entries

    def of(question: str) -> list[Entry]:
        return [entry for entry in entries if entry.question == question]

    [label] = of("How do I return a parcel?")
    assert (label.title, label.answer) == ("Help center", "Put the label on it.")
    [mail] = [entry for entry in of("") if "Any post office" in entry.answer]
    assert mail.title == "Help center > How do I return a parcel? > By mail"
    [pay] = of("How do I pay?")
    assert (pay.title, pay.other["url"]) == ("Payments", "https://x.example/p#pay")
    [bill] = of("Where is my bill?")
    assert bill.title == "Payments > Bills > Late ones"
    assert {entry.answer for entry in of("")} >= {"Hello.", "Alone"}


def test_what_is_no_whole_entry_stays_text(folder: Path) -> None:
    texts = "\n".join(entry.answer for entry in read_documents(folder).entries)
    for rest in ("Alone", "No content", "# Is this a heading?", "Asked twice a week."):
        assert rest in texts
    assert "Late ones" not in texts  # it is a title


@pytest.mark.parametrize("level", ["#", "##", "###", "######"])
def test_a_question_ends_at_the_next_heading(tmp_path: Path, level: str) -> None:
    """Of any level: what a handbook says below another heading is seldom part of the answer."""
    text = f"# Handbook\n\n## What is the policy?\n\nBe kind.\n\n{level} Not mentioning staff\n\nName nobody.\n"
    (tmp_path / "a.md").write_text(text)
    [[entry, _]] = extract(tmp_path).entries
    assert (entry.question, entry.answer) == ("What is the policy?", "Be kind.")
    [staff] = [one for one in read_documents(tmp_path).entries if one.answer == "Name nobody."]
    assert staff.question == ""
    assert staff.title.endswith("Not mentioning staff")


def test_a_question_without_text_of_its_own_is_a_title(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# How do I pay?\n\n## By card\n\nAt the till.\n\n## Cash\n\nNot here.\n")
    entries = read_documents(tmp_path).entries
    assert [(one.question, one.title) for one in entries] == [
        ("", "How do I pay? > By card"),
        ("", "How do I pay? > Cash"),
    ]


def test_one_heading_over_all_asks_for_its_own_text_only(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# What is it?\n\nA shop.\n\n## Hours\n\nNine to five.\n")
    [[entry, source]] = extract(tmp_path).entries
    assert (entry.question, entry.answer, source) == ("What is it?", "A shop.", "a.md#what-is-it")
    hours = read_documents(tmp_path).entries[1]
    assert (hours.question, hours.title) == ("", "What is it? > Hours")


@pytest.mark.parametrize(
    "text",
    [
        "Returns?",
        "返品できますか？",
        "هل يمكنني الإرجاع؟",
        "How to pay",
        "What's new",
        "Can I cancel my order",
        "Is the shop open on Sundays",
        "1.2 Where is my parcel",
        "Wie storniere ich",
        "Welche Fristen gelten",
        "Womit kann ich zahlen",
        "Kann ich stornieren",
        "»Was kostet das?«",
    ],
)
def test_headings_that_ask(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize(
    "text", ["Returns", "Can openers", "May 2026", "Will and testament", "Wasser", "Howitzers", "Why", "Wien", "?", ""]
)
def test_headings_that_state(text: str) -> None:
    assert not asks(text)


def test_copies_are_merged(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Top\n\n## How do I pay?\n\nBy card.\n")
    (tmp_path / "b.md").write_text("# Top\n\n## HOW do I  pay\n\nBy card. Or in cash!\n")
    (tmp_path / "c.md").write_text("# Top\n\n## How do I pay?\n\nNot at all.\n")
    found = extract(tmp_path)
    assert [(entry.answer, source) for entry, source in found.entries] == [
        ("By card. Or in cash!", "b.md#how-do-i--pay"),
        ("Not at all.", "c.md#how-do-i-pay"),
    ]
    assert found.merged == 1


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["extract", *map(str, arguments)])


def test_a_faq_to_edit(folder: Path, tmp_path: Path) -> None:
    (folder / "scan.docx").write_bytes(b"")
    (folder / "plain.txt").write_text("No question.")
    result = run(folder, "--output", tmp_path / "FAQ.csv")
    assert result.exit_code == 0, result.output
    for line in (
        "4 headings that ask",
        "1 files ask no question",
        "scan.docx: left out: expected a Word document",
        "10 questions with answers",
    ):
        assert line in result.output
    with (tmp_path / "FAQ.csv").open(newline="") as file:
        assert next(csv.reader(file)) == ["source", "question", "answer", "wordings"]
    entries = read_faq(tmp_path / "FAQ.csv")
    assert {(entry.question, entry.answer) for entry in entries} == {each[:2] for each in FROM_GUIDE | FROM_PAGE}

    before = (tmp_path / "FAQ.csv").read_bytes()
    again = run(folder, "--output", tmp_path / "FAQ.csv").exception
    assert_refusal("--overwrite", again)
    assert (tmp_path / "FAQ.csv").read_bytes() == before
    assert run(folder, "--output", tmp_path / "FAQ.csv", "--overwrite").exit_code == 0
    assert "would find each answer twice" in run(folder, "--output", folder / "FAQ.csv").output


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        (
            "a.md",
            "# Title\n\nText.",
            "a.md … 1 … ap-ranker serve",
        ),
        ("a.csv", "question,answer\nq,a\n", "table … ap-ranker serve"),
        ("a.png", "", ".md"),
    ],
)
def test_nothing_to_extract(tmp_path: Path, name: str, content: str, facts: str) -> None:
    (tmp_path / name).write_text(content)
    with refused(facts):
        extract(tmp_path / name)
    assert isinstance(run(tmp_path / name, "--output", tmp_path / "x.csv").exception, InputError)
    assert not (tmp_path / "x.csv").exists()
    assert not absent("nowhere", run(tmp_path / "nowhere", "--output", tmp_path / "x.csv").exception)
    assert not absent("x.xlsx … .csv", run(tmp_path / name, "--output", tmp_path / "x.xlsx").exception)


@pytest.mark.parametrize("text", ["{bad", "[" * 100_000, "{}{}"])
def test_json_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.html").write_text(f'<script type="application/ld+json">{text}</script><h1>Who?</h1><p>Me.')
    [left] = extract(tmp_path).left_out
    assert "JSON-LD" in str(left)


_JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["@type", "name", "text", "acceptedAnswer", "url", "mainEntity"]), inner)
    ),
)


@given(value=_JSON)
def test_any_json_is_no_error(value: Any) -> None:
    question = {"@type": "Question", "name": "Why?", "acceptedAnswer": {"text": "So."}, "more": value}
    text = json.dumps(question).replace("<", "\\u003c")
    page = f'<script type="application/ld+json">{text}</script><p>x</p>'
    assert "Why?" in {entry.question for entry in convert(page.encode(), Path("a.html")).markup_questions}


_TAGS = ["<details>", "</details>", "<summary>", "</summary>", "<dl>", "</dl>", "<dt>", "<dd>", "<h2>", "</h2>", "<p>"]


@given(parts=st.lists(st.sampled_from([*_TAGS, *(f"word{i} " for i in range(6))]), max_size=30))
def test_no_word_is_lost(parts: list[str]) -> None:
    converted = convert("".join(["<p>start</p>", *parts]).encode(), Path("a.html"))
    passages = split(converted, "a")
    found = " ".join(" ".join([each.title, each.question, *each.wordings, each.answer]) for each in passages)
    found += f" {converted.text}"  # a heading without anything below it is no passage
    assert {part.strip() for part in parts if part.startswith("word")} <= set(re.findall(r"\w+", found))


def test_the_folder_of_all_kinds(tmp_path: Path) -> None:
    found = extract(write_handbook(tmp_path / "handbook"))
    assert {(entry.question, entry.answer) for entry, _ in found.entries} == {
        ("How do I return a kayak?", "Kleb das Etikett auf & bring es zum Laden."),
        ("Is it free?", "Yes, within Lapland."),
    }
