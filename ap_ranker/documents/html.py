"""Reads a page of HTML: its text with headings as those of Markdown, and the questions that it marks up.

It does not go through Haystack's `HTMLToDocument`: Trafilatura, which is made for articles, leaves out the headings of
short pages, and every section but the first of some lists of questions.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ap_ranker.data.dataset import QUESTION_MARKS
from ap_ranker.documents.markup_questions import HEADINGS, MarkupQuestion, read_json_ld, set_anchors, take_entries
from ap_ranker.documents.question_paragraphs import mark_questions
from ap_ranker.text.question_keys import question_key

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag


@dataclass(frozen=True)
class Converted:
    """A document as text."""

    text: str  # `#` begins a heading, a form feed a page
    title: str = ""  # of the whole document; empty, too, if a heading of the first level says it
    url: str = ""  # on the web
    by: str = ""  # what the text is divided by: `headings`, `pages`, or nothing
    advice: str = ""  # what to do if there is no text
    anchors: Sequence[tuple[str, str]] = ()  # each heading of the text, in order, with what leads to it
    markup_questions: Sequence[MarkupQuestion] = ()  # with their answers, no part of the text
    faults: Sequence[tuple[str, str]] = ()  # parts of it that could not be read, and why; empty for some of its text
    articles: Mapping[str, str] = field(default_factory=dict)  # `path_key` of each -> its address

    def address_below(self, path: Sequence[str]) -> str:
        """The address of the article that is, or is above, the last heading of a path; without one, of the document."""
        return self.articles.get(path_key(path[:2]), self.url)


def path_key(path: Iterable[str]) -> str:
    """The headings of a path as one key; an article has two, its category and its title, as titles alone repeat."""
    return " ".join(map(letters, path))


def letters(text: str) -> str:
    """The same for a heading in HTML and in Markdown, where some characters are escaped."""
    return "".join(filter(str.isalnum, text))


def slugs() -> Callable[[str], str]:
    """Makes ids of headings as GitHub does, for the headings of one document in order: text -> id."""
    used: Counter[str] = Counter()

    def slug_of(heading: str) -> str:
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        used[slug] += 1
        if used[slug] > 1:
            return f"{slug}-{used[slug] - 1}"
        return slug

    return slug_of


_NO_TEXT = ["script", "style", "noscript", "template", "nav", "button", "select", "svg", "iframe"]
"""Elements without text to read."""


def read_page(content: bytes | str, slug: Callable[[str], str] | None = None) -> Converted:
    """Read a page of HTML; `slug` makes ids of headings that have none: text -> id."""
    if isinstance(content, str):
        soup = _parse(_close_headings(content))
    else:  # in whatever encoding, which the parser finds
        soup = _parse(_close_headings(content.decode("latin-1")).encode("latin-1"))
    title = ""
    if soup.title:
        title = soup.title.get_text(" ", strip=True)
    above = _keep_page_of_confluence(soup)
    address = soup.find("link", rel="canonical")
    url = str(address.get("href") or "") if address else ""
    hidden, faults = read_json_ld(soup, _text_of_html)
    mark_questions(soup)
    for heading in soup(HEADINGS):  # a `div` between them has kept it open
        for inner in reversed(heading(HEADINGS)):
            heading.insert_after(inner.extract())
    set_anchors(soup, slug)
    _remove_what_is_no_text(soup)
    mains = [main for main in soup("main") if main.get_text(strip=True)]
    body = mains[0] if len(mains) == 1 else soup.body
    if body is None:
        return Converted("", title, url, "headings", markup_questions=hidden, faults=faults)
    markup_questions = take_entries(body, _text_of_element)
    visible = {question_key(entry.question) for entry in markup_questions}
    markup_questions += [entry for entry in hidden if question_key(entry.question) not in visible]
    anchors = [(heading.get_text(), str(heading["id"])) for heading in body(HEADINGS)]
    if above:
        title = above
    elif body.find("h1") is not None:  # which says it
        title = ""
    return Converted(
        _to_text(body),
        title,
        url=url,
        by="headings",
        advice="",
        anchors=anchors,
        markup_questions=markup_questions,
        faults=faults,
    )


def _text_of_html(html: str) -> str:
    return without_marks(_to_text(_parse(html)))


def _text_of_element(element: Tag) -> str:
    return without_marks(_to_text(element))


def _keep_page_of_confluence(soup: BeautifulSoup) -> str:
    """Keep only the title and the text of a page that Confluence exported; the names of the pages above it.

    Who made it, attachments and comments go, and all of the export's table of contents. Other HTML stays as it is.
    """
    title = soup.find(id="title-text")
    body = soup.body
    if title is None or body is None or soup.find(class_="pagetitle") is None:
        return ""
    above = [" ".join(link.get_text().split()) for link in soup.select("#breadcrumbs a")]
    text = " ".join(title.get_text().split())
    heading = soup.new_tag("h1")
    content = soup.find(id="main-content", class_="wiki-content")
    heading.string = text.removeprefix(f"{above[0]} : ") if above else text
    body.clear()
    if content is not None:
        body.extend([heading, content])
        for contents in content.select(".toc-macro"):
            contents.decompose()
    return " > ".join(above[2:])  # without the space and its home page, which are above every other one


def _parse(content: bytes | str) -> BeautifulSoup:
    import lxml  # noqa: F401  # named to BeautifulSoup, which would not say how to install it
    from bs4 import BeautifulSoup

    with warnings.catch_warnings(action="ignore"):  # such as that it is XHTML
        return BeautifulSoup(content, "lxml")


_HEADING = re.compile(r"<(/?)(h[1-6])(?=[\s/>])", re.IGNORECASE)


def _close_headings(html: str) -> str:
    """End a heading where the next begins, as browsers do; lxml takes one without an end for the other's outside."""
    unclosed = ""

    def close(tag: re.Match[str]) -> str:
        nonlocal unclosed
        before = unclosed
        unclosed = "" if tag[1] else tag[2]
        if before and not tag[1]:
            return f"</{before}>{tag[0]}"
        return tag[0]

    return _HEADING.sub(close, html)


