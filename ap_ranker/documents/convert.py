"""Converts documents to text whose headings are those of Markdown and whose pages end with a form feed."""

from __future__ import annotations

import io
import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from ap_ranker.child_process import ChildProcess
from ap_ranker.documents.exports import convert_export
from ap_ranker.documents.html import Converted, read_page, slugs
from ap_ranker.documents.question_paragraphs import ANSWER_LABEL, QUESTION_LABEL
from ap_ranker.errors import InputError, extra_for, library_errors
from ap_ranker.safe_open import MAX_YAML, check_growth, check_zip, decode, open_file, parse_yaml, require_file, save_as
from ap_ranker.text.markdown_code import code_blocks
from ap_ranker.text.markdown_tables import lacks_cells

_KINDS = {
    ".docx": "a Word document (.docx) without a password",
    ".pdf": "a PDF file without a password",
    ".pptx": "a presentation (.pptx) without a password",
}
"""Ending -> what is expected, for messages."""


def convert(content: bytes, path: Path) -> Converted:
    """Convert the content of a document, whose format the ending of its path tells; raises InputError."""
    converter = FORMATS.get(path.suffix.lower())
    if converter is None:
        endings = ", ".join(FORMATS)
        raise InputError(f"{path}: expected a name ending in {endings}, found another ending.{save_as(path)}")
    expected = f"{path}: expected {_KINDS.get(path.suffix.lower(), 'a document')}, found another or a damaged file"
    with (
        library_errors(expected, advice=" Save it again in its program."),
        extra_for(f"{path}: documents need", "documents"),
    ):
        return converter(content, path)


QUICK = (".md", ".markdown", ".mdx", ".html", ".htm")
"""Formats that are read in time if they are not long: libraries that read others may be led astray by a few bytes."""

QUICK_BYTES = 20_000


def convert_file(path: Path, child: ChildProcess) -> Converted:
    """Convert a document, in the child process what may take long; errors as those of `convert` and of the child."""
    require_file(path)
    kind = path.suffix.lower()
    if kind == ".txt" or (kind in QUICK and path.stat().st_size <= QUICK_BYTES):
        return _read(path)
    from pydantic import TypeAdapter  # the child does without

    return TypeAdapter(Converted).validate_python(child.call(as_dictionary, path))


def _read(path: Path) -> Converted:
    with open_file(path) as file:
        return convert(file.read(), path)


def as_dictionary(path: Path) -> dict[str, Any]:
    """A document converted, as the child process sends it."""
    return asdict(_read(path))


def _html(content: bytes, path: Path) -> Converted:
    page = read_page(content)
    with suppress(InputError):
        if "\ufffd" in page.text and b"\xef\xbf\xbd" not in content:  # it declares an encoding that it does not have
            page = read_page(decode(content, path))
    return page


_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
"""Settings in YAML before the text, as site generators have them."""

_OWN_ID = re.compile(r"<(?P<begun>h[1-6])>|\{:?\s*#(?P<id>[\w-]++)[^{}\n]*+\}(?=</(?P<ended>h[1-6])>)")
"""Where a heading begins, and the id at its end as many programs write it: `## Returns {#returns}`."""


def _markdown(content: bytes, path: Path) -> Converted:
    """By way of HTML, so that links and emphasis become plain text, and all kinds of headings `#`."""
    from markdown_it import MarkdownIt

    text = decode(content, path)
    title = ""
    front = _FRONT_MATTER.match(text)
    if front and len(front[1]) <= MAX_YAML:
        text = text[front.end() :]
        with suppress(InputError):  # not settings, or for another program
            settings = parse_yaml(front[1], path)
            title = ""
            if isinstance(settings, dict):
                title = str(settings.get("title") or "")
    text = without_site_marks(text)
    reader = MarkdownIt("commonmark", {"maxNesting": 100})
    if not lacks_cells(text):
        reader.enable("table")
    page = read_page(_with_own_ids(reader.render(text)), slugs())
    return replace(page, title=title, url="")


def _with_own_ids(html: str) -> str:
    """HTML whose headings have the ids at their ends as an attribute."""
    parts: list[str] = []
    last = 0
    heading: re.Match[str] | None = None
    for match in _OWN_ID.finditer(html):
        if match["begun"]:
            heading = match
            continue
        if heading is not None and heading["begun"] == match["ended"]:
            text = html[heading.end() : match.start()].rstrip()
            if "\n" not in text:
                parts += [html[last : heading.start()], f'<{match["ended"]} id="{match["id"]}">', text]
                last = match.end()
        heading = None
    return "".join([*parts, html[last:]])


