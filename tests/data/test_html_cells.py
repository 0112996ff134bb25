"""Cells that hold HTML; Markdown and texts about HTML, which stay as they are; and what the product writes itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ap_ranker.data.faq import Entry, read_faq, write_entries
from ap_ranker.data.html_cells import as_cell, shown_text
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import question_lines, split_file

HTML = [
    ("<p>Within <b>30</b> days.</p>", "Within 30 days."),
    ("<b>No</b>", "No"),
    ("<b>No</b>, but by card.", "No, but by card."),
    ("Within <b>30 days</b> of delivery.", "Within 30 days of delivery."),
    ("Click <strong>Save</strong>.", "Click Save."),
    ("one<br>two", "one\ntwo"),
    ("one<BR/>two", "one\ntwo"),
    ("<ul><li>a</li><li>b</li></ul>", "- a\n- b"),
    ('<a href="https://x.example">here</a>', "[here](https://x.example)"),
    ('Use <a href="https://x.example">this form</a>.', "Use [this form](https://x.example)."),
    ('Write <span style="color: red">your name</span>.', "Write your name."),
    (
        '<a href="https://x.example">here<a href="https://y.example">there</a>',
        "[here](https://x.example)[there](https://y.example)",
    ),
    ("<B>a</b>", "a"),
    ("1 < 2<br>3 > 2", "1 < 2\n3 > 2"),
    ("a<br><!-- not <b>shown</b> -->b", "a\nb"),
    ("a<br><!-- without an end", "a\n<!-- without an end"),
    ("a<br><!DOCTYPE html>b<?php?>", "a\nb"),
    ("a<br><![if mso]>b<![endif]>", "a\nb"),
    ("a<br><![x>", "a"),
    ("a<br><![CDATA[b]]>", "a"),
    ('a<br><b c="', 'a\n<b c="'),
    ("a<br><script>b</script>c", "a\nc"),
    ("<p>a</p><style>p {}</style>", "a"),
    ("<p>Say &quot;Hi&quot; &amp; go.</p>", 'Say "Hi" & go.'),
    ("<p>Give <your name> and <x>y</x>.</p>", "Give <your name> and <x>y</x>."),
    ("<figure><figcaption>The app</figcaption></figure><p>a</p>", "The app\n\na"),
    ('<p>See <iframe src="https://video.example/1"></iframe></p>', "See https://video.example/1"),
    ("<details><summary>More</summary>a</details>", "More\na"),
    ("Tom &amp; Co", "Tom & Co"),
    ("&copy; 2024, &euro;5, &uuml;ber", "© 2024, €5, über"),
    ("one<br>\ntwo", "one\ntwo"),
    ("one&nbsp;two", "one two"),
    ("<div>The HTML tag</div>", "The HTML tag"),
]

LINES = [
    ("First line\n  Second <b>line</b>\n\nThird", "First line\n  Second line\n\nThird"),
    ("- one\n  - <b>two</b>\n- three", "- one\n  - two\n- three"),
    ("1. one\n   2. <i>two</i>", "1. one\n   2. two"),
    ("**Yes**, <u>always</u>:\n\n    indented  twice", "**Yes**, always:\n\n    indented  twice"),
    ("# Title\n\nText  with <em>one</em> word", "# Title\n\nText  with one word"),
    ("- one<br>\n  - two", "- one\n  - two"),
    ("| a | b<br>c |", "| a | b c |"),
]

AS_IT_IS = [
    "Write <b> for bold.",
    "</b>a<b>",
    "`<b>x</b>`",
    "Write `<b>x</b>` for bold.",
    "Write ``<p>x</p>``.",
    "```html\n<p>x</p>\n```",
    "~~~\n<a href='x'>y</a>\n~~~\nand <p>more</p>",
    "Use `&amp;` for an ampersand, as in R&amp;D.",
    "write <b>your name</b>",
    "Type <b>your name</b> there.",
    "Schreiben Sie <b>Ihr Name</b>.",
    "Put it between <b> and </b>.",
    "The pair <b>...</b> makes it bold.",
    "The HTML tag <i>x</i> is for italics.",
    "Use <br> for a new line.",
    "Insert &nbsp; for a space.",
    "Write &lt;b&gt; in HTML.",
    "<your name>",
    "Say <name>, <street>.",
    "a < b and c > d",
    "List<String> and Map<a>",
    "<script>alert(1)</script>",
    "Put <script>x()</script> there.",
    "https://x.example/?a=1&b=2",
    "AT&T",
    "R&D; and &nothing;",
    "x <3",
    "<3 <b 3>",
]


@pytest.mark.parametrize(("cell", "expected"), HTML + LINES)
def test_html_is_shown_as_text(cell: str, expected: str) -> None:
    assert shown_text(cell) == expected


@pytest.mark.parametrize("cell", AS_IT_IS)
def test_what_is_no_html_stays(cell: str) -> None:
    assert shown_text(cell) == cell


ODD = [cell for cell, _ in HTML + LINES] + AS_IT_IS
ODD += ["&#60;b&#62;", "&amp;lt;", "&#38;", "\\n", "C:\\new", "a\\nb<br>", "&lt;p&gt;HTML&lt;/p&gt;", "`&` <p>x</p>"]


@pytest.mark.parametrize("text", ODD)
def test_what_is_written_is_read_again(text: str) -> None:
    assert shown_text(as_cell(text)) == text


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The texts of a row as others; no text with a real line end, by which escapes would be told."""
    texts = [text for text in ODD if "\n" not in text]
    entries = [Entry(f"{text} {i}", text, {}, "", (f"w {text} {i}",)) for i, text in enumerate(texts)]
    path = tmp_path / "faq.csv"
    write_entries(entries, path)
    read = read_faq(path)
    assert [(one.question, one.answer, one.wordings) for one in read] == [
        (one.question, one.answer, one.wordings) for one in entries
    ]


def test_a_split_has_the_texts_of_its_file(tmp_path: Path) -> None:
    texts = ["Write &lt;b&gt;x&lt;/b&gt;", "one &lt;br&gt; two", "<p>three</p>", "a \\n b", "&amp;lt;", "<b>x</b> y"]
    lines = [
        {"question": f"{word} &lt;b&gt;{word}&lt;/b&gt;", "answer": f"{text} {word}"}
        for word, text in zip(("parcel", "invoice", "voucher", "account", "return", "size"), texts, strict=True)
    ]
    file = tmp_path / "faq.json"
    file.write_text(json.dumps(lines))
    parts = split_file(file, tmp_path / "parts", share=0.2)
    for name, part in parts.items():
        read = read_dataset(tmp_path / "parts", name)
        assert [question.text for question in read.questions] == [question.text for question in part.questions]
        assert [answer.text for answer in read.answers] == [answer.text for answer in part.answers]
        lines_file = tmp_path / f"{name}.jsonl"
        lines_file.write_text(question_lines(part))
        again = read_dataset(lines_file, "dev")
        assert [question.text for question in again.questions] == [question.text for question in part.questions]
