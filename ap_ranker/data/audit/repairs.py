"""Repairs of texts that need no knowledge of their meaning; a text has a fault if the repair changes it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import partial

from ap_ranker.text.normal_form import normal_form

# UTF-8 read as Windows-1252 or Latin-1: the first of 2, 3 or 4 bytes, then bytes 80 to BF, where that is common:
# letters with accents, Greek and Cyrillic; dashes, quotation marks and symbols; emoji.
_LATER = "[" + re.escape(bytes(range(0x80, 0xC0)).decode("cp1252", errors="ignore")) + "\x80-\xbf]"
_MOJIBAKE = re.compile(f"[ÂÃÄÅÎÏÐÑ]{_LATER}|â[€‚„†‡ˆ‰Š\x80\x82\x84\x86-\x8a]{_LATER}|ð[Ÿ\x9f]{_LATER}{{2}}")
_INLINE = "a abbr b code em font i s small span strong sub sup u"  # their words belong to the sentence
_BLOCKS = (
    "address article blockquote body br button div figure footer form h1 h2 h3 h4 h5 h6 head header hr html iframe img "
    "input label li link meta nav ol option p pre script section select style svg table tbody td th thead tr ul video"
)
_ELEMENT = rf"</?(?:(?P<inline>{'|'.join(_INLINE.split())})|{'|'.join(_BLOCKS.split())})(?:\s[^<>]*)?/?>"
_TAG = re.compile(_ELEMENT, re.IGNORECASE)
_TAG_OR_COMMENT = re.compile(rf"{_ELEMENT}|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-f]+|[a-z][a-z0-9]*);", re.IGNORECASE)
_LINE_CONTROL = re.compile("[\x0b\x0c\x1c-\x1f\x85]")  # other programs' line ends
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
# Joiners (U+200C, U+200D) are left alone: emoji and several scripts are written with them.
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")


def _decoded(match: re.Match[str]) -> str:
    content = bytearray()
    for character in match[0]:
        if ord(character) < 0x100:
            content.append(ord(character))
        else:
            content += character.encode("cp1252")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return match[0]


def _strip_html(text: str) -> str:
    """Unescape entities, and replace HTML tags by nothing or a space; other words in angle brackets stay."""
    if "&" in text:
        text = _ENTITY.sub(_unescaped, text)
    if "<" not in text:
        return text
    end = text.rfind("-->") + 3 if "-->" in text else 0  # no comment ends behind it, where none need be looked for
    stripped = _TAG_OR_COMMENT.sub(_in_place_of, text[:end]) + _TAG.sub(_in_place_of, text[end:])
    if stripped == text:
        return text
    return re.sub(" {2,}", " ", stripped).strip()


def _unescaped(entity: re.Match[str]) -> str:
    return html.unescape(entity[0])


def _in_place_of(tag: re.Match[str]) -> str:
    return "" if tag["inline"] else " "


def _without_mojibake(text: str) -> str:
    """The text with "é" for "Ã©"."""
    return text if text.isascii() else _MOJIBAKE.sub(_decoded, text)


def _without_controls(text: str) -> str:
    return _CONTROL.sub("", _LINE_CONTROL.sub(" ", text))


REPAIRS: dict[str, Callable[[str], str]] = {
    "mojibake": _without_mojibake,
    "html": _strip_html,
    "control-character": _without_controls,
    "invisible-character": partial(_INVISIBLE.sub, ""),
    "decomposed-accent": partial(normal_form, "NFC"),
}
"""Kind of fault -> its repair, in the order in which they are made."""


MOST_ROUNDS = 10
"""Maximum number of times that all repairs are made: each may take away one `amp;` of thousands."""


def repaired(text: str) -> tuple[str, list[str]]:
    """Make all repairs; returns the text and the distinct kinds of fault that it had.

    A repair is repeated if another one has uncovered its fault (an entity that was escaped twice), `MOST_ROUNDS` times.
    """
    kinds: dict[str, None] = {}
    for _ in range(MOST_ROUNDS):
        before = text
        for kind, repair in REPAIRS.items():
            changed = repair(text).strip()
            if changed != text:
                kinds[kind] = None
            text = changed
        if text == before:
            break
    return text, list(kinds)
