"""The settings of the search page: a YAML file with a company's name, logo, colours and words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, StringConstraints

from ap_ranker.errors import InputError
from ap_ranker.safe_open import open_file, parse_yaml, read_yaml_text
from ap_ranker.settings import checked, read_fields, settings

MAX_LOGO = 100_000
"""Maximum size of a logo in bytes: each visitor loads it."""

SVG = "image/svg+xml"

_SIGNATURES = {
    rb"\x89PNG\r\n\x1a\n": "image/png",
    rb"\xff\xd8\xff": "image/jpeg",
    rb"RIFF....WEBP": "image/webp",
    rb"(\xef\xbb\xbf)?\s*<(.*<)?svg\b": SVG,  # programs in it do not run: page/files.py has the policy
}
"""How the content of a picture begins -> its media type."""


@dataclass(frozen=True)
class Logo:
    """A picture: its bytes, and its media type such as `image/png`."""

    content: bytes
    media_type: str


_URL = r"(?i:https?)://[\w.-]+(:\d+)?([/?#].*)?"
Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120, pattern=r"^[^\x00-\x1f\x7f]+$")
]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
_E_MAIL = r"[\w.+-]+@[\w-]+(\.[\w-]+)+"
Address = Annotated[Line, checked(re.compile(_URL).fullmatch, "an address that begins with https:// or http://")]
Site = Annotated[Line, checked(re.compile(r"https?://[a-z0-9.-]+(:\d+)?").fullmatch, "a site as https://shop.example")]
Contact = Annotated[
    Line, checked(re.compile(f"{_E_MAIL}|{_URL}").fullmatch, "an e-mail address, or one with https:// or http://")
]


def _in_lower_case(value: object) -> str:
    """A value as a text, also `None`: YAML reads a colour without quotation marks as a comment, after nothing."""
    return str(value).strip().lower()


Colour = Annotated[
    str,
    BeforeValidator(_in_lower_case),
    checked(re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})").fullmatch, "a colour in quotation marks, such as '#0b57d0'"),
]


@settings
class PageSettings:
    """What a company says on its search page; what is empty is not shown."""

    name: Line = ""  # in the title and above the search box; by default "Questions and answers", translated
    link: Address = ""  # where the name leads, such as the company's home page
    logo: Logo | None = None  # the picture beside the name
    accent: Colour = ""  # of buttons and links, such as `#0b57d0`; shown darker, where it could not be read
    accent_dark: Colour = ""  # the same on a dark background, shown lighter if need be; by default `accent`
    introduction: Text = ""  # above the search box, in simple Markdown
    nothing_found: Text = ""  # what to do if there is no answer, in simple Markdown
    contact: Contact = ""  # where a question without an answer is sent: an e-mail address, or one with {question}
    questions: list[Line] = field(default_factory=list)  # that the page opens with; by default those asked most
    sites: list[Site] = field(default_factory=list)  # whose pages may have the search in them, as `widget.js`
    categories: Line = ""  # the column that answers are filtered by; by default as `presentation.category_of`


def read_page_settings(path: Path) -> PageSettings:
    """Read (InputError) the settings of a YAML file; a logo's path is relative to it."""
    values: Any = parse_yaml(read_yaml_text(path), path) or {}
    if isinstance(values, dict) and "logo" in values:
        values["logo"] = _read_logo(path, path.parent / str(values["logo"]))
    return read_fields(PageSettings, values, path)


def _read_logo(settings_file: Path, path: Path) -> Logo:
    """A PNG, JPEG, WebP or SVG file; its content tells the format, not its name."""
    try:
        with open_file(path) as file:
            content = file.read(MAX_LOGO + 1)
    except (InputError, OSError) as error:
        raise InputError(f"{settings_file}: logo: {error}") from error
    media_type = _media_type(content)
    if len(content) > MAX_LOGO or media_type is None:
        problem = "a larger one; scale it down" if media_type else "another file"
        expected = f"expected a picture of at most {MAX_LOGO:,} bytes, as PNG, JPEG, WebP or SVG"
        raise InputError(f"{settings_file}: logo: {path}: {expected}, found {problem}.")
    return Logo(content, media_type)


def _media_type(content: bytes) -> str | None:
    for beginning, media_type in _SIGNATURES.items():
        if re.match(beginning, content, re.DOTALL):
            return media_type
    return None
