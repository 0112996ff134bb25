"""Questions that a page marks up with their answers: details, definition lists, and FAQs for search engines.

The latter are `FAQPage` of schema.org, as microdata in the page or as JSON-LD beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ap_ranker.data.column_names import find_pair

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
DETAILS = "details"
DEFINITION = "definition"
TABLE = "table"
MICRODATA = "microdata"
JSON_LD = "JSON-LD"


@dataclass(frozen=True)
class MarkupQuestion:
    """A question with its answer, as a page marks them up."""

    question: str  # or the term that is defined
    answer: str
    kind: str  # how they are marked up
    headings: tuple[str, ...] = ()  # those above, from the first level
    anchor: str = ""  # what leads to it in the page, without `#`
    wordings: tuple[str, ...] = ()  # further terms with the same definition


def set_anchors(soup: BeautifulSoup, slug: Callable[[str], str] | None = None) -> None:
    """Give each heading the id that leads to it; `slug` makes those of headings without one."""
    begun: set[int] = set()  # elements around the headings before
    for heading in soup(HEADINGS):
        section = None  # the innermost one of which this is the first heading
        for element in heading.parents:
            if id(element) in begun:
                break
            begun.add(id(element))
            if section is None and element.name in ("section", "article", "div"):
                section = element
        anchor = _own_anchor(heading)
        if not anchor and section is not None:
            anchor = _text_of(section.get("id"))
        if not anchor and slug:
            anchor = slug(heading.get_text())
        heading["id"] = anchor


def _own_anchor(tag: Tag) -> str:
    """The id of an element, or of the first one in it that has one; such as `<h2><a id="refund"></a>Refund</h2>`."""
    for element in (tag, *tag.find_all(True)):
        anchor = element.get("id")
        if not anchor and element.name == "a":
            anchor = element.get("name")
        text = _text_of(anchor)
        if text:
            return text
    return ""


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    return ""


def take_entries(body: Tag, to_text: Callable[[Tag], str]) -> list[MarkupQuestion]:
    """Take the entries out of a page whose headings have ids; what is no part of one stays in it."""
    entries: list[MarkupQuestion] = []
    for tag, headings, anchor in reversed(list(_places(body))):  # details in details first: outer ones are their topic
        take = {"details": _take_details, "dl": _take_terms, "table": _take_rows}.get(tag.name, _take_microdata)
        taken = []
        for entry in take(tag, to_text):
            above = headings
            if entry.kind == MICRODATA:  # its question may be the heading
                above = tuple(heading for heading in headings if heading != entry.question)
            taken.append(replace(entry, headings=above, anchor=entry.anchor or anchor))
        entries = taken + entries
    return entries


def _places(body: Tag) -> Iterator[tuple[Tag, tuple[str, ...], str]]:
    """The elements that may be entries, with the headings above them, and the anchor of the last one."""
    above: list[tuple[int, str]] = []
    anchor = ""
    inside: dict[int, tuple[bool, tuple[str, ...]]] = {}  # of each element: in an answer or not, and in which topics
    for tag in body.find_all(True):
        is_question = _text_of(tag.get("itemtype")).rstrip("/").endswith("schema.org/Question")
        is_list = tag.name == "dl" or (tag.name == "table" and tag.find("table") is None)  # others are for the layout
        in_answer, topics = inside.get(id(tag.parent), (False, ()))
        if tag.name in HEADINGS and not in_answer:
            level = int(tag.name[1])
            while above and above[-1][0] >= level:  # the levels rise
                above.pop()
            above.append((level, _title(tag)))
            anchor = _text_of(tag.get("id"))
        elif tag.name == "details" or (is_list and not in_answer) or is_question:
            headings = tuple(text for _, text in above)
            yield tag, headings + topics, anchor
        summary = tag.find("summary", recursive=False) if tag.name == "details" else None
        if summary is not None:
            topics = (*topics, _title(summary))[-MAX_TOPICS:]
        inside[id(tag)] = in_answer or tag.name in ("details", "dl"), topics


MAX_TOPICS = 8
"""Maximum number of `details` around one that are its title: nobody reads more, and a page may nest thousands."""


def _title(tag: Tag) -> str:
    texts: list[str] = []
    pieces: Iterator[Any] = tag.descendants
    for piece in pieces:
        if piece.name in _APART:
            texts.append(" ")
        elif type(piece).__name__ == "NavigableString":  # no comment, and no script
            texts.append(piece)
    return " ".join("".join(texts).split())


_APART = ("br", "div", "p", "li")
"""Elements that begin a line, where white space may be missing."""


_TAKEN = "data-taken"
"""Attribute of a `details` whose text is that of entries."""


def _take_details(details: Tag, to_text: Callable[[Tag], str]) -> Iterator[MarkupQuestion]:
    """The question of a `details`, its summary, which is taken out of the page with its answer."""
    summary = details.find("summary", recursive=False)
    question = _title(summary) if summary is not None else ""
    if summary is None or not question:
        return
    own = _text_of(details.get("id")) or _own_anchor(summary)
    rest = copy(details)
    for title in rest.find_all("summary", recursive=False):
        title.decompose()
    answer = to_text(rest)
    if answer:
        yield MarkupQuestion(question, answer, DETAILS, anchor=own)
    if answer or details.find("details", attrs={_TAKEN: True}) is not None:
        details.clear()  # an empty one stays, so that one around it is known to be their topic
        details[_TAKEN] = ""


def _take_terms(terms: Tag, to_text: Callable[[Tag], str]) -> Iterator[MarkupQuestion]:
    """The terms of a definition list, each with its definitions, which are taken out of the page."""
    groups: list[tuple[list[Tag], list[Tag]]] = []
    for part in _parts(terms):
        if part.name == "dt":
            if not groups or groups[-1][1]:  # the group before has its definitions
                groups.append(([], []))
            groups[-1][0].append(part)
        elif groups:
            groups[-1][1].append(part)
    for names, definitions in groups:
        questions = list(filter(None, map(_title, names)))
        answer = "\n\n".join(filter(None, map(to_text, definitions)))
        if questions and answer:
            anchors = [*filter(None, map(_own_anchor, names)), ""]
            question, *wordings = questions
            yield MarkupQuestion(question, answer, DEFINITION, anchor=anchors[0], wordings=tuple(wordings))
            for part in (*names, *definitions):
                part.decompose()


def _take_rows(table: Tag, to_text: Callable[[Tag], str]) -> Iterator[MarkupQuestion]:
    """The rows of a table with questions and answers; those that hold nothing else are taken out of the page."""
    rows = table("tr")
    header = _cells(rows[0]) if rows else []
    pair = find_pair(map(_title, header))
    if not pair:
        return
    question_column, answer_column = pair
    for row in rows[1:]:
        cells = _cells(row)
        if len(cells) != len(header):
            continue
        question = _title(cells[question_column])
        text = ""
        if question and question_column != answer_column:
            text = to_text(copy(cells[answer_column]))
        if question and text:
            yield MarkupQuestion(question, text, TABLE, anchor=_own_anchor(row))
            if len(cells) == len(pair):  # else what its other columns say stays in the page
                row.decompose()
    if len(table("tr")) == 1 < len(rows):
        table.decompose()


def _cells(row: Tag) -> list[Tag]:
    return list(row.find_all(["th", "td"], recursive=False))


def _parts(terms: Tag) -> Iterator[Tag]:
    """The terms and definitions of a list; they may be grouped in `div`."""
    for child in terms.find_all(True, recursive=False):
        if child.name in ("dt", "dd"):
            yield child
        else:
            yield from child.find_all(["dt", "dd"], recursive=False)


def _take_microdata(tag: Tag, to_text: Callable[[Tag], str]) -> Iterator[MarkupQuestion]:
    """A question of schema.org, which is taken out of the page with its answer."""
    name = tag.find(itemprop="name")
    accepted = tag.find(itemprop="acceptedAnswer")
    if name is None or accepted is None:
        return
    question = _title(name) or _text_of(name.get("content"))
    answer = to_text(accepted.find(itemprop="text") or accepted)
    if question and answer:
        heading = name if name.name in HEADINGS else name.find_parent(HEADINGS)
        own = _text_of(tag.get("id")) or _own_anchor(heading or name)
        yield MarkupQuestion(question, answer, MICRODATA, anchor=own)
        accepted.decompose()
        if heading is not None and _title(heading) == question:
            heading.decompose()
        else:
            name.decompose()
        if not any(map(str.strip, tag.strings)):
            tag.decompose()  # else one around it looks through what is left of it again


def read_json_ld(
    soup: BeautifulSoup, to_text: Callable[[str], str]
) -> tuple[list[MarkupQuestion], list[tuple[str, str]]]:
    """The questions that a page states in JSON-LD, anywhere in it; and blocks that could not be read, each with why."""
    entries: list[MarkupQuestion] = []
    faults: list[tuple[str, str]] = []
    scripts = soup("script", type=re.compile(r"\s*application/ld\+json", re.IGNORECASE))
    for number, script in enumerate(scripts, start=1):
        try:
            values: list[Any] = [_parse_json_ld(script.get_text())]
        except (RecursionError, ValueError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            faults.append((f"block {number} of JSON-LD", f"expected JSON ({reason}). The page itself is read."))
            continue
        while values:
            value = values.pop()
            if isinstance(value, list):
                values += reversed(value)
            elif isinstance(value, dict):
                values += reversed(list(value.values()))
                entries += _json_ld_entry(value, to_text)
    return entries, faults


_BEFORE_JSON = re.compile(r"(?:\s*+(?:<!--|(?:(?://|/\*)\s*+)?<!\[CDATA\[(?:\s*+\*/)?+))*+\s*+")
_BEHIND_JSON = re.compile(r"(?:[\s;]|-->|//|/\*|\*/|\]\]>)*+")
"""What stands around JSON in pages: comments, CDATA, and a semicolon."""

_STRING_OR_FAULT = re.compile(
    r'"(?:[^"\\]|\\.)*+"|(?P<value>\{\{.*?\}\})|(?P<tag>\{%.*?%\}|/\*.*?\*/)|(?P<comma>,(?=\s*[\]}]))'
    r'|(?P<unclosed>(?:"|\{\{|\{%|/\*).*)',
    re.DOTALL,
)
"""A text of JSON, which stays; or a value or a tag of a template, a comment, a comma behind the last value; or all that
follows the beginning of one of these that does not end."""


def _parse_json_ld(text: str) -> Any:
    """Parse JSON, if need be without what pages have in and around it."""
    try:
        return json.loads(text, strict=False)
    except ValueError as error:
        before = _BEFORE_JSON.match(text)
        begins = before.end() if before else 0
        inner = _STRING_OR_FAULT.sub(_without_fault, text[begins:]).lstrip()
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(inner)
        except ValueError:
            raise error from None
        if not _BEHIND_JSON.fullmatch(inner, end):
            raise error from None
        return value


def _without_fault(match: re.Match[str]) -> str:
    if match["value"]:
        return "null"  # what a template would have put here is unknown
    if match["tag"] or match["comma"]:
        return ""
    return match[0]


def _json_ld_entry(value: dict[str, Any], to_text: Callable[[str], str]) -> Iterator[MarkupQuestion]:
    kinds = value.get("@type")
    if not isinstance(kinds, list):
        kinds = [kinds]
    if not any(str(kind).endswith("Question") for kind in kinds):
        return
    question = ""
    for name in (value.get("name"), value.get("text")):
        if isinstance(name, str):
            question = question or to_text(name)
    answers = value.get("acceptedAnswer")
    if not isinstance(answers, list):
        answers = [answers]
    texts: list[str] = []
    for accepted in answers:
        if isinstance(accepted, dict) and isinstance(accepted.get("text"), str):
            texts.append(to_text(accepted["text"]))
    answer = "\n\n".join(filter(None, texts))
    if question and answer:
        address = value.get("url") or value.get("@id")
        anchor = address.partition("#")[2] if isinstance(address, str) else ""
        yield MarkupQuestion(" ".join(question.split()), answer, kind=JSON_LD, headings=(), anchor=anchor)