_OF_SITES = re.compile(
    r"^[ \t]*(?::{3,}[ \t]*(?:[\w-]+(?:\{[^}\n]*\})?)?|[!?]{3}\+?[ \t]+[\w-]+|\{[%{]<?.*?>?[%}]\})[ \t]*(?P<title>.*)$"
    r"|^(?:(?>import\b.*?\bfrom\s++['\"]).*['\"];?|import\s++['\"].*['\"];?|export\s++(?:const|default|let)\b.*)[ \t]*$"
    r"|\{/\*.*?(?:\*/\}|(?P<unclosed>$))",
    re.MULTILINE,
)
"""What site generators have in Markdown beside text: `:::tip Title`, `!!! note "Title"`, tags of templates, imports."""


def without_site_marks(text: str) -> str:
    """Markdown without the marks of site generators, but with the titles of what they mark; code stays as it is."""
    parts: list[str] = []
    end = 0
    for code_start, code_end in code_blocks(text):
        parts += [_OF_SITES.sub(_title_of_mark, text[end:code_start]), text[code_start:code_end]]
        end = code_end
    return "".join([*parts, _OF_SITES.sub(_title_of_mark, text[end:])])


def _title_of_mark(mark: re.Match[str]) -> str:
    if mark["unclosed"] is not None:
        return mark[0]
    return (mark["title"] or "").strip(' "[]')


_HEADING = re.compile(r"heading ([1-6])|title", re.IGNORECASE)
"""Names of Word's styles of headings, in every language."""


def _docx(content: bytes, path: Path) -> Converted:
    """Not with Haystack's converter, which does not know headings, and with which torch is loaded."""
    import docx
    from docx.oxml import parse_xml
    from docx.oxml.ns import qn
    from docx.table import Table

    references = qn("w:footnoteReference"), qn("w:endnoteReference")
    signs = {  # element -> what it stands for; empty if for its own text
        qn("w:t"): "",
        qn("w:tab"): "\t",
        qn("w:br"): "\n",
        qn("w:cr"): "\n",
        qn("w:noBreakHyphen"): "-",
        qn("w:p"): "\n",
        **dict.fromkeys((qn("m:t"), *references), ""),
    }

    def with_space(element: Any) -> str:
        """The text of an element, with white space around it."""
        return "".join(signs[piece.tag] or piece.text or "" for piece in element.iter(*signs))

    def text_of(element: Any) -> str:
        return with_space(element).strip()

    def html_of(element: Any) -> str:
        return escape(text_of(element)).replace("\n", "<br>")

    def with_bold(paragraph: Any) -> str:
        """A paragraph whose bold beginning is marked: it may be a question."""
        begins = ""
        for run in paragraph.iter(qn("w:r")):
            text = text_of(run)
            if text and not is_bold(run):
                break
            begins += with_space(run)
        whole = text_of(paragraph)
        begins = begins.strip()
        if not begins or not whole.startswith(begins):
            return html_of(paragraph)
        rest = whole[len(begins) :]
        return f"<b>{escape(begins)}</b>{escape(rest)}".replace("\n", "<br>")

    def is_bold(run: Any) -> bool:
        bold = run.find(f"{qn('w:rPr')}/{qn('w:b')}")
        return bold is not None and bold.get(qn("w:val")) not in ("0", "false", "off")

    check_zip(content, path, _KINDS[".docx"])
    document = docx.Document(io.BytesIO(content))
    parts: list[str] = []
    note_of: dict[tuple[str, str], str] = {}  # the tag of a reference, and an id -> the text of the note
    for relation in document.part.rels.values():
        if relation.reltype.endswith(("/footnotes", "/endnotes")):
            for note in parse_xml(relation.target_part.blob):
                note_of[f"{note.tag}Reference", note.get(qn("w:id"))] = text_of(note)
    for reference in document.element.body.iter(*references):
        note_text = note_of.get((reference.tag, reference.get(qn("w:id"))), "…")
        reference.text = f" ({note_text})"
    for repeated in document.element.body.xpath("//w:moveFrom | //*[local-name() = 'Fallback']"):
        repeated.getparent().remove(repeated)
    styles = _heading_styles(document.styles)
    for element in document.element.body.xpath("(.//w:p | .//w:tbl[w:tr])[not(ancestor::w:p or ancestor::w:tbl)]"):
        if element.tag == qn("w:tbl"):
            rows: list[str] = []
            for i, row in enumerate(Table(element, document).rows):
                tag = "<td>" if i else "<th>"
                rows.append("".join(f"{tag}{html_of(cell._tc)}" for cell in row.cells))
            parts.append(f"<table><tr>{'<tr>'.join(rows)}</table>")
            continue
        text = with_bold(element)
        style_name = element.find(f"{qn('w:pPr')}/{qn('w:pStyle')}")  # `block.style` takes milliseconds
        style = None if style_name is None else styles.get(style_name.get(qn("w:val")))
        kind = "p"
        if text and style:
            kind = f"h{min(int(style[1] or 0) + 1, 6)}"
        parts.append(f"<{kind}>{text}</{kind}>")
    return read_page("".join(parts))


