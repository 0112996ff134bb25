"""Repairs of texts that need no knowledge of their meaning; a text has a fault if the repair changes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from ap_ranker.data.html_cells import as_cell, shown_text
from ap_ranker.text.normal_form import normal_form

# UTF-8 read as Windows-1252 or Latin-1: the first of 2, 3 or 4 bytes, then bytes 80 to BF, where that is common:
# letters with accents, Greek and Cyrillic; dashes, quotation marks and symbols; emoji.
_LATER = "[" + re.escape(bytes(range(0x80, 0xC0)).decode("cp1252", errors="ignore")) + "\x80-\xbf]"
_MOJIBAKE = re.compile(f"[ÂÃÄÅÎÏÐÑ]{_LATER}|â[€‚„†‡ˆ‰Š\x80\x82\x84\x86-\x8a]{_LATER}|ð[Ÿ\x9f]{_LATER}{{2}}")
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


def _without_mojibake(text: str) -> str:
    """The text with "é" for "Ã©"."""
    return text if text.isascii() else _MOJIBAKE.sub(_decoded, text)


def _without_controls(text: str) -> str:
    return _CONTROL.sub("", _LINE_CONTROL.sub(" ", text))


REPAIRS: dict[str, Callable[[str], str]] = {
    "mojibake": _without_mojibake,
    "control-character": _without_controls,
    "invisible-character": partial(_INVISIBLE.sub, ""),
    "decomposed-accent": partial(normal_form, "NFC"),
}
"""Kind of fault -> its repair, in the order in which they are made."""


MOST_ROUNDS = 10
"""Maximum number of times that all repairs are made: each may decode one of many wrong encodings."""


def repaired(cell: str) -> tuple[str, list[str]]:
    """Repair a cell; returns the cell and the distinct kinds of fault that it had.

    All repairs are made in the text that the cell is read as (`shown_text`), and the repaired cell is read as just the
    repaired text. HTML is a fault where the text that is read from it can stand in the cell itself.
    """
    text_of_cell = shown_text(cell).strip()
    text, kinds = _repaired_text(text_of_cell)
    is_plain = as_cell(text) == text
    if is_plain and text_of_cell != cell:
        kinds.append("html")
    if not kinds:
        return cell, []
    return as_cell(text), kinds


def repaired_line(line: str) -> tuple[str, list[str]]:
    """Repair a line of a cell, as `repaired` does, unless it would become several, which were other wordings."""
    mended, kinds = repaired(line)
    return (mended, kinds) if len(mended.splitlines()) <= 1 else (line, [])


def _repaired_text(text: str) -> tuple[str, list[str]]:
    """A repair is repeated if another one has uncovered its fault, `MOST_ROUNDS` times."""
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


def shows_html(cell: str) -> bool:
    """Whether the text that a cell is read as would be read as HTML, too: then tags or entities are shown.

    The product writes texts about HTML so, but with escapes of its own.
    """
    text = shown_text(cell)
    return shown_text(text) != text and as_cell(text) != cell
