"""Collects the questions that a document itself asks, with their whole answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ap_ranker.documents.convert import Converted
from ap_ranker.documents.html import without_marks
from ap_ranker.documents.markup_questions import JSON_LD, StatedEntry
from ap_ranker.documents.sections import Section
from ap_ranker.text.keys import question_key

HEADING = "heading"
"""The kind of a question that is a heading."""


def marked_up(converted: Converted, parts: Sequence[Section]) -> list[StatedEntry]:
    """The questions that a document marks up; for search engines, without those that are headings, too."""
    headings = {question_key(part.question) for part in parts if part.question}
    return [
        entry for entry in converted.stated if entry.kind != JSON_LD or question_key(entry.question) not in headings
    ]


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
