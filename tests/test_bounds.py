"""What is shown of a text, or kept of it, is at most a multiple of it; many things take no more than their number."""

from __future__ import annotations

import importlib
import json
import re
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hostile import SHAPES

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from haystack import Document

from ap_ranker import kept_results
from ap_ranker.data import column_names, tables
from ap_ranker.data.rows import check_columns
from ap_ranker.documents import html
from ap_ranker.errors import InputError
from ap_ranker.files import guarded
from ap_ranker.ranking.explanation import Token
from ap_ranker.text import languages, near_copies, question_words, reading
from ap_ranker.text.near_copies import forms_of
from ap_ranker.text.synonyms import MOST, read_synonyms
from ap_ranker.web import presentation
from ap_ranker.web.page.markdown import MAX_CHARACTERS, MOST_TIMES, to_html

kept_documents = importlib.import_module("haystack_integrations.components.retrievers.ap_ranker.kept_documents")
passages = importlib.import_module("ap_ranker.documents.passages")

KEPT_OF_QUESTIONS = (
    near_copies._kept_hash,
    near_copies._slips,
    question_words._kept_words,
    question_words._kept_spelling,
    column_names._kept_plain,
)

LENGTH = 6_000
AROUND = 100
"""Characters that stand around any text, such as the elements of a table."""


@pytest.mark.parametrize("length", [LENGTH, MAX_CHARACTERS + 1])
def test_html_is_a_multiple_of_its_text(length: int) -> None:
    texts = {name: text_of(length) for name, text_of in SHAPES.items()}
    sizes = {name: len(to_html(text)) for name, text in texts.items()}
    assert not {name: size for name, size in sizes.items() if size > MOST_TIMES * len(texts[name]) + AROUND}


def test_a_table_with_some_cells_missing_is_a_table() -> None:
    rows = "| a | b | c |\n|---|---|---|\n" + "| d |\n| e | f |\n" * 3
    assert to_html(rows).count("<tr>") == 7
    assert "<table>" in to_html("# Prices\n\n" + rows + "\n- a\n- b\n")


def test_an_answer_is_a_multiple_of_its_text() -> None:
    sizes = {}
    for name, text_of in SHAPES.items():
        text = reading.plain(text_of(LENGTH))
        found = Document(id="1", content=text, score=0.5, meta={"question": "a", "answer": text})
        [shown] = presentation.presented("a word?", [found], calibrated=True)
        sizes[name] = len(json.dumps(shown, ensure_ascii=False)) / (len(text) + AROUND)
    assert not {name: size for name, size in sizes.items() if size > MOST_TIMES + 5}


def test_a_heat_map_has_at_most_one_piece_for_each_character() -> None:
    tokens = [Token("a", start, start + 1, 1 / 3) for start in range(LENGTH)] * 2
    pieces = presentation.weighed(sorted(tokens, key=lambda token: token.start))
    assert pieces is not None
    assert len(pieces) <= LENGTH
    assert len(json.dumps(pieces)) < 80 * LENGTH


def test_a_spreadsheet_is_a_multiple_of_its_texts() -> None:
    assert not [name for name, text_of in SHAPES.items() if len(guarded(text_of(LENGTH))) > 2 * LENGTH + AROUND]


def test_a_long_heading_does_not_stand_whole_above_each_passage() -> None:
    text = f"# {'long ' * 1000}\n" + "## b\nc\n" * 500
    entries = passages.split(html.Converted(text, by="headings"), "manual.md")
    assert len(entries) == 500
    assert sum(len(entry.title) for entry in entries) < 500 * (passages.MAX_TITLE + 10)


def test_a_cell_that_spans_a_thousand_columns() -> None:
    text = "<table>" + "<tr><td colspan=1000>a</td></tr>" * 100 + "</table>"
    assert len(html.read_page(text).text) < 3 * len(text)


def test_synonyms_of_a_long_line_are_not_all_pairs(tmp_path: Path) -> None:
    path = tmp_path / "synonyms.txt"
    path.write_text(" = ".join(f"word{number}" for number in range(5000)))
    known = read_synonyms(path)
    assert len(known.others) == 5000
    assert max(map(len, known.others.values())) <= MOST
    assert known.others[("word7",)][:2] == (("word0",), ("word1",))


COUNT = 1_500
"""Rows, and columns: more cells than any small file may have."""

ROWS = [{"question": f"What is {number}?", "answer": f"It is {number}."} for number in range(COUNT)]
OTHERS = {f"column {number}": "a" for number in range(COUNT)}
LINES = "".join(f"{row['question']},{row['answer']}\n" for row in ROWS)
CODES = [
    "de",
    "fr",
    "es",
    "it",
    "nl",
    "pt",
    "pl",
    "tr",
    "sv",
    "da",
    "fi",
    "cs",
    "hu",
    "ro",
    "el",
    "ru",
    "uk",
    "ja",
    "zh",
]

