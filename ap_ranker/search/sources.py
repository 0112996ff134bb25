"""Where an answer comes from, of our documents and those that Haystack's components have made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ap_ranker.data.column_names import CATEGORIES, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from haystack import Document


@dataclass(frozen=True)
class Source:
    """Where an answer comes from: its title path (`Handbook > Returns`), file, page or slide from 1, and web address.

    Of an absolute path only the name is left, as the folders of a machine concern nobody else.
    """

    title: str | None = None
    file: str | None = None
    page: int | None = None
    url: str | None = None

    def __str__(self) -> str:
        file = f"{self.file}, page {self.page}" if self.page else self.file
        return " · ".join(filter(None, (self.title, file, self.url)))


def source_of(document: Document) -> Source | None:
    """The source of a document; `None` if nothing is known of it.

    Its meta tells: `title` or the headings of Haystack's splitter, `file_path`, `page_number`, `url`.
    """
    meta = document.meta
    title = _text(meta.get("title")) or _title_path(meta)
    file = _file_name(meta)
    number = 0
    page = str(meta.get("page_number"))  # of a table, it is text
    if file and page.isascii() and page.isdigit() and len(page) < 10:
        number = int(page)
    url = _web_address(meta)
    source = Source(title or None, file or None, number or None, url)
    return None if source == Source() else source


def category_of(document: Document, column: str = "") -> str:
    """The category of an answer, in a column of the FAQ; empty if it has none.

    The column is by default one whose name says that it holds categories. Without such a column, the category is the
    first title of the document that the answer is from, or the name of its file.
    """
    if column:
        return _line(document.meta.get(column))
    for name, value in document.meta.items():
        if plain(str(name)) in CATEGORIES:
            category = _line(value)
            if category:
                return category
    source = source_of(document)
    if source is None:
        return ""
    return (source.title or source.file or "").split(" > ", 1)[0]


def _line(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, (str, int)) else ""


def _title_path(meta: Mapping[str, Any]) -> str:
    """The headings of Haystack's splitter, from the highest one; empty without any."""
    above = meta.get("parent_headers")
    headings = [meta.get("header")]
    if isinstance(above, list):
        headings = above + headings
    return " > ".join(filter(None, map(_text, headings)))


def _file_name(meta: Mapping[str, Any]) -> str | None:
    """The path of a file, of an absolute one only the name."""
    file = _text(meta.get("file_path"))
    for kind in (PurePosixPath, PureWindowsPath):
        if file:
            path = kind(file)
            if path.is_absolute():
                file = path.name
    return file


def _web_address(meta: Mapping[str, Any]) -> str | None:
    """The value of the first field that is called `url` in any case, if it is an address of the web."""
    for name, value in meta.items():
        if str(name).strip().casefold() == "url":
            url = _text(value)
            return url if _is_web(url) else None
    return None


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return " ".join(value.split()) or None
    return None


def _is_web(url: str | None) -> bool:
    if not url:
        return False
    try:
        parts = urlsplit(url)
    except ValueError:  # such as http://[
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
