"""The accent colour of the page, readable on its light and on its dark background."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ap_ranker.errors import InputError, one_line

MIN_CONTRAST = 4.5
"""Minimum contrast of text, by the Web Content Accessibility Guidelines, level AA."""

LIGHT, DARK = ("#f5f6f8", "#ffffff"), ("#121417", "#1c1f24")
"""The backgrounds of `colours.css`: of the page, and of the cards on it."""

_STEPS = 100

Rgb = tuple[float, float, float]


def contrast(one: str, other: str) -> float:
    """The contrast of two colours such as `#0b57d0`, from 1 to 21, as the guidelines define it."""
    darker, lighter = sorted((_luminance(_rgb(one)), _luminance(_rgb(other))))
    return (lighter + 0.05) / (darker + 0.05)


def check_accent(name: str, value: object, backgrounds: Iterable[str], towards: str) -> str:
    """Check a colour of the page's settings.

    Args:
        name: of the setting.
        value: its value.
        backgrounds: the colours that it must be readable on.
        towards: black or white, which makes it more readable there.

    Returns:
        The colour with six digits.

    Raises:
        InputError: it is no colour, or not readable.
    """
    if value is None:
        raise InputError(
            f"{name}: expected a colour such as '#0b57d0', found nothing. YAML takes # for the beginning of a comment: "
            "put the colour in quotation marks."
        )
    text = str(value).strip().lower()
    if not re.fullmatch(r"#([0-9a-f]{3}|[0-9a-f]{6})", text):
        raise InputError(f"{name}: expected a colour such as '#0b57d0', found {one_line(repr(value), 40)}.")
    colour = _hex(_rgb(text))
    backgrounds = tuple(backgrounds)
    least = min(backgrounds, key=lambda background: contrast(colour, background))
    if (ratio := contrast(colour, least)) < MIN_CONTRAST:
        raise InputError(
            f"{name}: expected a colour with a contrast of at least {MIN_CONTRAST} to 1 on {least}, found {colour} "
            f"with {ratio:.1f} to 1. The nearest that is readable: '{readable(colour, backgrounds, towards)}'."
        )
    return colour


def readable(colour: str, backgrounds: Iterable[str], towards: str) -> str:
    """A colour, mixed with as little black or white as makes it readable on all of these backgrounds."""
    backgrounds, start, end = tuple(backgrounds), _rgb(colour), _rgb(towards)
    for step in range(_STEPS + 1):
        share = step / _STEPS
        red, green, blue = (a + (b - a) * share for a, b in zip(start, end, strict=True))
        mixed = _hex((red, green, blue))
        if all(contrast(mixed, background) >= MIN_CONTRAST for background in backgrounds):
            break
    return mixed


def accent_sheet(light: str, dark: str) -> str:
    """A style sheet that sets the accent colours."""
    return f":root {{ --accent: {light}; }}\n@media (prefers-color-scheme: dark) {{ :root {{ --accent: {dark}; }} }}\n"


def _rgb(colour: str) -> Rgb:
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    red, green, blue = (int(digits[at : at + 2], 16) for at in (0, 2, 4))
    return red, green, blue


def _hex(colour: Rgb) -> str:
    return "#" + "".join(f"{round(part):02x}" for part in colour)


def _luminance(colour: Rgb) -> float:
    red, green, blue = (
        part / 255 / 12.92 if part / 255 <= 0.04045 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
