"""Draws what `make demo` printed at its end as a terminal: docs/images/demo.svg, from docs/images/demo.txt.

    python docs/terminal.py

The text is kept as it was printed, with "…" where it was shortened. The picture names no font of another host.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import typer
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

IMAGES = Path(__file__).resolve().parent / "images"
PRINTED = IMAGES / "demo.txt"
PICTURE = IMAGES / "demo.svg"

COLUMNS = 60
"""Width of the terminal: what is still readable on a phone."""

THEME = TerminalTheme(
    (22, 27, 34),
    (230, 237, 243),
    [(22, 27, 34)] * 6 + [(118, 210, 220), (230, 237, 243)],
)
"""Background, foreground and the eight colours, of which only cyan is used."""

TITLE = re.compile(r"(  \d+\. \d\.\d{3}  )(.+)")
"""The line of an answer: its place, its score, and its stored question, which `ask` prints in cyan."""

SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>What make demo prints: five questions and their first answers</title>
<style>
.{unique_id}-matrix {{
    font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
    font-size: {char_height}px;
    line-height: {line_height}px;
}}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""rich's own format without its fonts, which come from another host."""


def styled(line: str, before: str) -> Text:
    """A line in the colours of `ask`, which stands below the line `before`: a command and questions are bold."""
    title = TITLE.fullmatch(line)
    if title:
        return Text.assemble(title[1], (title[2], "cyan"))
    is_bold = line.startswith("$") or before == "" or before.endswith("\\")
    return Text(line, "bold" if is_bold else "")


def drawn(printed: str) -> str:
    """The SVG of a printed text."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    before = ""
    for line in printed.splitlines():
        assert len(line) <= COLUMNS, f"{line!r} is longer than the terminal"
        console.print(styled(line, before))
        before = line
    picture = console.export_svg(title="make demo", theme=THEME, code_format=SVG, unique_id="demo")
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


def main() -> None:
    """Draw the terminal."""
    PICTURE.write_text(drawn(PRINTED.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
