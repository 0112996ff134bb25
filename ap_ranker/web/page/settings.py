"""The settings of the search page: a YAML file with a company's name, logo, colours and words."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ap_ranker.errors import InputError, did_you_mean, one_line
from ap_ranker.safe_open import parse_yaml, read_yaml_text
from ap_ranker.web.page.colours import DARK, LIGHT, check_accent, readable
from ap_ranker.web.page.logo import Logo, read_logo

MAX_LINE, MAX_TEXT = 120, 2000
"""Maximum number of characters of a name or an address, and of a text."""

ACCENT = "#0b57d0"


@dataclass(frozen=True)
class PageSettings:
    """What a company says on its search page; what is empty is not shown.

    Attributes:
        name: in the title and above the search box; by default "Questions and answers" in the reader's language.
        link: where the name leads, such as the company's home page: http:// or https://.
        logo: the picture beside the name.
        accent: the colour of buttons and links on a light background, such as `#0b57d0`.
        accent_dark: the same on a dark background; by default a lighter shade of `accent`.
        introduction: a text above the search box, in simple Markdown.
        nothing_found: what to do if there is no good answer, such as an address to write to, in simple Markdown.
        categories: the column of the FAQ that answers can be filtered by; by default `category` or `class`, or the
            first title of a document.
    """

    name: str = ""
    link: str = ""
    logo: Logo | None = None
    accent: str = ACCENT
    accent_dark: str = readable(ACCENT, DARK, "#ffffff")
    introduction: str = ""
    nothing_found: str = ""
    categories: str = ""


KNOWN = [field.name for field in fields(PageSettings)]


def read_page_settings(path: Path) -> PageSettings:
    """Read the settings of a YAML file; a logo's path is relative to it.

    Raises:
        InputError: the file or the logo cannot be read, or a setting is unknown or invalid.
    """
    values = parse_yaml(read_yaml_text(path), path)
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected 'name: value' lines, found {type(values).__name__}.")
    try:
        return _settings(values, path.parent)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _settings(values: dict[Any, Any], folder: Path) -> PageSettings:
    for name in values:
        if name not in KNOWN:
            found = one_line(repr(name), 40)
            raise InputError(f"Expected the settings {', '.join(KNOWN)}, found {found}.{did_you_mean(name, KNOWN)}")
    checked: dict[str, Any] = {
        name: _text(name, values[name], MAX_TEXT if name in ("introduction", "nothing_found") else MAX_LINE)
        for name in ("name", "link", "introduction", "nothing_found", "categories")
        if name in values
    }
    if link := checked.get("link"):
        _check_link(link)
    if "accent" in values:
        checked["accent"] = check_accent("accent", values["accent"], LIGHT, "#000000")
        checked["accent_dark"] = readable(checked["accent"], DARK, "#ffffff")
    if "accent_dark" in values:
        checked["accent_dark"] = check_accent("accent_dark", values["accent_dark"], DARK, "#ffffff")
    if "logo" in values:
        checked["logo"] = read_logo(folder / _text("logo", values["logo"], MAX_TEXT))
    return PageSettings(**checked)


def _text(name: str, value: object, longest: int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{name}: expected a text, found {one_line(repr(value), 40)}.")
    text = value.strip()
    if len(text) > longest:
        raise InputError(f"{name}: expected at most {longest:,} characters, found {len(text):,}.")
    if longest == MAX_LINE and not text.isprintable():
        raise InputError(f"{name}: expected one line, found {one_line(repr(text), 40)}.")
    return text


def _check_link(link: str) -> None:
    try:
        parts = urlsplit(link)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # such as http://[
        good = False
    if not good:
        raise InputError(f"link: expected an address that begins with https:// or http://, found {link!r}.")
