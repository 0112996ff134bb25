"""Converts documents to text whose headings are those of Markdown and whose pages end with a form feed."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ap_ranker.documents.html import Converted, read_page, slugs
from ap_ranker.errors import InputError, extra_for, library_errors
from ap_ranker.safe_open import check_zip, decode, parse_yaml, require_ending

_KINDS = {
    ".docx": "a Word document (.docx) without a password",
    ".pdf": "a PDF file without a password",
    ".pptx": "a presentation (.pptx) without a password",
}
"""Ending -> what is expected, for messages."""


def convert(content: bytes, path: Path) -> Converted:
    """Convert the content of a document, whose format the ending of its path tells; raises InputError."""
    require_ending(path, *FORMATS)
    converter = FORMATS[path.suffix.lower()]
    expected = f"{path}: expected {_KINDS.get(path.suffix.lower(), 'a document')}, found another or a damaged file"
    with (
        library_errors(expected, advice=" Save it again in its program."),
        extra_for(f"{path}: documents need", "documents"),
    ):
        return converter(content, path)


_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
"""Settings in YAML before the text, as site generators have them."""


def _markdown(content: bytes, path: Path) -> Converted:
    """By way of HTML, so that links and emphasis become plain text, and all kinds of headings `#`."""
    from markdown_it import MarkdownIt

    text = decode(content, path)
    title = ""
    if front := _FRONT_MATTER.match(text):
        text = text[front.end() :]
        try:
            settings = parse_yaml(front[1], path)
        except InputError:  # not settings, or for another program
            settings = None
        title = str(settings.get("title") or "") if isinstance(settings, dict) else ""
    page = read_page(MarkdownIt("commonmark").enable("table").render(text), slugs())
    return replace(page, title=title, url="")


_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)
"""Names of Word's styles of headings, in every language."""


def _docx(content: bytes, path: Path) -> Converted:
    """With Haystack's converter, which does not know headings: they are marked before."""
    import docx
    from haystack.components.converters import DOCXToDocument
    from haystack.dataclasses import ByteStream

    check_zip(content, path, _KINDS[".docx"])
    document = docx.Document(io.BytesIO(content))
    title = ""
    for paragraph in document.paragraphs:
        text, style = " ".join(paragraph.text.split()), str(paragraph.style.name if paragraph.style else "")
        if text and style == "Title" and not title:
            title = text
            paragraph.text = ""
        elif text and (heading := _HEADING.fullmatch(style)):
            paragraph.text = f"{'#' * int(heading[1])} {text}"
    marked = io.BytesIO()
    document.save(marked)
    [found] = DOCXToDocument(table_format="markdown").run(sources=[ByteStream(marked.getvalue())])["documents"]
    return Converted(found.content or "", title, by="headings")


def _pdf(content: bytes, path: Path) -> Converted:
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of every oddity that it can cope with
    text = "\f".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)
    text = re.sub(r"(?<=\w)-\n(?=[^\W\d_A-Z])", "", text)  # a word divided at the end of a line
    advice = ": is it a scan? Recognize its text first, such as with OCRmyPDF"
    return Converted(text, by="pages", advice=advice)


def _pptx(content: bytes, path: Path) -> Converted:
    from pptx import Presentation

    check_zip(content, path, _KINDS[".pptx"])
    slides = Presentation(io.BytesIO(content)).slides
    texts = ("\n".join(shape.text for shape in slide.shapes if hasattr(shape, "text")) for slide in slides)
    return Converted("\f".join(texts), by="pages")


FORMATS: dict[str, Callable[[bytes, Path], Converted]] = {
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": lambda content, path: read_page(content),
    ".htm": lambda content, path: read_page(content),
    ".pdf": _pdf,
    ".docx": _docx,
    ".pptx": _pptx,
    ".txt": lambda content, path: Converted(decode(content, path)),
}
"""Ending of a document's name -> its converter."""
