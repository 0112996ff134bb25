"""Cells that hold HTML; Markdown and texts about HTML, which stay as they are; and what the product writes itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from odd_cells import AS_IT_IS, HTML, LINES, ODD

from ap_ranker.data.faq import Entry, read_faq, write_entries
from ap_ranker.data.html_cells import as_cell, shown_text
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.split import question_lines, split_file


@pytest.mark.parametrize(("cell", "expected"), HTML + LINES)
def test_html_is_shown_as_text(cell: str, expected: str) -> None:
    assert shown_text(cell) == expected


@pytest.mark.parametrize("cell", AS_IT_IS)
def test_what_is_no_html_stays(cell: str) -> None:
    assert shown_text(cell) == cell


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
