"""Divides a document at its headings or pages, and finds the questions that it asks itself."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.documents.html import Converted, letters, path_key
from ap_ranker.documents.markup_questions import JSON_LD, MarkupQuestion
from ap_ranker.documents.question_paragraphs import is_labelled, without_answer_label, without_label
from ap_ranker.text.markdown_code import code_blocks
from ap_ranker.text.question_keys import question_key

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
    anchors = _Anchors(converted)
    above_questions: set[str] = set()
    for markup_question in converted.markup_questions:
        above_questions.update(map(letters, markup_question.headings))
    sections_so_far: list[Section] = []
    for number, (path, part) in enumerate(_parts(converted), start=1):
        lines = [line.rstrip() for line in part.replace("\f", "\n").split("\n")]
        if not path and above_questions:  # a heading of marked-up questions alone is their title
            lines = [line for line in lines if not line or letters(line) not in above_questions]
        anchor = anchors.next_of(path[-1]) if path else ""
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        if not text:
            continue
        is_article = path_key(path) in converted.articles
        question = ""
        above = path
        if path and (is_article or asks(path[-1]) or is_labelled(path[-1])):
            question = path[-1]
            above = path[:-1]
        titles = (converted.title, *above) if converted.title else above
        if not path and not sections_so_far and converted.by == "headings" and asks(converted.title):
            question = converted.title  # a page whose title asks what its text answers
            titles = above
        if question and not is_article:
            question = without_label(question)
            text = without_answer_label(text)
        page = number if converted.by == "pages" else None
        question = " ".join(question.split())
        sections_so_far.append(Section(titles, question, text=text, page=page, anchor=anchor))
    return sections_so_far


class _Anchors:
    """What leads to the headings of a page, told heading by heading, in order."""

    def __init__(self, converted: Converted) -> None:
        self._anchors = [anchor for _, anchor in converted.anchors]
        self._places: defaultdict[str, list[int]] = defaultdict(list)  # of headings with the same letters, in order
        for place, (heading, _) in enumerate(converted.anchors):
            self._places[letters(heading)].append(place)
        self._next_place = 0

    def next_of(self, heading: str) -> str:
        """The anchor of the next heading that reads so, of those behind the one before; empty if there is none."""
        places = self._places.get(letters(heading), [])
        at = bisect_left(places, self._next_place)
        if at == len(places):
            return ""
        self._next_place = places[at] + 1  # headings without text have none either
        return self._anchors[places[at]]


def _parts(converted: Converted) -> Iterator[tuple[tuple[str, ...], str]]:
    """The texts of a document's pages, or below its headings, which are the path of each."""
    text = re.sub(r"\r\n?", "\n", _UNUSABLE.sub("", converted.text))
    if converted.by == "headings":
        yield from _below_headings(text)
        return
    pages = text.split("\f") if converted.by == "pages" else [text]
    for page in pages:
        yield (), page


def _below_headings(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """What stands below each heading; one without text that is not above the next text is a part of that."""
    headings = list(_headings(text))
    ends = [heading.start() for heading in headings]
    ends.append(len(text))
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
    questions: list[MarkupQuestion] = []
    for question in converted.markup_questions:
        if question.kind != JSON_LD or question_key(question.question) not in headings:
            questions.append(question)
    return questions


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
    second, _, _ = rest.partition(" ")
    if rest and _WORDS.fullmatch(first):
        return True
    return _INVERTED.fullmatch(f"{first} {second}") is not None
