"""Shapes of other people's files: nesting, lists, languages, envelopes, blank columns; no row of them is lost."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import yaml

from ap_ranker.documents.watched_folder import WatchedFolder

from .target import Target, expect

NAMES = [("question", "answer"), ("questions", "answer"), ("Frage", "Antwort"), ("q", "a"), ("patterns", "responses")]
LANGUAGES = ("en", "de", "pt-BR", "fr")
NOISE: dict[str, Any] = {
    "id": 7,
    "tags": [{"id": 1}, {"id": 2}],
    "author": {"name": "Ann", "mail": None},
    "updated_at": "2024-01-02",
    "active": True,
    "metadata": [],
}
ENVELOPES: list[tuple[str, dict[str, Any]]] = [
    ("data", {"meta": {"total": 2, "pagination": {"page": 1}}}),
    ("items", {"links": {"next": None, "self": "/x"}, "count": "2"}),
    ("payload", {"status": "ok", "errors": []}),
    ("rows", {"columns": [{"key": "a"}, {"key": "b"}]}),
]
LOG = "expected.json"


class _Made:
    """The rows of a file that is made, and how many of them must be found: every text is a number of its own."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.names = rng.choice(NAMES)
        self.texts: list[str] = []
        self.unfinished = 0
        self.entries = 0

    def text(self, kind: str) -> str:
        made = f"{kind} {len(self.texts)} {self.rng.choice(('parcel', 'Rückgabe', '退货', 'a, b; c'))}"
        self.texts.append(made)
        return made

    def question(self) -> str:
        return self.text("How about") + "?"

    def row(self, *, in_lists: bool = True) -> dict[str, Any]:
        """A row with its question and answer in one of many shapes."""
        rng = self.rng
        kind = rng.randrange(8) if in_lists else 0
        name, answer_name = self.names
        answer: Any = self.text("So")
        question: Any = self.question()
        self.entries += 1
        if kind == 1:
            question = [question, *(self.question() for _ in range(rng.randrange(4)))]
        elif kind == 2:
            question = {"text": question}
        elif kind == 3:
            answer = {"rendered": f"<p>{answer}</p>"}
        elif kind == 4:
            answer = [answer]
        elif kind == 5:
            languages = rng.sample(LANGUAGES, 2)
            answer = {languages[0]: answer, languages[1]: self.text("So")}
            question = {languages[0]: question, languages[1]: self.question()}
            self.entries += 1
        elif kind == 6:
            question = [{"text": question}, {"text": self.question()}]
        elif kind == 7:
            answer = ""
            self.texts.pop(-2)
            self.entries -= 1
            self.unfinished += 1
        some = rng.sample(sorted(NOISE), rng.randrange(3)) if in_lists else []
        return {name: question, answer_name: answer} | {each: NOISE[each] for each in some}

    def rows(self, *, in_lists: bool = True) -> list[dict[str, Any]]:
        first = self.row(in_lists=False)  # finished, so that there is something to serve
        return [first, *(self.row(in_lists=in_lists) for _ in range(self.rng.randrange(6)))]


def _nested(value: Any, rng: Random) -> Any:
    """Rows within envelopes, categories and objects of objects."""
    for _ in range(rng.randrange(4)):
        kind = rng.randrange(5)
        if kind == 0:
            name, beside = rng.choice(ENVELOPES)
            value = {name: value, **beside}
        elif kind == 1:
            value = {"categories": [{"name": "Parcels", "entries": value}]}
        elif kind == 2 and isinstance(value, list):
            value = [{"node": each} for each in value]
        elif kind == 3 and isinstance(value, list):
            value = [{"id": str(i), "attributes": each} for i, each in enumerate(value)]
        elif kind == 4 and isinstance(value, list):
            value = {f"entry{i}": each for i, each in enumerate(value)}
    return value


def _write(folder: Path, made: _Made, content: str, ending: str) -> None:
    (folder / f"faq{ending}").write_text(content, encoding="utf-8")
    expected = {"texts": made.texts, "entries": made.entries, "unfinished": made.unfinished}
    (folder / LOG).write_text(json.dumps(expected), encoding="utf-8")


def _json(folder: Path, rng: Random) -> None:
    made = _Made(rng)
    _write(folder, made, json.dumps(_nested(made.rows(), rng), ensure_ascii=False), ".json")


def _yaml(folder: Path, rng: Random) -> None:
    made = _Made(rng)
    _write(folder, made, yaml.safe_dump(_nested(made.rows(), rng), allow_unicode=True, sort_keys=False), ".yml")


def _jsonl(folder: Path, rng: Random) -> None:
    made = _Made(rng)
    _write(folder, made, "".join(json.dumps(row) + "\n" for row in made.rows()), ".jsonl")


def _delimited(folder: Path, rng: Random) -> None:
    """Columns without names, empty ones, and rows without an answer, in any place."""
    made = _Made(rng)
    rows = made.rows(in_lists=False)
    header = [*made.names]
    cells = [[str(value) for value in row.values()] for row in rows]
    for _ in range(rng.randrange(3)):
        at, is_full = rng.randrange(len(header) + 1), rng.random() < 0.5
        header.insert(at, "")
        for i, row in enumerate(cells):
            row.insert(at, str(i) if is_full else "")
    for _ in range(rng.randrange(3)):
        question = made.question()
        row = [question if name == made.names[0] else "" for name in header]
        cells.insert(rng.randrange(1, len(cells) + 1), row)
        made.unfinished += 1
    text = io.StringIO(newline="")
    ending, delimiter = rng.choice(((".csv", ","), (".csv", ";"), (".tsv", "\t")))
    csv.writer(text, delimiter=delimiter).writerows([header, *cells])
    _write(folder, made, text.getvalue(), ending)


WRITERS: dict[str, Callable[[Path, Random], None]] = {
    "json": _json,
    "jsonl": _jsonl,
    "yaml": _yaml,
    "delimited": _delimited,
}


def make_shape(folder: Path, rng: Random) -> None:
    """Write another file of the kind that the folder has."""
    kind = (folder / "kind").read_text()
    for file in folder.glob("faq.*"):
        file.unlink()
    WRITERS[kind](folder, rng)


def _first(kind: str, folder: Path) -> None:
    (folder / "kind").write_text(kind)
    make_shape(folder, Random(kind))


def use_shape(folder: Path) -> None:
    """All rows are entries, wordings or left out by name."""
    expected = json.loads((folder / LOG).read_text(encoding="utf-8"))
    [file] = folder.glob("faq.*")
    documents = WatchedFolder(file)
    entries = documents.read()
    expect(len(entries) == expected["entries"], f"{len(entries)} entries, not {expected['entries']}")
    left_out = len(documents.left_out)
    expect(left_out == expected["unfinished"], f"{left_out} rows left out, not {expected['unfinished']}")
    read = [text for entry in entries for text in (*entry.questions, entry.answer, *entry.other.values())]
    known = "\n".join((*read, *map(str, documents.left_out)))
    for text in expected["texts"]:
        expect(text in known, f"the text {text!r} was lost")


TARGETS = [Target("shapes", {kind: partial(_first, kind) for kind in WRITERS}, use_shape, make_shape, weight=6)]
