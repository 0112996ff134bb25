"""The files of the search page, as the browser loads them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from types import MappingProxyType
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ap_ranker.web.page.markdown import to_html
from ap_ranker.web.page.settings import SVG, PageSettings

TITLE = "Questions and answers"

MEDIA_TYPES = {"html": "text/html", "js": "text/javascript", "json": "application/json", "css": "text/css", "svg": SVG}

LOGO_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Drawings have styles; nothing else of an SVG file has an effect, also for those who open it alone."""


class PageFile(NamedTuple):
    """What one address of the page answers."""

    content: bytes
    media_type: str
    headers: Mapping[str, str] = MappingProxyType({})

    async def send(self, request: Request) -> Response:
        """Answer with the file, or status 304 to a browser that has it already."""
        tag = f'"{hashlib.blake2b(self.content, digest_size=12).hexdigest()}"'
        headers = {**self.headers, "ETag": tag}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def page_files(settings: PageSettings) -> dict[str, PageFile]:
    """The files of a page with these settings, by their path on the server."""
    package = files("ap_ranker.web.page")
    folder = package / "static"
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.is_file()}
    modules = (f'<link rel="modulepreload" href="page/{name}">' for name in sorted(texts) if name.endswith(".js"))
    index = Template(texts.pop("index.html")).substitute(
        title=escape(settings.name or TITLE),
        icon="page/icon.svg" if settings.logo is None else "page/logo",
        modules="\n".join(modules),
        heading=_heading(settings),
        introduction=to_html(settings.introduction),
        advice=to_html(settings.nothing_found),
        contact=escape(settings.contact),
    )
    accents = {"brand": settings.accent, "brand-dark": settings.accent_dark or settings.accent}
    colours = " ".join(f"--{name}: {colour};" for name, colour in accents.items() if colour)
    texts["colours.css"] += f":root {{ {colours} }}\n"
    texts |= {f"texts/{entry.name}": entry.read_text(encoding="utf-8") for entry in (folder / "texts").iterdir()}
    widget = (package / "widget.js").read_bytes()
    served = {"/": PageFile(index.encode(), "text/html"), "/widget.js": PageFile(widget, "text/javascript")}
    for name, text in texts.items():
        served[f"/page/{name}"] = PageFile(text.encode(), MEDIA_TYPES[name.rpartition(".")[2]])
    if settings.logo is not None:
        headers = {"Content-Security-Policy": LOGO_POLICY}
        served["/page/logo"] = PageFile(settings.logo.content, settings.logo.media_type, headers)
    return served


def _heading(settings: PageSettings) -> str:
    """Logo and name, which lead where the settings say; without a name, the page's own in the reader's language."""
    logo = "" if settings.logo is None else '<img src="page/logo" alt="">'
    name = escape(settings.name) or '<span data-text="title"></span>'
    link = f'<a href="{escape(settings.link)}" rel="noopener noreferrer">{logo}{name}</a>'
    return link if settings.link else logo + name
