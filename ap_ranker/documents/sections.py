"""Divides a document at its headings or pages, and finds the questions that it asks itself."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.documents.html import Converted, letters
from ap_ranker.documents.markup_questions import JSON_LD, MarkupQuestion
from ap_ranker.documents.question_paragraphs import is_labelled, without_answer_label, without_label
from ap_ranker.text.markdown_code import code_blocks
from ap_ranker.text.reading import question_key

HEADING = "heading"
"""The kind of a question that is a heading."""

_HEADING = re.compile(r"^(?P<level>#{1,6}) (?P<title>.+)$", re.MULTILINE)

_UNUSABLE = re.compile(r"[\0\ud800-\udfff\ue000-\uf8ff]")
"""Characters of damaged fonts that UTF-8 text cannot or should not hold, and signs of symbol fonts, such as bullets."""


@dataclass(frozen=True)
class Section:
    """The text below one heading, or of one page, up to the next."""

    above: tuple[str, ...]  # titles: of the document, then of each heading above, and its own unless that asks
    question: str  # its own heading, if that asks
    text: str
    page: int | None = None  # or slide, from 1
    anchor: str = ""  # what leads to it in the page


def sections(converted: Converted) -> list[Section]:
    """The sections of a document that have text, in order.

    A heading that asks a question asks for the text up to the next heading of any level: what stands below another
    one is about another matter as often as not.
    """
    anchors = [anchor for _, anchor in converted.anchors]
    places: defaultdict[str, list[int]] = defaultdict(list)  # of the headings with the same letters, in order
    for place, (heading, _) in enumerate(converted.anchors):
        places[letters(heading)].append(place)
    next_place = 0
    headings_of_questions = chain.from_iterable(question.headings for question in converted.markup_questions)
    above_questions = set(map(letters, headings_of_questions))
    sections_so_far: list[Section] = []
    text = re.sub(r"\r\n?", "\n", _UNUSABLE.sub("", converted.text))
    pages = text.split("\f") if converted.by == "pages" else [text]
    parts = _below_headings(text) if converted.by == "headings" else (((), page) for page in pages)
    for number, (path, part) in enumerate(parts, start=1):
        lines = "\n".join(line.rstrip() for line in part.replace("\f", "\n").split("\n"))
        if not path and lines and above_questions:  # a heading of marked-up questions alone is their title
            lines = "\n".join(line for line in lines.split("\n") if not line or letters(line) not in above_questions)
        anchor = ""
        same = places[letters(path[-1])] if path else []
        at = bisect_left(same, next_place)
        if at < len(same):
            anchor = anchors[same[at]]
            next_place = same[at] + 1  # headings without text have none either
        text = re.sub(r"\n{3,}", "\n\n", lines).strip()
        if not text:
            continue
        is_article = bool(path) and letters(path[-1]) in converted.articles
        is_asked = is_article or (bool(path) and (asks(path[-1]) or is_labelled(path[-1])))
        above, question = (path[:-1], path[-1]) if is_asked else (path, "")
        titles = (converted.title, *above) if converted.title else above
        if not path and not sections_so_far and converted.by == "headings" and asks(converted.title):
            question = converted.title  # a page whose title asks what its text answers
            titles = above
        if question and not is_article:
            question = without_label(question)
            text = without_answer_label(text)
        page = number if converted.by == "pages" else None
        sections_so_far.append(Section(titles, " ".join(question.split()), text=text, page=page, anchor=anchor))
    return sections_so_far


def _below_headings(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """What stands below each heading; one without text that is not above the next text is a part of that."""
    headings = list(_headings(text))
    ends = [*(heading.start() for heading in headings), len(text)]
    yield (), text[: ends[0]]
    above: dict[int, str] = {}
    waiting: list[str] = []
    for heading, end in zip(headings, ends[1:], strict=True):
        level = len(heading["level"])
        title = heading["title"].strip()
        above = {upper: name for upper, name in above.items() if upper < level}
        above[level] = title
        waiting.append(title)
        part = text[heading.end() : end]
        if part.strip():
            path = tuple(filter(None, above.values()))
            without_text = [name for name in waiting if name not in path]
            yield path, "\n".join([*without_text, re.sub(r"\A\s*\n", "", part)])
            waiting = []
    yield (), "\n".join(waiting)


def _headings(text: str) -> Iterator[re.Match[str]]:
    """The headings of a text, but for lines of code that look like one."""
    inside = code_blocks(text)
    starts = [start for start, _ in inside]
    for heading in _HEADING.finditer(text):
        before = bisect_right(starts, heading.start()) - 1
        if before < 0 or heading.start() >= inside[before][1]:
            yield heading


def marked_up(converted: Converted, parts: Sequence[Section]) -> list[MarkupQuestion]:
    """The questions that a document marks up; for search engines, without those that are headings, too."""
    headings = {question_key(part.question) for part in parts if part.question}
    return [q for q in converted.markup_questions if q.kind != JSON_LD or question_key(q.question) not in headings]


_WORDS = re.compile(
    r"(how|what|when|where|which|who|whom|whose|why)(['\u2019]s|['\u2019]re)?"
    r"|was|wann|warum|weshalb|weswegen|wieso|wie|wieviele?|wo|wer|wem|wen|wessen|welche[mnrs]?"
    r"|wo(her|hin)|wo(r?(an|auf|aus|in|über|um|unter)|durch|für|gegen|mit|nach|von|vor|zu)",
    re.IGNORECASE,
)
"""Words that begin a question, in English and in German."""

_INVERTED = re.compile(
    r"(am|are|can|could|did|do|does|has|have|is|may|must|should|was|were|will|would)"
    r" (i|we|you|he|she|it|they|there|my|our|your|this|these|the|an?)"
    r"|(bin|ist|sind|kann|können|darf|dürfen|muss|müssen|soll|sollen|sollte|hat|habe|haben|wird|werde|werden|brauche"
    r"|brauchen|gibt|gilt|gelten|bekomme|erhalte|braucht)"
    r" (ich|wir|sie|er|es|man|ihr|mein|meine|der|die|das|ein|eine)",
    re.IGNORECASE,
)
"""A verb before its subject."""


def asks(heading: str) -> bool:
    """Whether a heading asks a question: by its mark, or by how it begins.

    Statements that begin alike, such as "How it works", count, too: users ask for them in the same words.
    """
    text = heading.strip(" \t\"'*_»«„“”()[]").lstrip("0123456789. ")
    if text.endswith(QUESTION_MARKS):
        return any(map(str.isalpha, text))
    first, _, rest = text.partition(" ")
    second = rest.partition(" ")[0]
    return bool((rest and _WORDS.fullmatch(first)) or _INVERTED.fullmatch(f"{first} {second}"))
