"""Cells of tables that hold HTML, as editors of help desks write it: their text and their links.

Only a cell that is HTML changes. The rule, in this order:

1. A text whose Markdown code shows tags ("`<b>`", a block between fences) is about HTML: it stays as it is.
2. An element of an editor's paragraphs, lists or tables, begun and ended ("<p>...</p>"), makes a cell HTML, and so does
   one with an attribute (`<a href="...">`, `<span style="...">`).
3. Other tags ("<b>No</b>, but ...", "one<br>two") do, unless the text speaks of them: it names HTML or tags, asks to
   write the tag that follows ("write <b>your name</b>"), or has nothing but white space and signs within ("<b> and
   </b>").
4. HTML in paragraphs is shown without needless white space. A text in which tags only stand in lines keeps its line
   ends and spaces, and so does Markdown, whose lists and code depend on them.

What the product writes itself is read as the same text again: `as_cell`.
"""

from __future__ import annotations

import re
from html import unescape
from html.entities import html5
from html.parser import HTMLParser

from ap_ranker.text.markdown_code import code_blocks

_INLINE = (
    *("a", "b", "strong", "i", "em", "u", "s", "strike", "del", "ins", "span", "font", "small", "big", "sub", "sup"),
    *("mark", "code", "kbd", "abbr", "label", "time", "cite", "q", "tt"),
)
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_TABLES = ("table", "tbody", "thead", "tfoot", "tr", "td", "th", "caption", "colgroup")
_LISTS = ("ul", "ol", "li", "dl", "dt", "dd")
_SECTIONS = ("section", "article", "header", "footer", "main", "aside", "nav", "figure", "figcaption", "details")
_BLOCKS = (*_HEADINGS, *_TABLES, *_LISTS, *_SECTIONS, "summary", "center", "address", "p", "div", "blockquote", "pre")
_ALONE = ("br", "hr", "img", "col", "wbr")
_MEDIA = ("iframe", "video", "audio", "source", "embed")
_HIDDEN = ("script", "style")

_TAG = re.compile(
    rf"<(?P<ends>/?)(?P<name>{'|'.join((*_INLINE, *_BLOCKS, *_ALONE))})(?P<attributes>\s[^<>]*)?/?>", re.IGNORECASE
)
_ATTRIBUTE = re.compile(r"""\s(?:href|src|style|class|id|target|dir|color|size|face|lang|title)\s*=\s*["']?[^\s"']""")

_DECODED = re.compile(r"&#(?:38|60|62|92);")
"""What `as_cell` writes, which is read as a character in every text."""

_ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,10}|#\d{2,5}|#x[0-9a-fA-F]{2,5});")

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_DECLARATION = re.compile(r"<[!?][^<>]*>")
_READ = "|".join((*_INLINE, *_BLOCKS, *_ALONE, *_MEDIA, *_HIDDEN))
_NO_TAG = re.compile(rf"<(?!/?(?:{_READ})(?:[\s/][^<>]*)?>)", re.IGNORECASE)
"""What begins no tag that is read. The parser would look for its end in all the rest of a text, or drop it."""

_BREAK = re.compile(r"<br(?:\s[^<>]*)?/?>", re.IGNORECASE)
_LINE_END_BEHIND = re.compile(r"(<br(?:\s[^<>]*)?/?>)[ \t]*\r?\n", re.IGNORECASE)
_TABLE_ROW = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)
"""A line of a table in Markdown, which is one line."""

_CODE_SPAN = re.compile(r"(?<!`)(?P<marks>`{1,3})(?!`)(?P<code>[^`\n]+)(?P=marks)(?!`)")
_IN_CODE = re.compile(r"</?[a-zA-Z!]|&[a-zA-Z]+;")

_MARKDOWN = re.compile(
    r"^(?:[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+\S|#{1,6}[ \t]+\S|>[ \t]|\|)"  # lists, headings, quotes, tables
    r"|^(?: {4}|\t)\S"  # code
    r"|^[ \t]*(?:`{3}|~{3})"
    r"|\*\*[^*\s]|\]\(",
    re.MULTILINE,
)

_ABOUT_MARKUP = re.compile(
    r"\b(?:x?html5?|xml|css|markup|markdown|bbcode|tags?|balises?|etiquetas?|web ?code|source ?code)\b", re.IGNORECASE
)
_WRITING = (
    r"write|type|schreib\w*|tipp\w*|[ée]cri\w+|tapez|escrib\w+|escreva|scriv\w+|"
    r"schrijf|typ|skriv|napisz|yaz\w*|напиш\w+"
)
_USING = (
    r"use|put|enter|insert|add|paste|between|verwend\w*|benutz\w*|setz\w*|zwischen|utilise\w*|saisi\w*|entre|us[ae]|"
    r"introdu\w+|inser\w+|gebruik|anv[äa]nd|brug|bruk|u[żz]yj|wpisz|kullan\w*|введи\w*"
)
_WRITES_ELEMENT = re.compile(rf"\b(?:{_WRITING})(?: sie)?[ \t:]{{1,3}}[\"'“„«]?$", re.IGNORECASE)
_WRITES_ALONE = re.compile(rf"\b(?:{_WRITING}|{_USING})(?: sie)?[ \t:]{{1,3}}[\"'“„«]?$", re.IGNORECASE)
"""What asks to write an element; a tag alone or an entity, of which a page says more. Only the characters just before a
tag are searched."""

_ANY_TAG = re.compile(r"<[^<>]*>")

_BEFORE = 24
"""Characters before a tag in which such a word is looked for."""


