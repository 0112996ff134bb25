"""Divides a document at its headings or pages, with Haystack, and finds the questions that it asks itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from ap_ranker.documents.html import Converted, letters, without_marks
from ap_ranker.documents.markup_questions import JSON_LD, StatedEntry
from ap_ranker.documents.question_headings import asks
from ap_ranker.text.reading import question_key

if TYPE_CHECKING:
    from haystack import Document

HEADING = "heading"
"""The kind of a question that is a heading."""

_HEADING = re.compile(r"#{1,6} (.+)")

_EDGE = "\u2060"
"""A heading before and behind the text: Haystack 3.0 leaves out text before the first and headings behind the last."""

_UNUSABLE = re.compile(r"[\0\ud800-\udfff]")
"""Characters of damaged fonts that UTF-8 text cannot or should not hold."""


@dataclass(frozen=True)
class Section:
    """The text below one heading, or of one page, up to the next."""

    above: tuple[str, ...]  # titles: of the document, then of each heading above, its own included, up to the question
    question: str  # the heading that asks for it, its own or one above it
    below: tuple[str, ...]  # the titles between the question and the text
    text: str
    page: int | None = None  # or slide, from 1
    anchor: str = ""  # what leads to it in the page


def sections(converted: Converted) -> list[Section]:
    """The sections of a document that have text, in order.

    A section below a heading that asks a question is part of its answer, whatever its own heading; but one heading over
    the whole document asks for the text directly below it only.
    """
    from haystack import Document

    document = Document(content=_UNUSABLE.sub("", converted.text).replace("\r\n", "\n"))
    parts = _parts(document, converted.by)
    paths = [_headings(part) for part in parts]
    tops = {path[0] for path in paths if path}
    over_all = next(iter(tops)) if len(tops) == 1 and any(len(path) > 1 for path in paths) else None
    anchors = [(letters(heading), anchor) for heading, anchor in converted.anchors]
    found: list[Section] = []
    for part, path in zip(parts, paths, strict=True):
        lines = [line.rstrip() for line in (part.content or "").replace("\f", "\n").split("\n")]
        if converted.by == "headings":
            lines = _without_title(lines, path)
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines).replace(_EDGE, "")).strip()
        anchor = ""
        if path and (at := next((i for i, (text, _) in enumerate(anchors) if text == letters(path[-1])), -1)) >= 0:
            anchor = anchors[at][1]
            del anchors[: at + 1]  # headings without text have none either
        if not text:
            continue
        asked = (i for i, heading in enumerate(path) if asks(heading) or letters(heading) in converted.articles)
        asking = max(asked, default=-1)
        if asking == 0 < len(path) - 1 and path[0] == over_all:
            asking = -1
        above, question, below = (path, "", ()) if asking < 0 else (path[:asking], path[asking], path[asking + 1 :])
        page = part.meta["page_number"] if converted.by == "pages" else None
        titles = (converted.title, *above) if converted.title else above
        found.append(Section(titles, " ".join(question.split()), below, text, page, anchor))
    return found


def _headings(part: Document) -> tuple[str, ...]:
    headings = [*part.meta.get("parent_headers", ()), part.meta.get("header")]
    return tuple(heading for heading in headings if heading and heading != _EDGE)


def _parts(document: Document, by: str) -> Sequence[Document]:
    from haystack.components.preprocessors import DocumentSplitter, MarkdownHeaderSplitter

    if not (document.content or "").strip():
        return []
    if by == "headings":
        marked = replace(document, content=f"# {_EDGE}\n{document.content}\n\n# {_EDGE}\n{_EDGE}")
        return MarkdownHeaderSplitter().run(documents=[marked])["documents"]
    if by == "pages":
        return DocumentSplitter(split_by="page", split_length=1).run(documents=[document])["documents"]
    return [document]


def _without_title(lines: list[str], headings: Sequence[str]) -> list[str]:
    """The lines of a section without its own headings; one before them that has no text below it is text itself."""
    kept: list[str] = []
    for i, line in enumerate(lines):
        heading = _HEADING.match(line)
        if heading is None and line:
            return [*kept, *lines[i:]]
        if heading is not None and heading[1].strip() not in (*headings, _EDGE):
            kept.append(heading[1].strip())
    return kept


def marked_up(converted: Converted, parts: Sequence[Section]) -> list[StatedEntry]:
    """The questions that a document marks up; for search engines, without those that are headings, too."""
    headings = {question_key(part.question) for part in parts if part.question}
    return [one for one in converted.stated if one.kind != JSON_LD or question_key(one.question) not in headings]


def of_headings(parts: Sequence[Section]) -> Iterator[StatedEntry]:
    """The questions that headings ask, with the text of their sections."""
    starts = 0

    def path(part: Section) -> tuple[int, tuple[str, ...], str]:
        nonlocal starts
        starts += not part.below  # the same heading again is another question
        return starts if part.question else 0, part.above, part.question

    for (_, above, question), group in groupby(parts, path):
        if question:
            below = list(group)
            texts = [f"{part.below[-1]}\n{part.text}" if part.below else part.text for part in below]
            anchor = below[0].anchor if not below[0].below else ""
            yield StatedEntry(question, without_marks("\n\n".join(texts)), HEADING, above, anchor)
