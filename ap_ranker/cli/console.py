"""Where commands print: whatever the texts of a FAQ hold, a terminal shows it and does not obey it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich import console as rich
from rich.segment import Segment

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""All of C0 but tabs and line ends, DEL, C1, what changes the direction of the text around it, and lone surrogates."""


def visible(text: str) -> str:
    """The text with control characters written out, such as `\\x1b` for escape."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def to_json(value: Any) -> str:
    """JSON to print: the same value, without a character that a terminal would obey."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Console(rich.Console):
    """Rich's console, which lets control characters of what it prints through."""

    def render(
        self, renderable: rich.RenderableType, options: rich.ConsoleOptions | None = None
    ) -> Iterator[Segment] | Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