def as_cell(text: str) -> str:
    """A text as the product writes it into tables: what a reader would take for HTML or an escape is written apart."""
    is_kept = shown_text(text) == text and not re.search(r"\\[nrt]", text)
    if is_kept:
        return text
    return text.translate({ord(sign): f"&#{ord(sign)};" for sign in "&<>\\"})


def shown_text(text: str) -> str:
    """A cell's text as it is shown. Only HTML changes."""
    if "&" not in text and "<" not in text:
        return text
    if not _shows_tags(text):
        if "<" in text and _is_html(text):
            return _text_of(text)
        if _ENTITY.search(text) and not _speaks_of(text, _ENTITY):
            return _ENTITY.sub(_character, text)
    return _DECODED.sub(_character, text)


def _character(entity: re.Match[str]) -> str:
    is_known = entity[0].startswith("&#") or entity[0][1:] in html5
    if not is_known:
        return entity[0]
    return unescape(entity[0]).replace("\xa0", " ")


def _shows_tags(text: str) -> bool:
    """Whether code in Markdown has a tag or an entity."""
    if "`" not in text and "~~~" not in text:
        return False
    code = [text[start:end] for start, end in code_blocks(text)]
    code += [span["code"] for span in _CODE_SPAN.finditer(text)]
    return any(map(_IN_CODE.search, code))


def _is_html(text: str) -> bool:
    """Whether a text has an element, a tag with an attribute or one that stands alone, and does not speak of it."""
    begun: set[str] = set()
    is_html = False
    for tag in _TAG.finditer(text):
        name = tag["name"].lower()
        has_attribute = _ATTRIBUTE.search(tag["attributes"] or "") is not None
        if name in _ALONE:
            is_html = is_html or name in ("br", "hr") or has_attribute
        elif not tag["ends"]:
            begun.add(f"{name} " if has_attribute else name)
        elif name in begun or f"{name} " in begun:
            if name in _BLOCKS or f"{name} " in begun:
                return True
            is_html = True
    return is_html and not _speaks_of(text, _TAG)


def _speaks_of(text: str, marks: re.Pattern[str]) -> bool:
    """Whether a text speaks of the tags or entities in it."""
    if _ABOUT_MARKUP.search(_ANY_TAG.sub(" ", text)):
        return True
    begins = 0  # where the text of the last begun element begins
    for mark in marks.finditer(text):
        before = text[max(0, mark.start() - _BEFORE) : mark.start()]
        is_end = mark[0].startswith("</")
        is_alone = mark[0].startswith("&") or mark["name"].lower() in _ALONE
        writes = _WRITES_ALONE if is_alone else _WRITES_ELEMENT
        if not is_end and writes.search(before):
            return True
        if is_end and begins and not any(map(str.isalnum, _TAG.sub("", text[begins : mark.start()]))):
            return True
        if is_end and begins and text[begins].isspace() and text[mark.start() - 1].isspace():
            return True
        begins = 0 if is_end or is_alone else mark.end()
    return False


def _text_of(html: str) -> str:
    """The text of HTML; of Markdown and of texts without paragraphs with the white space as it is."""
    before, end, behind = html.rpartition("-->")
    markup = _DECLARATION.sub("", _COMMENT.sub("", before + end) + behind)
    names = {tag["name"].lower() for tag in _TAG.finditer(markup)}
    in_lines = not names & {*_BLOCKS, "br", "hr"}
    is_markdown = not markup.lstrip().startswith("<") and bool(_MARKDOWN.search(markup))
    markup = _LINE_END_BEHIND.sub(r"\1", markup)
    if is_markdown:
        markup = _TABLE_ROW.sub(_without_breaks, markup)
    parser = _Text(keeps_space=in_lines or is_markdown)
    parser.feed(_NO_TAG.sub("&lt;", markup))
    parser.close()
    return parser.result() or html


def _without_breaks(table_row: re.Match[str]) -> str:
    return _BREAK.sub(" ", table_row[0])


class _Text(HTMLParser):
    """Collects the text of HTML, with links and lists as those of Markdown."""

    def __init__(self, *, keeps_space: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._keeps_space = keeps_space
        self._parts: list[str] = []
        self._link: tuple[str, int] | None = None  # the address of the open link, and where its text begins
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href" if tag == "a" else "src") or ""
        if tag in _HIDDEN:
            self._skipped += 1
        elif tag in ("br", "hr"):
            self._parts.append("\n")
        elif tag == "li":
            self._parts.append("\n- ")
        elif tag in ("td", "th"):
            self._parts.append(" ")
        elif tag == "a":
            self._end_link()  # there is none in another one
            self._link = address, len(self._parts)
        elif tag in ("p", "blockquote", "pre", *_HEADINGS):
            self._parts.append("\n\n")
        elif tag in _BLOCKS:
            self._parts.append("\n")
        elif tag == "img":
            self._parts.append(dict(attrs).get("alt") or "")
        elif tag in _MEDIA and _is_web(address):
            self._parts.append(f" {address} ")

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
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
        if _is_web(address) and text and text != address:
            text = f"[{text}]({address})"
        self._parts[start:] = [text]

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._parts.append(data)

    def result(self) -> str:
        """The text without needless white space."""
        self._end_link()
        text = "".join(self._parts).replace("\xa0", " ")
        if self._keeps_space:
            return text.strip()
        text = "\n".join(" ".join(line.split()) for line in text.split("\n"))
        text = re.sub(r"(?<!\n)\n+(?=- )", "\n", text)  # no empty line above a list's first entry or between two
        return re.sub(r"\n{3,}", "\n\n", text).strip()


def _is_web(address: str) -> bool:
    return re.match(r"(?i)https?://|mailto:", address) is not None