TABLES_OF_MANY_CELLS = {
    "short rows.csv": ",".join(["question", "answer", *OTHERS]) + "\n" + LINES,
    "short rows.jsonl": "\n".join(map(json.dumps, [ROWS[0] | OTHERS, *ROWS])),
    "a field of each row.json": json.dumps([row | {f"column {at}": "a"} for at, row in enumerate(ROWS)]),
    "a field of each row.yaml": json.dumps([row | {f"column {at}": "a"} for at, row in enumerate(ROWS)]),
    "fields around rows.json": json.dumps(OTHERS | {"faq": ROWS}),
    "fields around rows that hold no pair.json": json.dumps(OTHERS | {"faq": [{"a": "b"}] * COUNT}),
    "fields around a conversation.json": json.dumps(
        OTHERS | {"chat": [{"role": role, "content": "a"} for role in ("user", "assistant") * COUNT]}
    ),
    "fields around questions as names.json": json.dumps(OTHERS | {"faq": {f"Why {at}?": "a" for at in range(COUNT)}}),
    "a list around rows.json": json.dumps({"tags": [*OTHERS], "faq": ROWS}),
    "one response of many intents.json": json.dumps(
        {
            "nlu": [{"intent": name, "examples": "- a"} for name in OTHERS],
            "responses": {"utter_a": [{"text": name} for name in OTHERS]},
            "rules": [{"steps": [{"intent": name}, {"action": "utter_a"}]} for name in OTHERS],
        }
    ),
    "languages beside columns.csv": ",".join(
        [*(f"question_{code},answer_{code}" for code in CODES), *[*OTHERS][: COUNT - 2 * len(CODES)]]
    )
    + "\n"
    + ("a?,b," * len(CODES) + "\n") * 650,
}


@pytest.mark.parametrize("name", TABLES_OF_MANY_CELLS)
def test_a_table_has_no_more_cells_than_its_file_holds(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(TABLES_OF_MANY_CELLS[name], encoding="utf-8")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=re.escape(str(path))) as refused:
            tables.read_named_table(path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "cells" in str(refused.value)
    assert str(refused.value).count(str(path)) == 1
    assert most < 500_000_000


@pytest.mark.parametrize("columns", [1, 30])
def test_columns_that_few_rows_fill_are_read(tmp_path: Path, columns: int) -> None:
    path = tmp_path / "faq.json"
    path.write_text(json.dumps([row | {f"column {at % columns}": "a"} for at, row in enumerate(ROWS)]))
    assert len(tables.read_named_table(path).rows) == COUNT


WIDE_TABLES = {
    "columns without a name behind": lambda count: "question,answer" + "," * count + "\n" + "a?,b\n" * count,
    "columns without a name before": lambda count: "," * count + "question,answer\n" + ("," * count + "a?,b\n") * 2,
    "one long row": lambda count: "question,answer\na?,b" + "," * count + "\n" + "a?,b\n" * count,
    "blank rows": lambda count: "question,answer" + "," * count + "\n" + "a?,b\n,\n" * count,
    "columns of languages": lambda count: ",".join(f"answer_{at}" for at in range(count)) + ",question,answer\na?,b\n",
    "names of nothing": lambda count: ",".join(f"column {at}" for at in range(count)) + "\na,b\n",
}


@pytest.mark.parametrize("name", WIDE_TABLES)
def test_the_time_of_a_wide_table_grows_with_its_length(tmp_path: Path, name: str) -> None:
    def seconds(count: int) -> float:
        path = tmp_path / "faq.csv"
        path.write_text(WIDE_TABLES[name](count), encoding="utf-8")
        started = time.process_time()
        with suppress(InputError):
            tables.read_named_table(path)
        return time.process_time() - started

    seconds(10)
    factor = min(seconds(8_000) / max(seconds(1_000), 0.005) for _ in range(3))
    assert factor < 8 * 2.5  # of pairs of rows and columns: 64


def test_names_of_many_columns() -> None:
    check_columns([f"column {number}" for number in range(200_000)], "faq.csv")  # each with all before: 40 minutes


def test_words_longer_than_words_are_not_kept() -> None:
    before = reading._words_of.cache_info().currsize, languages._stem.cache_info().currsize
    reading.read_words("退" * 1000 + " " + "b" * 1000, "english")
    assert (reading._words_of.cache_info().currsize, languages._stem.cache_info().currsize) == before


def test_results_are_kept_up_to_a_number_of_characters() -> None:
    read: list[str] = []

    @kept_results.keep(10)
    def double(text: str) -> str:
        read.append(text)
        return text * 2

    assert [double("abcd"), double("efgh"), double("abcd")] == ["abcdabcd", "efghefgh", "abcdabcd"]
    assert read == ["abcd", "efgh"]
    double("ijkl")  # in place of "efgh", which was used before "abcd"
    double("abcd")
    assert read == ["abcd", "efgh", "ijkl"]
    double("efgh")
    assert read[-1] == "efgh"
    double("longer than ten")
    double("longer than ten")
    assert read[-2:] == ["longer than ten"] * 2


def test_nothing_is_kept_of_long_words_of_questions() -> None:
    forms_of("a")  # reads its lists
    before = [kept.cache_info().currsize for kept in KEPT_OF_QUESTIONS]
    for letter in "abcdef":
        forms_of(letter * 9_000)
        column_names.plain(letter * 9_000)
    after = [kept.cache_info().currsize for kept in KEPT_OF_QUESTIONS]
    assert after == before


def test_long_documents_of_elasticsearch_are_forgotten_sooner() -> None:
    kept = kept_documents.KeptDocuments()
    long = Document(content="word " * 20_000)
    for number in range(kept_documents.MOST_CHARACTERS // 100_000 + 1):
        assert not kept.is_full
        kept.rows.clear()
        kept.add((str(number), 0), long, long.content or "", None)
        kept.documents.clear()  # of the test's own memory
    assert kept.is_full
