"""The time that a text takes grows with its length, not with its square, for everything that reads or shows texts.

Each reader gets every shape of `hostile.py`, and the same three times doubled. The time of the processor may grow
somewhat more than the length, by which it is divided; that of a reader that goes from each character to all others
grows eight times as much.
"""

from __future__ import annotations

import gc
import importlib
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hostile import SHAPES

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from haystack import Document

from ap_ranker.cli import console
from ap_ranker.data import chat_files, column_names, html_cells, json_tables, several_texts, tables
from ap_ranker.data.audit import repairs
from ap_ranker.data.placeholders import says_nothing
from ap_ranker.data.rows import check_columns, stripped
from ap_ranker.documents import convert, exports, html, markup_questions
from ap_ranker.errors import InputError, one_line
from ap_ranker.files import guarded, unguarded
from ap_ranker.ranking.bm25 import BM25, shared_words
from ap_ranker.ranking.faq_sketch import FAQSketch
from ap_ranker.search.load_pipeline import safe_line, without_credentials
from ap_ranker.text import reading
from ap_ranker.text.guessed_words import Consonants, pieces_of
from ap_ranker.text.language_detection import detect_language
from ap_ranker.text.near_copies import forms_of, near_groups
from ap_ranker.text.nearest_word import NearestWords
from ap_ranker.text.question_keys import question_key, question_keys
from ap_ranker.text.question_parts import question_parts
from ap_ranker.text.question_words import question_words
from ap_ranker.text.synonyms import read_synonyms
from ap_ranker.text.telephones import telephone_words
from ap_ranker.text.tokenizer import WordTokenizer, split_words, symbols_apart
from ap_ranker.text.typed import read_typed
from ap_ranker.training.augment import _SENTENCE_END
from ap_ranker.web import presentation
from ap_ranker.web.page import markdown, settings
from ap_ranker.web.suggestions import Suggestions

question_paragraphs = importlib.import_module("ap_ranker.documents.question_paragraphs")
passages = importlib.import_module("ap_ranker.documents.passages")
sections = importlib.import_module("ap_ranker.documents.sections")

Reader = Callable[[str], Any]

MOST = 3.2
"""Times that the time may grow more than the length over three doublings; a reader of pairs has 8. What is presented of
all ASCII signs has up to 2.6 on a machine that does nothing else, as memory gets slower with its size."""

LEAST = 0.006
"""Seconds below which nothing is said of a time."""

TOO_LONG = 1.0
"""Seconds for a text of a quarter of the length, after which no longer one is read."""

FAST, MIDDLE, SLOW = 24_000, 8_000, 3_200
"""Largest number of characters for a reader of this speed, so that all of them together take less than a minute."""

KNOWN_WORDS = "where is my parcel refund word lamp head languages help password donau dampfschiff 退 款"


def pieces(text: str, length: int = 60) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]


def document(text: str) -> Document:
    return Document(id="1", content=text, score=0.5, meta={"question": text[:300], "answer": text})


def refusing(read: Reader) -> Reader:
    """A reader that may refuse a text."""

    def reader(text: str) -> Any:
        try:
            return read(text)
        except InputError:
            return None

    return reader


LABELS = ("", "q", "Q no. 1", "question 1.", "a", "answer 1", "2.", "faq -")


def of_labels(text: str) -> Any:
    """Labels of questions and answers, with a text behind that may belong to them."""
    lines = [label + text for label in LABELS]
    return [convert.text_with_questions(line) for line in lines], list(map(question_paragraphs.without_label, lines))


def of_json_ld(text: str) -> Any:
    for inner in (text, f'{{"a" {text} b', f'{{"a": "b"}} // {text}', f"/* {text} {{"):
        with suppress(ValueError, RecursionError):
            markup_questions._parse_json_ld(inner)


def of_name_below(text: str) -> Any:
    return question_words(f"Where is my parcel?\n{text}1")


def of_rasa(text: str) -> Any:
    value = {"nlu": [{"intent": "a", "examples": text}], "responses": {"utter_a": [{"text": text}]}}
    return list(chat_files.rasa_intents(value))


