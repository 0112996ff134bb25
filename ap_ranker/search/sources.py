"""Where an answer comes from, of our documents and those that Haystack's components have made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
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
        return " · ".join(part for part in (self.title, file, self.url) if part)


def source_of(document: Document) -> Source | None:
    """The source of a document; `None` if nothing is known of it.

    Its meta tells: `title` or the headings of Haystack's splitter, `file_path`, `page_number`, `url`.
    """
    meta = document.meta
    above = document.meta.get("parent_headers")
    headings = [*(above if isinstance(above, list) else []), meta.get("header")]
    title = _text(meta.get("title")) or " > ".join(text for heading in headings if (text := _text(heading)))
    file = _text(meta.get("file_path"))
    page = str(meta.get("page_number"))  # of a table, it is text
    for kind in (PurePosixPath, PureWindowsPath) if file else ():
        if (path := kind(file or "")).is_absolute():
            file = path.name
    is_page = bool(file) and page.isascii() and page.isdigit() and len(page) < 10
    url = next((_text(value) for name, value in meta.items() if str(name).strip().casefold() == "url"), None)
    number = int(page) if is_page else 0
    details = (title or None, file or None, number or None, url if _is_web(url) else None)
    return Source(*details) if any(details) else None


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
