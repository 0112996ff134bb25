"""Splits a document into passages: at headings or pages, then to the length that a model reads, with Haystack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from ap_ranker.data.documents.convert import Converted

if TYPE_CHECKING:
    from haystack import Document
    from haystack.components.preprocessors import RecursiveDocumentSplitter

LENGTH = 700
"""Maximum number of characters of a passage, some 120 words: with its title it stays below the 200 tokens that models
read, also where words are long. Passages end with sentences and do not overlap: an overlap would cut sentences."""

DENSE_LENGTH = 170
"""The same for Chinese, Japanese and Korean, where a character is a token."""

_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_ENDS = ["\n\n", ".\n", ". ", "? ", "! ", "。", "！", "？", "；", "\n", " "]
"""Where a text may be split, the best first. Not with Haystack's "sentence", which downloads a model."""

_HEADING = re.compile(r"#{1,6} (.+)")

_EDGE = "\u2060"
"""A heading before and behind the text: Haystack 3.0 leaves out text before the first and headings behind the last."""

_UNUSABLE = re.compile(r"[\0\ud800-\udfff]")
"""Characters of damaged fonts that UTF-8 text cannot or should not hold."""


@dataclass(frozen=True)
class Passage:
    """A part of a document that is found as a whole.

    Attributes:
        title: its title path, such as `Handbook > Returns`.
        text: its text.
        page: its page or slide, from 1; `None` if the document has none.
    """

    title: str
    text: str
    page: int | None = None


def split(converted: Converted, name: str) -> list[Passage]:
    """Split the text of a document.

    Args:
        converted: the document.
        name: the title of parts without one.
    """
    from haystack import Document

    document = Document(content=_UNUSABLE.sub("", converted.text).replace("\r\n", "\n"))
    passages: list[Passage] = []
    for part in _parts(document, converted.by):
        headings = [*part.meta.get("parent_headers", ()), part.meta.get("header")]
        headings = [heading for heading in headings if heading and heading != _EDGE]
        title = " > ".join(" ".join(each.split()) for each in (converted.title, *headings) if each)
        page = part.meta["page_number"] if converted.by == "pages" else None
        lines = [line.rstrip() for line in (part.content or "").replace("\f", "\n").split("\n")]
        if converted.by == "headings":
            lines = _without_title(lines, headings)
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines).replace(_EDGE, "")).strip()
        for piece in _pieces(text):
            passages.append(Passage(title or re.sub(r"[-_\s]+", " ", name).strip(), piece, page))
    return passages


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


def _pieces(text: str) -> list[str]:
    from haystack import Document

    if not text:
        return []
    length = DENSE_LENGTH if len(_DENSE.findall(text)) > len(text) / 4 else LENGTH
    if len(text) <= length:
        return [text]
    merged: list[str] = []
    for piece in _splitter(length).run(documents=[Document(content=text)])["documents"]:
        content = piece.content or ""
        if merged and len(merged[-1]) + len(content) <= length:  # the rest of a paragraph would say little alone
            merged[-1] += content
        else:
            merged.append(content)
    return [content for part in merged if (content := part.strip())]


@cache
def _splitter(length: int) -> RecursiveDocumentSplitter:
    from haystack.components.preprocessors import RecursiveDocumentSplitter

    splitter = RecursiveDocumentSplitter(split_length=length, split_unit="char", separators=_ENDS)
    splitter.warm_up()
    return splitter
