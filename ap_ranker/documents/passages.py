"""Splits a document into passages: its sections, divided to the length that a model reads, with Haystack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ap_ranker.data.faq import Entry
from ap_ranker.documents.html import Converted
from ap_ranker.documents.markup_questions import MarkupQuestion
from ap_ranker.documents.sections import Section, marked_up, sections

if TYPE_CHECKING:
    from haystack.components.preprocessors import RecursiveDocumentSplitter

LENGTH = 700
"""Maximum number of characters of a passage, some 120 words: with a title of usual length, up to 100 characters, it
stays below the 200 tokens that models read, also where words are long. Passages end with sentences and do not overlap:
an overlap would cut sentences."""

DENSE_LENGTH = 170
"""Maximum number of characters of a passage in Chinese, Japanese or Korean, where a character is a token."""

MAX_TITLE = 300
"""Maximum number of characters of each heading in a title. The title stands above each passage below it, so that one
very long heading would fill the memory."""

_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""A character of Chinese, Japanese or Korean."""

DENSE_SHARE = 1 / 4
"""The share of dense characters above which a text counts as dense: Japanese and Korean mix them with Latin words,
digits, marks and spaces, and other texts have hardly any."""

_ENDS = ["\n\n", ".\n", ". ", "? ", "! ", "。", "！", "？", "；", "\n", " "]
"""Where a text may be split, the best first. Not with Haystack's "sentence", which downloads a model."""


def split(converted: Converted, file: str, place: str = "") -> list[Entry]:
    """The passages of a document; arguments as for `passages_of`."""
    parts = sections(converted)
    return passages_of(converted, parts, marked_up(converted, parts), file, place)


def passages_of(
    converted: Converted, parts: Sequence[Section], questions: Sequence[MarkupQuestion], file: str, place: str = ""
) -> list[Entry]:
    """The passages of a document's sections, then those of questions marked up; each of these is found as a whole.

    Their source is `file`, whose name is the title of parts without one; messages name it or another `place`.
    """

    def pieces_of(
        titles: Sequence[str], text: str, page: int | None, question: str, anchor: str, wordings: tuple[str, ...] = ()
    ) -> list[Entry]:
        source = {"file_path": file}
        path = list(filter(None, (*titles, question)))
        url = converted.address_below(path)
        if url:
            page_url, _, _ = url.partition("#")
            source["url"] = f"{page_url}#{anchor}" if anchor else url
        if page:
            source["page_number"] = str(page)
        title = _breadcrumbs(titles) or re.sub(r"[-_\s]+", " ", Path(file).stem).strip()
        entries: list[Entry] = []
        for piece in pieces(text):
            entries.append(
                Entry(
                    answer=piece,
                    question=question,
                    wordings=wordings,
                    other=source,
                    place=place or file,
                    title=title,
                )
            )
        return entries

    passages: list[Entry] = []
    for part in parts:
        passages += pieces_of(part.above, part.text, part.page, question=part.question, anchor=part.anchor)
    for marked in questions:
        passages += pieces_of(
            (converted.title, *marked.headings),
            marked.answer,
            page=None,
            question=marked.question,
            anchor=marked.anchor,
            wordings=marked.wordings,
        )
    return passages


def _breadcrumbs(headings: Iterable[str]) -> str:
    """Headings as one title, the outermost first; empty if there are none."""
    lines: list[str] = []
    for heading in filter(None, headings):
        line = " ".join(heading.split())
        if len(line) > MAX_TITLE:
            line = f"{line[: MAX_TITLE - 1]}…"
        lines.append(line)
    return " > ".join(lines)


def pieces(text: str) -> list[str]:
    """A text divided, at the best places, to the length that a model reads."""
    from haystack import Document

    if not text:
        return []
    n_dense = len(_DENSE.findall(text))
    length = DENSE_LENGTH if n_dense > len(text) * DENSE_SHARE else LENGTH
    if len(text) <= length:
        return [text]
    merged: list[str] = []
    for piece in _splitter(length).run(documents=[Document(content=text)])["documents"]:
        content = piece.content or ""
        if merged and len(merged[-1]) + len(content) <= length:  # the rest of a paragraph would say little alone
            merged[-1] += content
        else:
            merged.append(content)
    return list(filter(None, map(str.strip, merged)))


@cache
def _splitter(length: int) -> RecursiveDocumentSplitter:
    from haystack.components.preprocessors import RecursiveDocumentSplitter

    splitter = RecursiveDocumentSplitter(split_length=length, split_unit="char", separators=_ENDS)
    splitter.warm_up()
    return splitter
