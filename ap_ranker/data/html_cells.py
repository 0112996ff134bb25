"""Cells of tables that hold HTML, as editors of help desks write it: their text and their links."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

_INLINE = ("a", "b", "strong", "i", "em", "u", "s", "span", "font", "small", "sub", "sup", "mark", "code")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_TABLES = ("table", "tbody", "thead", "tr", "td", "th")
_BLOCKS = (*_HEADINGS, *_TABLES, "p", "div", "ul", "ol", "li", "blockquote", "section", "article", "pre")
_TAG = re.compile(rf"<(?P<ends>/?)(?P<name>{'|'.join((*_INLINE, *_BLOCKS))})(?:\s[^<>]*)?>", re.IGNORECASE)
_ALONE = re.compile(r"<(?:br|hr|img)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_NAMED_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{2,5}|#x[0-9a-fA-F]{2,5});")

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_DECLARATION = re.compile(r"<[!?][^<>]*>")
_NO_TAG = re.compile(r"<(?![/A-Za-z][^<>]*>)")
"""What begins no tag. The parser would look for its end in all the rest of a text."""


def shown_text(text: str) -> str:
    """A cell's text as it is shown. Only HTML changes: a tag that is spoken of, such as "write <b>", has no end."""
    if "&" not in text and "<" not in text:
        return text
    if _has_element(text) or _ALONE.search(text):
        before, end, behind = text.rpartition("-->")
        shown = _DECLARATION.sub("", _COMMENT.sub("", before + end) + behind)
        parser = _Text()
        parser.feed(_NO_TAG.sub("&lt;", shown))
        parser.close()
        return parser.result() or text
    if _NAMED_ENTITY.search(text):
        return _NAMED_ENTITY.sub(lambda entity: unescape(entity[0]).replace("\xa0", " "), text)
    return text


def _has_element(text: str) -> bool:
    """Whether a tag that begins is ended."""
    begun: set[str] = set()
    for tag in _TAG.finditer(text):
        name = tag["name"].lower()
        if not tag["ends"]:
            begun.add(name)
        elif name in begun:
            return True
    return False


class _Text(HTMLParser):
    """Collects the text of HTML, with links and lists as those of Markdown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._link: tuple[str, int] | None = None  # the address of the open link, and where its text begins
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._skipped += 1
        elif tag in ("br", "hr"):
            self._parts.append("\n")
        elif tag == "li":
            self._parts.append("\n- ")
        elif tag in ("td", "th"):
            self._parts.append(" ")
        elif tag == "a":
            self._end_link()  # there is none in another one
            address = dict(attrs).get("href") or ""
            self._link = address, len(self._parts)
        elif tag in ("p", "blockquote", "pre", *_HEADINGS):
            self._parts.append("\n\n")
        elif tag in _BLOCKS:
            self._parts.append("\n")
        elif tag == "img" and (text := dict(attrs).get("alt")):
            self._parts.append(text)
        elif tag not in _INLINE and tag != "img":
            self._parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._skipped = max(0, self._skipped - 1)
        elif tag == "a":
            self._end_link()
        elif tag in ("p", "ul", "ol", "table"):
            self._parts.append("\n\n")
        elif tag in _BLOCKS and tag not in ("li", "td", "th"):
            self._parts.append("\n")

    def _end_link(self) -> None:
        if self._link is None:
            return
        address, start = self._link
        self._link = None
        text = " ".join("".join(self._parts[start:]).split())
        is_web = re.match(r"(?i)https?://|mailto:", address) is not None
        self._parts[start:] = [f"[{text}]({address})" if is_web and text and text != address else text]

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._parts.append(data)

    def result(self) -> str:
        """The text without needless white space."""
        text = "".join(self._parts).replace("\xa0", " ")
        lines = "\n".join(" ".join(line.split()) for line in text.split("\n"))
        return re.sub(r"\n{3,}", "\n\n", re.sub(r"(?<!\n)\n+(?=- )", "\n", lines)).strip()
