"""A console that shows control characters in the texts of a FAQ instead of sending them to the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich import console as rich
from rich.segment import Segment

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 except tabs and line ends, DEL, C1, bidirectional formatting characters and lone surrogates."""


def visible(text: str) -> str:
    """Escape control characters, such as ESC as `\\x1b`."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def to_json(value: Any) -> str:
    """Format a value as JSON with escaped control characters."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Console(rich.Console):
    """Rich's console, with control characters escaped."""

    def render(
        self, renderable: rich.RenderableType, options: rich.ConsoleOptions | None = None
    ) -> Iterator[Segment] | Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