def _remove_what_is_no_text(soup: BeautifulSoup) -> None:
    for tag in soup("button"):
        if tag.find_parent([*HEADINGS, "summary", "dt"]):  # it opens what is below
            tag.unwrap()
        elif tag.has_attr("aria-expanded") or tag.get_text(strip=True).endswith(QUESTION_MARKS):
            tag.name = "p"
    for tag in soup(_NO_TEXT):
        tag.decompose()
    for tag in soup(["header", "footer", "aside"]):  # those of the site, not those of its text
        if not tag.find_parent(["main", "article"]) and not tag.find("h1"):
            tag.decompose()
    for tag in soup("a"):
        if not letters("".join(tag.strings)):  # such as ¶, the link of a heading to itself
            tag.decompose()


MOST_SPANNED = 20
"""Maximum number of columns that a cell of a table spans."""

LONGEST_NUMBER = 9
"""Digits that are read of a number."""

_FEW = 64
_LONG_SPACE = re.compile(rf"[\t \r\n]{{{_FEW},}}+")
"""White space for which the converter takes a time that grows with the square of its length."""


def _one_space(space: re.Match[str]) -> str:
    """What the converter leaves of it."""
    if "\n" in space[0] or "\r" in space[0]:
        return "\n"
    return " "


def _short_space(space: re.Match[str]) -> str:
    """The same in code, of which nothing is left out; nobody indents it so far."""
    rest = space[0][_FEW:]
    line_end = "\n" if "\n" in rest else ""
    return space[0][:_FEW] + line_end


_BLOCKS = ("p", "div", "details", "dl", "dt", "dd")


def _to_text(tag: Tag) -> str:
    """The text of an element, with headings, lists and tables as those of Markdown."""
    from markdownify import MarkdownConverter

    for element in tag(["summary", "dt"]):  # else nothing separates it from what follows
        element.name = "p"
    for cell in tag(["td", "th"]):  # the converter adds a cell for each column that one spans
        spanned = str(cell.get("colspan", ""))
        if spanned.isdecimal():
            # Python refuses numbers of thousands of digits.
            cell["colspan"] = str(min(int(spanned[:LONGEST_NUMBER]), MOST_SPANNED))
    full: set[int] = set()  # elements with text; each is visited once, however deep the texts are
    strings: list[Any] = list(tag.strings)
    for i, string in enumerate(strings):
        if _LONG_SPACE.search(string):
            shorter = _one_space if string.find_parent("pre") is None else _short_space
            strings[i] = type(string)(_LONG_SPACE.sub(shorter, string))
            string.replace_with(strings[i])
    for string in filter(str.strip, strings):
        for parent in string.parents:
            if parent is tag or id(parent) in full:
                break
            full.add(id(parent))
    for element in tag([*HEADINGS, *_BLOCKS]):
        if id(element) not in full:  # else nothing is left of it between two words
            element.replace_with(" ")
    if tag.name in ("dd", "th", "td"):  # else it has a colon or a bar
        tag.name = "div"
    converter = MarkdownConverter(
        heading_style="ATX",
        bullets="-",
        strip=["a", "img", "b", "strong", "i", "em", "code", "kbd", "samp"],
        escape_asterisks=False,
        escape_underscores=False,
    )
    return str(converter.convert_soup(tag)).strip()


_FENCE = re.compile(r"\s*(```|~~~)")
_MARK = re.compile(r"#{1,6} (?=\S)")


def without_marks(text: str) -> str:
    """A text whose headings are lines like others; code is left as it is."""
    lines = []
    in_code = False
    for line in text.split("\n"):
        in_code ^= bool(_FENCE.match(line))
        if in_code:
            lines.append(line)
        else:
            lines.append(_MARK.sub("", line, count=1).rstrip())
    return "\n".join(lines)
