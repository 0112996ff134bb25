"""What can be repaired in a text without knowing what it means; a fault is what its repair would change."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable

# UTF-8 read as Windows-1252 or Latin-1: the first of 2, 3 or 4 bytes, then bytes 80 to BF, where that is common:
# letters with accents, Greek and Cyrillic; dashes, quotation marks and symbols; emoji.
_LATER = "[" + re.escape(bytes(range(0x80, 0xC0)).decode("cp1252", errors="ignore")) + "\x80-\xbf]"
_MOJIBAKE = re.compile(f"[ÂÃÄÅÎÏÐÑ]{_LATER}|â[€‚„†‡ˆ‰Š\x80\x82\x84\x86-\x8a]{_LATER}|ð[Ÿ\x9f]{_LATER}{{2}}")
_INLINE = "a abbr b code em font i s small span strong sub sup u"  # their words belong to the sentence
_BLOCKS = (
    "address article blockquote body br button div figure footer form h1 h2 h3 h4 h5 h6 head header hr html iframe img "
    "input label li link meta nav ol option p pre script section select style svg table tbody td th thead tr ul video"
)
_TAG = re.compile(
    rf"</?(?:(?P<inline>{'|'.join(_INLINE.split())})|{'|'.join(_BLOCKS.split())})(?:\s[^<>]*)?/?>|<!--.*?-->",
    re.IGNORECASE | re.DOTALL,
)
_ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-f]+|[a-z][a-z0-9]*);", re.IGNORECASE)
_LINE_CONTROL = re.compile("[\x0b\x0c\x1c-\x1f\x85]")  # other programs' line ends
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
# Joiners (U+200C, U+200D) are left alone: emoji and several scripts are written with them.
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")


def encode_anew(text: str) -> str:
    """Read as UTF-8 what was UTF-8 and had been read as another encoding: "Ã©" becomes "é"."""
    return text if text.isascii() else _MOJIBAKE.sub(_decoded, text)


def _decoded(found: re.Match[str]) -> str:
    content = b"".join(
        bytes([ord(character)]) if ord(character) < 0x100 else character.encode("cp1252") for character in found[0]
    )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return found[0]


def without_html(text: str) -> str:
    """Characters for entities; nothing or a space for each tag that HTML has; other words in angle brackets stay."""
    text = _ENTITY.sub(lambda found: html.unescape(found[0]), text) if "&" in text else text
    if "<" not in text or not _TAG.search(text):
        return text
    return re.sub(" {2,}", " ", _TAG.sub(lambda tag: "" if tag["inline"] else " ", text)).strip()


def without_control(text: str) -> str:
    """Without control characters other than tabs and line ends."""
    return _CONTROL.sub("", _LINE_CONTROL.sub(" ", text))


def without_invisible(text: str) -> str:
    """Without zero-width spaces, byte order marks and soft hyphens."""
    return _INVISIBLE.sub("", text)


def composed(text: str) -> str:
    """Letters with accents as one character each (Unicode's NFC)."""
    return unicodedata.normalize("NFC", text)


REPAIRS: dict[str, Callable[[str], str]] = {
    "mojibake": encode_anew,
    "html": without_html,
    "control-character": without_control,
    "invisible-character": without_invisible,
    "decomposed-accent": composed,
}
"""Repairs by the kind of fault, in the order in which they are made."""


def repaired(text: str) -> tuple[str, list[str]]:
    """The text after all repairs, and the kinds of fault that it had; each once.

    A repair is made again if another has uncovered its fault (an entity that was escaped twice).
    """
    kinds: dict[str, None] = {}
    before = None
    while before != text:
        before = text
        for kind, repair in REPAIRS.items():
            mended = repair(text).strip()
            if mended != text:
                kinds[kind] = None
            text = mended
    return text, list(kinds)
