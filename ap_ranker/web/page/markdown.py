"""Simple Markdown as safe HTML: paragraphs, lists, tables, headings, code, bold, italics and links.

A picture is a link to it, as the page asks no other host. Whatever else stands in a text is shown as it was written:
HTML, quotes, entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ap_ranker.kept_results import keep
from ap_ranker.text.markdown_tables import lacks_cells

MAX_CHARACTERS = 20_000
"""Maximum length of a text that is read as Markdown, which takes at worst some 0.3 s; a longer one is shown as text."""

KEPT_CHARACTERS = 2_000_000
"""Characters of texts whose HTML is kept: reading one of 500 takes 0.2 ms, and answers are shown again."""

MOST_TIMES = 15
"""Maximum number of characters of HTML for each of a text, such as of addresses, which become links."""

SCHEMES = ("http", "https", "mailto")
"""Of addresses that links lead to: any other could be a program."""

_BULLET = re.compile(r"^([^\S\n]*)•(?=\s)", re.MULTILINE)  # as word processors write lists

# Each part is bounded, so that no text takes long.
_ADDRESS = re.compile(
    r"""https?://(?:[^\s<>"()]|\([^\s<>"()]{0,200}\)){1,2000}|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}"""
)


def _reader(*further: str) -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(further)
    return reader.disable(["code", "reference", "lheading", "hr", "blockquote", "entity", "autolink"])


_with_tables = _reader("table")
_without_tables = _reader()


def to_html(text: str) -> str:
    """A text as HTML without programs, styles, pictures, or links to other places than the web and mailboxes.

    It has at most `MOST_TIMES` as many characters as the text, and the elements around it.
    """
    if len(text) > MAX_CHARACTERS:
        return f"<p>{escape(text)}</p>"
    return _rendered(text)


@keep(KEPT_CHARACTERS)
def _rendered(text: str) -> str:
    reader = _without_tables if lacks_cells(text) else _with_tables
    tokens = reader.parse(_BULLET.sub(r"\1-", text))
    for token in tokens:
        token.attrs.pop("style", None)  # of a column's alignment, which the page's policy refuses
        if token.type in ("heading_open", "heading_close"):  # the page has headings of its own
            token.tag = "p"
            if token.type == "heading_open":
                token.attrs["class"] = "heading"
        if token.children:
            token.children = list(_with_links(token.children))
    html: str = reader.renderer.render(tokens, reader.options, {})
    # Wide tables are scrolled, also by the keyboard.
    return html.replace("<table>", '<div class="table" tabindex="0"><table>').replace("</table>", "</table></div>")


def _with_links(tokens: Sequence[Token]) -> Iterator[Token]:
    """Make links of bare addresses and of pictures; all links open in another window.

    Of a link that leads to another place than the web or a mailbox, only the text stays.
    """
    is_inside_link = False
    for token in tokens:
        if token.type == "link_open":
            is_inside_link = True
            token.attrs = _link(str(token.attrs["href"]))
            token.tag = "a" if token.attrs else "span"
            tag = token.tag
        elif token.type == "link_close":
            is_inside_link = False
            token.tag = tag
        if token.type == "image":
            text = _text(token.content or str(token.attrs["src"]))
            if is_inside_link:
                yield text
            else:
                target = {"href": token.attrs["src"]}
                begin = Token("link_open", "a", 1, attrs=target)
                end = Token("link_close", "a", -1)
                yield from _with_links([begin, text, end])
        elif token.type == "text" and not is_inside_link:
            yield from _linked(token.content)
        else:
            yield token


def _linked(text: str) -> Iterator[Token]:
    last = 0
    for match in _ADDRESS.finditer(text):
        address = match[0].rstrip(".,;:!?'*_")  # of the sentence around it
        yield _text(text[last : match.start()])
        target = address if address.startswith("http") else f"mailto:{address}"
        yield Token("link_open", "a", 1, attrs=_link(target))
        yield _text(address)
        yield Token("link_close", "a", -1)
        last = match.start() + len(address)
    yield _text(text[last:])


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _link(address: str) -> dict[str, str | int | float]:
    try:
        scheme = urlsplit(address).scheme
    except ValueError:
        scheme = ""
    if scheme not in SCHEMES:
        return {}
    attributes: dict[str, str | int | float] = {"href": address, "rel": "noopener noreferrer"}
    if scheme != "mailto":
        attributes["target"] = "_blank"
    return attributes
