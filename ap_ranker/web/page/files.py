"""The files of the search page, as the browser loads them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ap_ranker.files import html_text
from ap_ranker.web.page.markdown import to_html
from ap_ranker.web.page.settings import SVG, PageSettings

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
    texts = _read_files(folder)
    modules = [name for name in sorted(texts) if name.endswith(".js")]
    values = {"page": settings, "modules": modules, "to_html": to_html}
    index = html_text(texts.pop("index.html"), values)
    texts["colours.css"] += _accents(settings)
    for name, text in _read_files(folder / "texts").items():
        texts[f"texts/{name}"] = text
    widget = (package / "widget.js").read_bytes()
    served = {"/": PageFile(index.encode(), "text/html"), "/widget.js": PageFile(widget, "text/javascript")}
    for name, text in texts.items():
        ending = name.rpartition(".")[2]
        served[f"/page/{name}"] = PageFile(text.encode(), MEDIA_TYPES[ending])
    if settings.logo is not None:
        headers = {"Content-Security-Policy": LOGO_POLICY}
        served["/page/logo"] = PageFile(settings.logo.content, settings.logo.media_type, headers=headers)
    return served


def _read_files(folder: Traversable) -> dict[str, str]:
    """Name -> content of each file in a folder, without those in its subfolders."""
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.is_file()}


def _accents(settings: PageSettings) -> str:
    """The rule of a style sheet with the colours of the settings; without any if they have none."""
    colours = {"brand": settings.accent, "brand-dark": settings.accent_dark or settings.accent}
    declarations = " ".join(f"--{name}: {colour};" for name, colour in colours.items() if colour)
    return f":root {{ {declarations} }}\n"