def of_json(text: str) -> Any:
    rows = [{"question": part, "answer": {"rendered": [part, part]}} for part in pieces(text)]
    return list(json_tables.read_json(json.dumps(rows).encode(), Path("faq.json")))


def of_json_as_it_is(text: str) -> Any:
    return list(json_tables.read_json(encoded(text), Path("faq.json")))


def of_yaml(text: str) -> Any:
    return list(json_tables.read_yaml_table(encoded(text), Path("faq.yaml")))


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def of_table(kind: str) -> Reader:
    return refusing(lambda text: list(tables.FORMATS[f".{kind}"](encoded(text), Path(f"faq.{kind}"), None)))


def of_synonyms(text: str) -> Any:
    path = Path(tempfile.mkdtemp()) / "synonyms.txt"
    path.write_bytes(b"a = b\n" + encoded(" ".join(text.split()).lstrip("#")) + b" = b")
    return read_synonyms(path)


TOKENIZER = WordTokenizer.build([KNOWN_WORDS], max_tokens=200)
INDEX = BM25(["where is my parcel", "a word b help me", "donau 1 000 dampfschiff"], language="german")
KNOWN = Suggestions(["Where is my parcel?", "a b word", "why?"])

READERS: dict[str, tuple[Reader, int]] = {
    "question_key": (question_key, MIDDLE),
    "surface_words": (reading.surface_words, MIDDLE),
    "joined_words": (reading.joined_words, MIDDLE),
    "question_keys": (question_keys, SLOW),
    "question_keys, capitals": (lambda text: question_keys(f"I {text.upper()}"), SLOW),
    "telephones": (lambda text: list(telephone_words(text)), FAST),
    "pieces of a word": (lambda text: pieces_of("".join(text.split()), {"a", "word", "help"}.__contains__), MIDDLE),
    "consonants of words": (lambda text: Consonants(text.split()).meant("hlp"), MIDDLE),
    "normalized": (reading.normalized, FAST),
    "bare": (reading.bare, FAST),
    "fold": (reading.fold, FAST),
    "without_repetition": (reading.without_repetition, MIDDLE),
    "read_words": (reading.read_words, SLOW),
    **{f"read_words, {name}": (partial(reading.read_words, language=name), SLOW) for name in ("english", "turkish")},
    "nearly_equal": (lambda text: reading.nearly_equal(f"{text} a", f"{text} b"), SLOW),
    "near_groups, long texts": (lambda text: near_groups([text, f"{text} a", text[: len(text) // 2]]), SLOW),
    "near_groups, many texts": (lambda text: near_groups(pieces(text)), MIDDLE),
    "near_groups, words": (lambda text: near_groups(text.split() or ["a"]), SLOW),
    "detect_language": (detect_language, FAST),
    "nearest word of a vocabulary": (lambda text: NearestWords(text.split()).read("langauges"), MIDDLE),
    "split_words": (split_words, SLOW),
    "symbols_apart": (symbols_apart, FAST),
    "encode": (lambda text: TOKENIZER.encode([text]), SLOW),
    "spans": (TOKENIZER.spans, SLOW),
    "synonyms of a file": (refusing(of_synonyms), SLOW),
    "BM25, an answer": (lambda text: BM25([text, "a b"], language="english"), SLOW),
    "BM25, a question": (INDEX.scores, SLOW),
    "shared_words, an answer": (lambda text: shared_words("a 000 help word", text, "english"), SLOW),
    "shared_words, a question": (lambda text: shared_words(text, "a 000 help word", "english"), SLOW),
    "sketch of a FAQ": (lambda text: FAQSketch.of(pieces(text)), SLOW),
    "presented": (lambda text: presentation.presented("a 000 word?", [document(text)], calibrated=True), SLOW),
    "to_html": (markdown.to_html, SLOW),
    "suggestions of stored questions": (lambda text: Suggestions(pieces(text)).find(text[:20]), MIDDLE),
    "suggestions for what is typed": (KNOWN.find, MIDDLE),
    "pieces of a passage": (refusing(lambda text: passages.pieces(text.encode("utf-8", "replace").decode())), SLOW),
    "sections": (lambda text: sections.sections(html.Converted(text, by="headings")), FAST),
    "passages": (lambda text: passages.split(html.Converted(reading.plain(text), by="headings"), "faq.md"), SLOW),
    "ids of headings": (html.slugs(), FAST),
    "without_marks": (html.without_marks, FAST),
    "asks": (sections.asks, FAST),
    "front matter": (convert._FRONT_MATTER.match, FAST),
    "whether an export's article has text": (exports._has_text, FAST),
    "rows of CSV": (of_table("csv"), SLOW),
    "rows of TSV": (of_table("tsv"), SLOW),
    "names of columns": (refusing(lambda text: check_columns(text.split(), "faq.csv")), FAST),
    "a column's name": (column_names.plain, FAST),
    "a column's language": (column_names.split_language, FAST),
    "a column's role": (column_names.has_role, FAST),
    "a cell with HTML": (lambda text: html_cells.shown_text(f"<br>{text}"), MIDDLE),
    "a cell with Markdown's code": (lambda text: html_cells.shown_text(f"`<b>` {text}"), MIDDLE),
    "a cell with tags in its lines": (lambda text: html_cells.shown_text(f"<b>a</b> {text} <b>b</b>"), MIDDLE),
    "a cell that is written": (lambda text: html_cells.as_cell(f"<p>{text}</p>"), MIDDLE),
    "a cell that may have HTML": (html_cells.shown_text, FAST),
    "escaped line ends": (lambda text: several_texts._unescaped(f"{text}\\n"), FAST),
    "examples of Rasa": (of_rasa, FAST),
    "JSON of rows": (refusing(of_json), SLOW),
    "JSON": (refusing(of_json_as_it_is), FAST),
    "YAML": (refusing(of_yaml), SLOW),
    "labels of questions": (of_labels, MIDDLE),
    "marks of sites": (convert.without_site_marks, FAST),
    "marks of sites, one line": (lambda text: convert.without_site_marks("import a " + " ".join(text.split())), FAST),
    "JSON-LD": (of_json_ld, FAST),
    "words of a question": (question_words, SLOW),
    "what was typed": (lambda text: read_typed(text[:1000]), SLOW),
    "questions of a text": (question_parts, SLOW),
    "words of a question, a name below": (of_name_below, SLOW),
    "forms of a question": (forms_of, SLOW),
    "addresses of the page": (refusing(lambda text: settings.PageSettings(contact=f"a@{text}")), FAST),
    "numbers": (tables._NUMBERS.fullmatch, FAST),
    "stripped": (stripped, FAST),
    "repaired": (repairs.repaired, FAST),
    "placeholders": (says_nothing, FAST),
    "guarded": (guarded, FAST),
    "unguarded": (unguarded, FAST),
    "visible": (console.visible, FAST),
    "one_line": (one_line, FAST),
    "without_credentials": (without_credentials, FAST),
    "safe_line": (safe_line, FAST),
    "sentences": (_SENTENCE_END.split, FAST),
}


def seconds(read: Reader, text: str) -> float:
    started = time.process_time()
    read(text)
    return time.process_time() - started


def growth(read: Reader, text_of: Callable[[int], str], longest: int, repetition: int) -> float:
    """How much more the time grows than the length; 0 if it is too short. No text comes twice, as some are kept."""

    def time_of(length: int) -> float:
        return seconds(read, text_of(length) + " " * repetition)

    quarter = time_of(longest // 4)
    if quarter > TOO_LONG:
        return (quarter / time_of(longest // 8) / 2) ** 3  # one doubling stands for three
    whole = time_of(longest)
    return 0 if whole < LEAST else whole / time_of(longest // 8) / 8


@pytest.mark.parametrize("name", READERS)
def test_time_grows_with_the_length(name: str) -> None:
    read, longest = READERS[name]
    read(f"{KNOWN_WORDS} 1 000 é")  # loads what it needs
    gc.collect()
    too_slow: dict[str, float] = {}
    for shape, text_of in SHAPES.items():
        factor = growth(read, text_of, longest, 0)
        for repetition in (1, 2, 3):
            if factor > MOST:  # perhaps something else kept the processor busy
                factor = min(factor, growth(read, text_of, longest, repetition))
        if factor > MOST:
            too_slow[shape] = round(factor, 1)
    assert not too_slow