def _heading_styles(styles: Any) -> dict[str, re.Match[str] | None]:
    """The ids of Word's styles, with what `_HEADING` says of their names, or of those of styles that they rest on."""
    bases = {style.style_id: style.element.basedOn_val for style in styles}
    headings = {style.style_id: _HEADING.fullmatch(style.name or "") for style in styles}
    for _ in range(3):  # each time from one more style below
        before = dict(headings)
        for style_id, own_heading in before.items():
            headings[style_id] = own_heading or before.get(bases[style_id])
    return headings


MAX_PAGES = 5_000
"""Maximum number of pages of a PDF file, which may name one page any number of times."""

PDF_SECONDS = 90
"""Maximum time for the pages of a PDF file: those that were read by then count."""


def _pdf(content: bytes, path: Path) -> Converted:
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of every oddity that it can cope with
    pages = PdfReader(io.BytesIO(content)).pages
    texts = []
    until = time.monotonic() + PDF_SECONDS
    for page in islice(pages, MAX_PAGES):
        if time.monotonic() > until:
            break
        texts.append(page.extract_text())
        check_growth(path, sum(map(len, texts)), len(content))
    # Without the signs that divide a word at the end of a line.
    text = re.sub(r"(?<=\w)[-\u00ad\u2010]\n(?=[^\W\d_A-Z])", "", "\f".join(texts))
    advice = ": is it a scan? Recognize its text first, such as with OCRmyPDF"
    faults: list[tuple[str, str]] = []
    if len(texts) < len(pages):
        left = f"its pages from {len(texts) + 1:,} to {len(pages):,}: more than can be read of one file. Divide it."
        faults.append(("", left))
    return Converted(text, by="pages", advice=advice, faults=faults)


def _pptx(content: bytes, path: Path) -> Converted:
    from pptx import Presentation

    check_zip(content, path, _KINDS[".pptx"])
    slides = Presentation(io.BytesIO(content)).slides
    texts: list[str] = []
    for slide in slides:
        text = ""
        for piece in slide.element.iter("{*}p", "{*}t", "{*}br"):  # in tables and groups, too
            if piece.tag.endswith("}t"):
                text += piece.text or ""
            else:
                text += "\n"
        texts.append(text)
    return Converted("\f".join(texts), by="pages")


def text_with_questions(text: str) -> Converted:
    """A plain text; where its lines are labelled as questions and answers, with these questions as headings."""
    lines = re.split(r"\r\n?|\n", text)
    if not any(map(QUESTION_LABEL.match, lines)) or not any(map(ANSWER_LABEL.match, lines)):
        return Converted(text)
    for number, line in enumerate(lines):
        if QUESTION_LABEL.match(line):
            lines[number] = f"###### {line.strip()}"
    return Converted("\n".join(lines), by="headings")


def _plain_text(content: bytes, path: Path) -> Converted:
    return text_with_questions(decode(content, path))


FORMATS: dict[str, Callable[[bytes, Path], Converted]] = {
    **dict.fromkeys((".md", ".markdown", ".mdx"), _markdown),
    **dict.fromkeys((".html", ".htm"), _html),
    ".pdf": _pdf,
    ".docx": _docx,
    ".pptx": _pptx,
    ".txt": _plain_text,
    ".json": convert_export,
}
"""Ending of a document's name -> its converter."""
