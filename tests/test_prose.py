"""Rules for the sentences of errors, which readers meet one at a time and never beside each other.

What a sentence tells is checked where it is raised (`refusals.py`); how it is put is free but for these rules.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("ap_ranker", "haystack_integrations")

RAISED = ("Error", "BadParameter")
"""Ends of the names of what is raised with a sentence for a reader."""

NOT_OURS = ("Please provide a list of Documents", "query_embedding should be a non-empty list")
"""Beginnings of sentences that Haystack's own tests of a document store expect."""

ENDS = re.compile(r"([.?]|\}|: (ap-ranker|pip|hf|--)((?!\. ).)*|Write a line above it: question,answer)$")
"""How a sentence ends: with its point, with what is put in, or with the command to run, which has no point."""

OTHER_WORDS = {
    "directory": "folder",
    "validation": "dev",
    "flag": "option",
    "corpus": "answers",
    "parameter": "option, setting or argument",
    "invalid": "what was expected",
    "illegal": "what was expected",
    "please": "the advice alone",
    "unable to": "what was expected",
    "failed to": "what was expected",
    "utilize": "use",
    "sanity": "check",
}
"""A word that no sentence has -> ours for the same thing (the list in `docs/development.md`)."""

MOST_WORDS = 70
"""Maximum length of a sentence with its advice: what is read on one screen, in one go."""


class Sentence(NamedTuple):
    """What an error says, with what is put in as `{expression}`; and where."""

    text: str
    place: str


def text_of(node: ast.expr) -> str:
    """The text that an expression makes."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(text_of, parts))
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left) + text_of(right)
    return f"{{{ast.unparse(node)}}}"


def sentences() -> Iterator[Sentence]:
    """What the errors of the program say: whole sentences, which begin with a capital letter or with a place."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for call in ast.walk(tree):
                if not isinstance(call, ast.Call) or not call.args or not ast.unparse(call.func).endswith(RAISED):
                    continue
                text = " ".join(text_of(call.args[0]).split())
                is_whole = re.match(r"[A-Z]|\{[^}]*\}: \w", text) is not None
                if is_whole and " " in text and not text.startswith(NOT_OURS):
                    yield Sentence(text, f"{path.relative_to(ROOT)}:{call.lineno}")


SENTENCES = list(sentences())


def test_there_are_sentences() -> None:
    assert len(SENTENCES) > 250


def test_no_sentence_is_written_twice() -> None:
    """Two places that say the same would be changed one at a time."""
    places = defaultdict(list)
    for sentence in SENTENCES:
        places[sentence.text].append(sentence.place)
    assert [found for found in places.values() if len(found) > 1] == []


def test_sentences_end() -> None:
    assert [sentence for sentence in SENTENCES if not ENDS.search(sentence.text)] == []


def test_what_was_expected_stands_beside_what_was_found() -> None:
    expected = [sentence for sentence in SENTENCES if re.search(r"\bexpected\b", sentence.text, re.IGNORECASE)]
    assert len(expected) > 200
    tells = re.compile(r"\bfound\b|\bgot\b|, but |\{error\b|\{reason\b|\{expected\b", re.IGNORECASE)
    assert [sentence for sentence in expected if not tells.search(sentence.text)] == []


@pytest.mark.parametrize("word", OTHER_WORDS)
def test_the_same_word_for_the_same_thing(word: str) -> None:
    has_word = re.compile(rf"\b{word}\b", re.IGNORECASE)
    literal = [Sentence(re.sub(r"\{[^}]*\}", "", sentence.text), sentence.place) for sentence in SENTENCES]
    assert [sentence for sentence in literal if has_word.search(sentence.text)] == [], f"say {OTHER_WORDS[word]}"


def test_contributors_find_the_words() -> None:
    """Each of them stands in the page's table, on the left."""
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    table = page.partition("| not | but |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = {word: row.split(" | ")[1] for row in table.splitlines() for word in row.split(" | ")[0][2:].split(", ")}
    assert {word: f"{other} |" for word, other in OTHER_WORDS.items()} == listed


def test_sentences_are_short() -> None:
    assert [sentence for sentence in SENTENCES if len(sentence.text.split()) > MOST_WORDS] == []
