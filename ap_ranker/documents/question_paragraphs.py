"""Finds questions that are paragraphs, not headings: bold ones, and those that begin with "Q:", and their labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ap_ranker.data.dataset import QUESTION_MARKS

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_QUESTION_WORDS = "q|question|frage|pregunta|domanda|pergunta|vraag|faq"

QUESTION_LABEL = re.compile(
    rf"\s*+(?:(?:{_QUESTION_WORDS})[ \t]*+(?:(?:no\.?|nr\.?|#)[ \t]*+)?(?:\.*+\d++)*+"
    r"(?:\.*+[ \t]*+[:.)\u2013\uff1a-]++|[:.)\u2013\uff1a-]++)|q\d++)\s++(?=\S)",
    re.IGNORECASE,
)
"""What a question is labelled with: "Q1:", "Q.", "Question 2:"."""

NUMBER = re.compile(r"\s*+[([]?\d{1,3}(?:\.\d{1,3})*[.):\]]*\s++(?=\S)")
"""The number of a heading: "2.", "3.1", "(4)"."""

ANSWER_LABEL = re.compile(
    r"\s*+(?:a|answer|ans|antwort|réponse|respuesta|risposta|resposta|antwoord)[ \t]*+(?:\d++[ \t]*+)?"
    r"[:.)\uff1a]+\s*+(?=\S)",
    re.IGNORECASE,
)
"""What an answer is labelled with: "A:", "Answer:"."""


def without_label(question: str) -> str:
    """A question without its number and its label."""
    text = question
    for label in (NUMBER, QUESTION_LABEL, NUMBER):
        match = label.match(text)
        if match:
            text = text[match.end() :]
    if any(map(str.isalpha, text)):
        return text
    return question


def without_answer_label(text: str) -> str:
    """An answer without its label."""
    match = ANSWER_LABEL.match(text)
    return text[match.end() :] if match else text


def is_labelled(text: str) -> bool:
    """Whether a text begins as a question that is labelled so."""
    number = NUMBER.match(text)
    begins = number.end() if number else 0
    return QUESTION_LABEL.match(text, begins) is not None


def mark_questions(soup: BeautifulSoup) -> None:
    """Make headings of the questions among the paragraphs of a page, each with what follows it in its paragraph.

    Such a paragraph is a question as a whole, in bold; or bold or labelled up to the end of a line.
    """
    for items in soup(["ol", "ul"]):
        _open_list(items)
    for paragraph in soup(["p", "div"]):
        if paragraph.find(["p", "div", "table", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6"]) is not None:
            continue
        if paragraph.find_parent(["td", "th", "li", "dl", "details", "h1", "h2", "h3", "h4", "h5", "h6"]) is None:
            _mark(soup, paragraph)


def _open_list(items: Tag) -> None:
    """Make paragraphs of a list each of whose items begins with a bold question."""
    entries = items.find_all("li", recursive=False)
    for entry in entries:
        line = _first_line(entry)
        if not _is_bold(line) or not _text(line).strip().endswith(QUESTION_MARKS):
            return
    for entry in entries:
        entry.name = "div" if entry.find(["p", "div", "ul", "ol", "table"]) is not None else "p"
    if entries:
        items.name = "div"


def _first_line(entry: Tag) -> list[Any]:
    """The nodes of the first line of a list's item, which may stand in a paragraph; none if it has no text."""
    children: Iterator[Any] = entry.children
    for node in children:
        if _text([node]).strip():
            nodes = node.children if _name(node) == "p" else [node]
            lines = _lines_of(nodes)
            return lines[0] if lines else []
    return []


def _mark(soup: BeautifulSoup, paragraph: Tag) -> None:
    """Make headings of the questions of a paragraph, if it begins with one."""
    lines = _lines(paragraph)
    if not lines:
        return
    line = " ".join(_text(lines[0]).split())
    is_bold = _is_bold(lines[0])
    asks = line.endswith(QUESTION_MARKS) or is_labelled(line)
    if not asks or not any(map(str.isalpha, line)) or not (is_bold or QUESTION_LABEL.match(line)):
        return
    if len(line) > LONGEST:
        return
    groups: list[list[Any]] = [[]]  # each question of the paragraph's lines with those below it
    for nodes in lines:
        text = " ".join(_text(nodes).split())
        is_next = QUESTION_LABEL.match(text) or (is_bold and _is_bold(nodes) and text.endswith(QUESTION_MARKS))
        if is_next and groups[-1]:
            groups.append([])
        groups[-1].append(nodes)
    for question, *answers in groups:
        heading = soup.new_tag("h6")
        heading.string = " ".join(_text(question).split())
        paragraph.insert_before(heading)
        if answers:
            below = soup.new_tag("p")
            for i, nodes in enumerate(answers):
                if i:
                    below.append(soup.new_tag("br"))
                below.extend(nodes)
            paragraph.insert_before(below)
    paragraph.decompose()


LONGEST = 300
"""Maximum number of characters of a question: a longer bold paragraph is a text."""


def _lines(paragraph: Tag) -> list[list[Any]]:
    """The nodes of a paragraph's lines, which a `br` ends; a line of Markdown ends with white space, too."""
    return _lines_of(list(paragraph.children))


def _lines_of(nodes: Iterable[Any]) -> list[list[Any]]:
    lines: list[list[Any]] = [[]]
    for node in nodes:
        if _name(node) == "br":
            lines.append([])
            continue
        is_text = _name(node) is None
        begins_line = is_text and str(node).startswith("\n")
        if begins_line and _is_bold(lines[-1]):  # a question in bold, a line above its answer
            lines.append([node])
            continue
        if is_text and "\n" in str(node).strip():
            first, *rest = str(node).strip().split("\n")
            if all(QUESTION_LABEL.match(part) or ANSWER_LABEL.match(part) for part in rest):
                lines[-1].append(type(node)(first))
                for part in rest:
                    lines.append([type(node)(part)])
                continue
        lines[-1].append(node)
    return [line for line in lines if _text(line).strip()]


def _name(node: Any) -> str | None:
    """The name of an element; `None` for a text."""
    name: str | None = getattr(node, "name", None)
    return name


def _text(nodes: Iterable[Any]) -> str:
    texts = []
    for node in nodes:
        texts.append(node.get_text() if _name(node) else str(node))
    return "".join(texts)


def _is_bold(nodes: Iterable[Any]) -> bool:
    """Whether all text of a line is bold."""
    with_text = [node for node in nodes if _text([node]).strip()]
    return bool(with_text) and all(map(_holds_bold, with_text))


def _holds_bold(node: Any) -> bool:
    """Whether a node is bold, or an element, such as a `span`, that holds nothing but bold text."""
    name = _name(node)
    if name in ("b", "strong"):
        return True
    return name in ("span", "font", "u", "em", "i", "a") and _is_bold(node.children)
