"""Splits a document into passages: its sections, divided to the length that a model reads, with Haystack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ap_ranker.documents.convert import Converted
from ap_ranker.documents.markup_questions import StatedEntry
from ap_ranker.documents.questions import marked_up
from ap_ranker.documents.sections import Section, sections

if TYPE_CHECKING:
    from haystack.components.preprocessors import RecursiveDocumentSplitter

LENGTH = 700
"""Maximum number of characters of a passage, some 120 words: with its title it stays below the 200 tokens that models
read, also where words are long. Passages end with sentences and do not overlap: an overlap would cut sentences."""

DENSE_LENGTH = 170
"""The same for Chinese, Japanese and Korean, where a character is a token."""

_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_ENDS = ["\n\n", ".\n", ". ", "? ", "! ", "。", "！", "？", "；", "\n", " "]
"""Where a text may be split, the best first. Not with Haystack's "sentence", which downloads a model."""


@dataclass(frozen=True)
class Passage:
    """A part of a document that is found as a whole.

    Attributes:
        title: its title path, such as `Handbook > Returns`, without the question.
        text: its text.
        page: its page or slide, from 1; `None` if the document has none.
        question: the question that the document itself asks for it; empty if none does.
        anchor: what leads to it in the page; empty if that is not known.
        wordings: further terms that it defines.
    """

    title: str
    text: str
    page: int | None = None
    question: str = ""
    anchor: str = ""
    wordings: tuple[str, ...] = ()


def split(converted: Converted, name: str) -> list[Passage]:
    """Split the text of a document.

    Args:
        converted: the document.
        name: the title of parts without one.
    """
    parts = sections(converted)
    return passages_of(converted.title, parts, marked_up(converted, parts), name)


def passages_of(title: str, parts: Sequence[Section], stated: Sequence[StatedEntry], name: str) -> list[Passage]:
    """The passages of sections, then those of questions that are no part of them.

    Args:
        title: of the document; may be empty.
        parts: its sections.
        stated: questions with their answers.
        name: the title of parts without one.
    """
    passages: list[Passage] = []
    for part in parts:
        path = title_path((*part.above, *part.below), name)
        passages += [Passage(path, text, part.page, part.question, part.anchor) for text in pieces(part.text)]
    for entry in stated:
        path = title_path((title, *entry.headings), name)
        passages += [
            Passage(path, text, None, entry.question, entry.anchor, entry.wordings) for text in pieces(entry.answer)
        ]
    return passages


def title_path(titles: Iterable[str], name: str) -> str:
    """Titles as one line, such as `Handbook > Returns`; the name of the document if there are none."""
    return " > ".join(" ".join(each.split()) for each in titles if each) or re.sub(r"[-_\s]+", " ", name).strip()


def pieces(text: str) -> list[str]:
    """A text divided, at the best places, to the length that a model reads."""
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
