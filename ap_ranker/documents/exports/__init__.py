"""Exports of help centres in JSON, as one document each: a heading for each category and article.

How a system names the fields of its articles, a TOML file of this folder says; another file adds a system.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from ap_ranker.documents.html import Converted, path_key, read_page
from ap_ranker.errors import InputError
from ap_ranker.safe_open import decode, open_file

MOST_NAMES = 10
"""Maximum number of categories around an article; a damaged export may have a category within itself."""

Record = tuple[dict[str, Any], tuple[str, ...]]
"""An object, and the names of those around it."""


def is_export(path: Path) -> bool:
    """Whether a file holds articles of a known system; False, too, if it cannot be read."""
    if path.suffix.lower() != ".json":
        return False
    try:
        with open_file(path) as file:
            value = json.loads(decode(file.read(), path))
        return _system(_records(value)) is not None
    except (OSError, ValueError, RecursionError):
        return False


def convert_export(content: bytes, path: Path) -> Converted:
    """Convert an export: an article's title asks for its text, except below a heading that asks itself."""
    value = json.loads(decode(content, path))
    records = list(_records(value))
    system = _system(records)
    if system is None:
        raise InputError(f"{path}: expected articles of a help centre, found none.")
    names: dict[str, Any] = {}
    for record, _ in records:
        if "id" in record and isinstance(record.get("name"), str):
            names[str(record["id"])] = record
    left_out = Counter[str]()
    parts = list[str]()
    addresses = dict[str, str]()
    seen = set[tuple[str, str]]()
    for record, around in records:
        if not _is_article(record, system, "body"):
            continue
        title = " ".join(_text(record, system["title"]).split())
        body = _text(record, system["body"])
        is_hidden = _is_hidden(record, system)
        is_empty = not (title and _has_text(body))
        if (title, body) in seen or (is_hidden and is_empty):  # Intercom has the first language twice, others as drafts
            continue
        seen.add((title, body))
        if is_hidden:
            left_out[f"that {system['name']} does not show to visitors"] += 1
        elif is_empty:
            left_out["without a title or a text"] += 1
        else:
            category = " > ".join(around or _categories(record, system, names)) or system["name"]
            if system.get("format") == "markdown":
                body = _html_of_markdown(body)
            deeper = re.sub(r"(?i)(</?h)([1-6])\b", _two_levels_deeper, body)
            parts.append(f"<h1>{escape(category)}</h1>\n<h2>{escape(title)}</h2>\n<div>{deeper}</div>\n")
            addresses[path_key((category, title))] = str(_value(record, system["url"]) or "")
    sentences = [f"{count:,} articles {why}." for why, count in left_out.items()]
    page = read_page("".join(parts))
    faults = list(page.faults)
    for sentence in sentences:
        faults.append(("", sentence))
    advice = ""
    if sentences:
        advice = f", but {' '.join(sentences)}".removesuffix(".")
    return replace(page, articles=addresses, faults=faults, advice=advice)


def _is_hidden(record: Mapping[str, Any], system: Mapping[str, Any]) -> bool:
    """Whether visitors of the help centre do not see an article, as one of its fields says."""
    return any(str(record.get(name)).casefold() in values for name, values in system["hidden"].items())


def _two_levels_deeper(tag: re.Match[str]) -> str:
    """The tag of a heading below those of its category and its article."""
    level = min(int(tag[2]) + 2, 6)
    return f"{tag[1]}{level}"


_NO_TEXT = re.compile(r"<[^>]*>|&nbsp;|\s")


def _has_text(body: str) -> bool:
    """Whether anything is left without elements and spaces. What follows the last `>` holds no element."""
    before, end, rest = body.rpartition(">")
    return bool(_NO_TEXT.sub("", before + end) or rest.replace("&nbsp;", "").strip())


def _system(records: Iterator[Record] | list[Record]) -> dict[str, Any] | None:
    """The system that a record is of; articles that have no marks of any are known by their HTML."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    systems = [tomllib.loads(file.read_text(encoding="utf-8")) for file in files]
    parsed = list(records)
    with_marks = [system for system in systems if "marks" in system]
    without_marks = [system for system in systems if "marks" not in system]
    for candidates in (with_marks, without_marks):
        for record, _ in parsed:
            for system in candidates:
                if _is_article(record, system, "title", "body"):
                    return system
    return None


def _is_article(record: Mapping[str, Any], system: Mapping[str, Any], *named: str) -> bool:
    """Whether a record has the fields of a system's articles; of one without marks, a body of HTML tells."""
    if not _has_all(record, [system[name] for name in named]):
        return False
    if "marks" in system:
        return any(_has_all(record, marks) for marks in system["marks"])
    title = _value(record, system["title"])
    body = _value(record, system["body"])
    return isinstance(title, str) and isinstance(body, str) and _PARAGRAPH.search(body) is not None


_PARAGRAPH = re.compile(r"(?i)<(?:p|div|ul|ol|h[1-6]|table|br)(?:\s[^<>]*)?/?>")


def _has_all(record: Mapping[str, Any], names: Iterable[str]) -> bool:
    return all(_has(record, name) for name in names)


def _has(record: Mapping[str, Any], name: str) -> bool:
    """Whether a record has a field; `title.rendered` is one within another."""
    outer, _, inner = name.partition(".")
    if outer not in record:
        return False
    if not inner:
        return True
    value = record[outer]
    return isinstance(value, dict) and _has(value, inner)


def _value(record: Mapping[str, Any], name: str) -> Any:
    outer, _, inner = name.partition(".")
    value = record.get(outer)
    if not inner:
        return value
    if isinstance(value, dict):
        return _value(value, inner)
    return None


def _text(record: Mapping[str, Any], name: str) -> str:
    """A field's text, or none."""
    value = _value(record, name)
    return value if isinstance(value, str) else ""


def _html_of_markdown(text: str) -> str:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"maxNesting": 100})
    reader.enable("table")
    return str(reader.render(text))


def _records(value: Any) -> Iterator[Record]:
    """All objects in a value, in order."""
    rest: list[tuple[Any, tuple[str, ...]]] = [([value], ())]
    while rest:
        container, around = rest.pop()
        if isinstance(container, dict):
            yield container, around
            name = container.get("name")
            if isinstance(name, str) and name:
                around = (*around, name)[-MOST_NAMES:]
            container = list(container.values())
        for inner in reversed(container):  # the last one of `rest` comes next
            if isinstance(inner, (dict, list)):
                rest.append((inner, around))


def _categories(record: Mapping[str, Any], system: Mapping[str, Any], names: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of what an article belongs to, and of what these belong to, the widest first."""
    categories: list[str] = []
    rest = [record]
    for node in rest:  # which grows meanwhile
        for value in map(node.get, system["parents"]):
            parent_id = value[0] if isinstance(value, list) and value else value
            parent = names.get(str(parent_id))
            if parent is not None and parent["name"] not in categories and len(categories) < MOST_NAMES:
                categories.append(parent["name"])
                rest.append(parent)
    return tuple(reversed(categories))
