"""Divides a document at its headings or pages, with Haystack, and tells which headings ask for the text below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ap_ranker.documents.convert import Converted
from ap_ranker.documents.question_headings import asks

if TYPE_CHECKING:
    from haystack import Document

_HEADING = re.compile(r"#{1,6} (.+)")

_EDGE = "\u2060"
"""A heading before and behind the text: Haystack 3.0 leaves out text before the first and headings behind the last."""

_UNUSABLE = re.compile(r"[\0\ud800-\udfff]")
"""Characters of damaged fonts that UTF-8 text cannot or should not hold."""


@dataclass(frozen=True)
class Section:
    """The text below one heading, or of one page, up to the next.

    Attributes:
        above: the titles above it: of the document, then of each heading that it stands below, its own included;
            without the question.
        question: the heading that asks for it, its own or one above it; empty if none does.
        below: the titles between the question and the text.
        text: its text.
        page: its page or slide, from 1; `None` if the document has none.
        anchor: what leads to it in the page; empty if that is not known.
    """

    above: tuple[str, ...]
    question: str
    below: tuple[str, ...]
    text: str
    page: int | None = None
    anchor: str = ""


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
    anchors = _Anchors(converted.anchors)
    found: list[Section] = []
    for part, path in zip(parts, paths, strict=True):
        lines = [line.rstrip() for line in (part.content or "").replace("\f", "\n").split("\n")]
        if converted.by == "headings":
            lines = _without_title(lines, path)
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines).replace(_EDGE, "")).strip()
        anchor = anchors.next(path[-1]) if path else ""
        if not text:
            continue
        asking = max((i for i, heading in enumerate(path) if asks(heading)), default=-1)
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


class _Anchors:
    """The anchors of headings that come in order; headings without text are skipped."""

    def __init__(self, anchors: Sequence[tuple[str, str]]) -> None:
        self._anchors = [(_letters(heading), anchor) for heading, anchor in anchors]
        self._next = 0

    def next(self, heading: str) -> str:
        """The anchor of the next heading with this text; empty if there is none."""
        wanted = _letters(heading)
        for i in range(self._next, len(self._anchors)):
            if self._anchors[i][0] == wanted:
                self._next = i + 1
                return self._anchors[i][1]
        return ""


def _letters(text: str) -> str:
    """The same for a heading in HTML and in Markdown, where some characters are escaped."""
    return "".join(filter(str.isalnum, text))


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
