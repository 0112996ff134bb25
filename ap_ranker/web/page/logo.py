"""Reads a company's logo: a small picture in a format that browsers show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from ap_ranker.errors import InputError, one_line
from ap_ranker.safe_open import require_file

MAX_BYTES = 100_000
"""Maximum size of a logo: each visitor loads it."""

SVG = "image/svg+xml"

_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*<"), SVG),
)
_ACTIVE = re.compile(r"script|foreignobject|iframe|embed|object|handler|set|animate.*", re.IGNORECASE)


@dataclass(frozen=True)
class Logo:
    """A picture.

    Attributes:
        content: the file's bytes.
        media_type: such as `image/png`.
    """

    content: bytes
    media_type: str


def read_logo(path: Path) -> Logo:
    """Read a PNG, JPEG, WebP or SVG file; its content tells the format, not its name.

    Raises:
        InputError: it cannot be read, is too large or of another format, or is an SVG file with a program in it.
    """
    require_file(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: expected a readable picture ({error.strerror}).") from error
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: expected a logo of at most {MAX_BYTES:,} bytes, found a larger one. Scale it down.")
    media_type = next((kind for signature, kind in _SIGNATURES if signature.match(content)), None)
    if media_type is None:
        raise InputError(f"{path}: expected a picture of the format PNG, JPEG, WebP or SVG, found another.")
    if media_type == SVG:
        _check_svg(content, path)
    return Logo(content, media_type)


def _check_svg(content: bytes, path: Path) -> None:
    """Refuse what is no drawing, or more than one; the browser would not run its programs, either."""
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:  # entities may stand for gigabytes
        raise InputError(
            f"{path}: expected an SVG file without a DOCTYPE, found one. Save it as plain or optimized SVG."
        )
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise InputError(f"{path}: expected an SVG file, found invalid XML ({one_line(error)}).") from error
    if _local(root.tag) != "svg":
        raise InputError(f"{path}: expected an SVG file, found XML of another kind ({one_line(_local(root.tag), 40)}).")
    for element in root.iter():
        name = _local(element.tag)
        programs = [key for key in element.attrib if _local(key).lower().startswith("on")]
        outside = [
            value
            for key, value in element.attrib.items()
            if _local(key) == "href" and not value.startswith(("#", "data:image/"))
        ]
        if _ACTIVE.fullmatch(name) or programs or outside:
            found = next(iter([*programs, *outside]), name)
            raise InputError(
                f"{path}: expected an SVG file without programs and links, found {one_line(repr(found), 40)}. "
                "Export the logo again as plain SVG, or as PNG."
            )


def _local(name: object) -> str:
    """A name without its namespace; comments have none."""
    return name.rpartition("}")[2] if isinstance(name, str) else ""
