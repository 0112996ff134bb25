"""Converts documents to text whose headings are those of Markdown, mostly with Haystack's converters."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ap_ranker.documents.html import Page, Slugs, read_page
from ap_ranker.documents.markup_questions import StatedEntry
from ap_ranker.errors import InputError, one_line
from ap_ranker.safe_open import check_zip, decode, parse_yaml, save_as

EXTRA = 'documents need an extra: pip install "ap-ranker[documents]"'


@dataclass(frozen=True)
class Converted:
    """The text of a document.

    Attributes:
        text: the text; `#` begins a heading, a form feed a page.
        title: the title of the whole document; empty if it has none.
        url: its address on the web; empty if it is not known.
        by: what the text is divided by: `headings`, `pages`, or nothing.
        advice: what to do if there is no text.
        anchors: each heading of the text, in order, with the anchor that leads to it; empty if none is known.
        stated: questions that are marked up with their answers, which are no part of the text.
        faults: why parts of it could not be read.
    """

    text: str
    title: str = ""
    url: str = ""
    by: str = ""
    advice: str = ""
    anchors: Sequence[tuple[str, str]] = ()
    stated: Sequence[StatedEntry] = ()
    faults: Sequence[str] = ()


def convert(content: bytes, path: Path) -> Converted:
    """Convert a document.

    Args:
        content: the file's content.
        path: the file; the ending of its name decides the format.

    Raises:
        InputError: an unknown ending, a damaged file, one with a password, not UTF-8, or a missing extra.
    """
    converter = FORMATS.get(path.suffix.lower())
    if converter is None:
        raise InputError(f"{path}: expected a document ending in {', '.join(FORMATS)}.{save_as(path)}")
    try:
        return converter(content, path)
    except InputError:
        raise
    except ImportError as error:
        raise InputError(f"{path}: {EXTRA}") from error
    except RecursionError as error:
        raise InputError(f"{path}: expected a document, found elements nested too deeply.") from error
    except Exception as error:  # libraries raise any type for a damaged file
        raise InputError(f"{path}: expected a document, found a damaged one ({one_line(error)}).") from error


def _plain(content: bytes, path: Path) -> Converted:
    return Converted(decode(content, path))


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
    page = read_page(MarkdownIt("commonmark").enable("table").render(text), Slugs())
    return _from_page(replace(page, title=title, url=""))


_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)
"""Names of Word's styles of headings, in every language."""


def _docx(content: bytes, path: Path) -> Converted:
    """With Haystack's converter, which does not know headings: they are marked before."""
    import docx
    from haystack.components.converters import DOCXToDocument

    expected = "a Word document (.docx) without a password"
    check_zip(content, path, expected)
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
    converter = DOCXToDocument(table_format="markdown")
    return Converted(_by_haystack(converter, marked.getvalue(), path, expected), title, by="headings")


def _pdf(content: bytes, path: Path) -> Converted:
    from haystack.components.converters import PyPDFToDocument

    text = _by_haystack(PyPDFToDocument(), content, path, "a PDF file without a password")
    text = re.sub(r"(?<=\w)-\n(?=[^\W\d_A-Z])", "", text)  # a word divided at the end of a line
    advice = ": is it a scan? Recognize its text first, such as with OCRmyPDF"
    return Converted(text, by="pages", advice=advice)


def _pptx(content: bytes, path: Path) -> Converted:
    from haystack.components.converters import PPTXToDocument

    expected = "a presentation (.pptx) without a password"
    check_zip(content, path, expected)
    return Converted(_by_haystack(PPTXToDocument(), content, path, expected), by="pages")


def _by_haystack(converter: Any, content: bytes, path: Path, expected: str) -> str:
    """The text that a converter of Haystack finds; it logs errors and returns nothing."""
    from haystack.dataclasses import ByteStream

    with _reasons() as reasons:
        documents = converter.run(sources=[ByteStream(content)])["documents"]
    if not documents:
        reason = f" ({one_line(reasons[-1])})" if reasons else ""
        raise InputError(
            f"{path}: expected {expected}, found another or a damaged file{reason}. Save it again in its program."
        )
    return documents[0].content or ""


@contextmanager
def _reasons() -> Iterator[list[str]]:
    """Collect the errors that converters log instead of printing them."""
    reasons: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            reasons.append(record.getMessage().rpartition("rror: ")[2])

    loggers = [logging.getLogger(name) for name in ("haystack.components.converters", "pypdf")]
    handler = Collect(logging.WARNING)
    states = [(each, each.propagate) for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.propagate = False
    try:
        yield reasons
    finally:
        for each, propagate in states:
            each.removeHandler(handler)
            each.propagate = propagate


def _html(content: bytes, path: Path) -> Converted:
    return _from_page(read_page(content))


def _from_page(page: Page) -> Converted:
    return Converted(page.text, page.title, page.url, "headings", "", page.anchors, page.stated, page.faults)


FORMATS: dict[str, Callable[[bytes, Path], Converted]] = {
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
    ".docx": _docx,
    ".pptx": _pptx,
    ".txt": _plain,
}
"""Ending of a document's name -> its converter."""
