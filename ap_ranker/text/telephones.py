"""Telephone numbers as words: one number, as it is dialled from abroad and at home, is one word."""

from __future__ import annotations

from collections.abc import Iterator

import regex

_TELEPHONE = regex.compile(
    r"(?<![\w+]|\d[ \-./])"
    r"(?P<begin>\+[ ]?(?=[1-9])|(?=0)|(?=\(\d)|(?=[178][ \-.]?\()|(?=(?:1[ \-.])?\d{3}[ \-.]\d{3}[ \-.]\d{4}(?!\d))"
    r"|(?=[178]\d{10}(?!\d)))"
    r"(?P<number>\(?\d(?:[ \-./()]{0,3}\d){6,15})(?![\w])"
)
"""Telephone numbers: international ones, and national ones that begin with 0 or "(", or are written as in America."""

_COUNTRY = regex.compile(r"(?:1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|\d{3})0?", regex.ASCII)
"""The code of a country, none of which begins another one, and a 0 that is dialled within it only."""

_NATIONAL_PREFIX = regex.compile(r"[178](?=\d{10}$)")
"""What is dialled first in America and Russia; 7 and 1 are also their codes, without a +."""


_EXTENSION = regex.compile(r"-(\d{1,3})$")
"""What is dialled within a company, as in "1234567-0"; the number is known without it, too."""


def telephone_words(plain_text: str) -> Iterator[tuple[tuple[str], ...]]:
    """A word for each telephone number of a text: its digits, also without an extension."""
    for telephone in _TELEPHONE.finditer(plain_text):
        number = _subscriber(telephone)
        extension = _EXTENSION.search(telephone["number"])
        without = [(number[: -len(extension[1])],)] if extension else []
        yield (number,), *without


def _subscriber(telephone: regex.Match[str]) -> str:
    """The digits of a telephone number without the country's code and the prefix of national numbers."""
    digits = "".join(filter(str.isdigit, telephone["number"]))
    if telephone["begin"] or digits.startswith("00"):
        international = digits if telephone["begin"] else digits.removeprefix("00")
        return _COUNTRY.sub("", international, count=1) or digits
    if digits.startswith("0"):
        return digits[1:]
    return _NATIONAL_PREFIX.sub("", digits)
