"""What the commands print: texts of a FAQ as they are, but with control characters shown instead of sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from rich import console as rich
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from ap_ranker.data.dataset import Dataset
from ap_ranker.files import write_text_atomically
from ap_ranker.processes import process_number

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 except tabs and line ends, DEL, C1, bidirectional formatting characters and lone surrogates."""


def visible(text: str) -> str:
    """Escape control characters, such as ESC as `\\x1b`."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def to_json(value: Any) -> str:
    """Format a value as JSON with escaped control characters."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_json(path: Path, value: Any, *, private: bool = False) -> None:
    """Write a value as a JSON file; only its user can read a `private` one."""
    write_text_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", private=private)


class Console(rich.Console):
    """Rich's console, which shows control characters, and neither wraps nor colours what it is not told to."""

    def __init__(self, *, soft_wrap: bool = True, **options: Any) -> None:
        super().__init__(soft_wrap=soft_wrap, highlight=False, emoji=False, **options)

    def render(
        self, renderable: rich.RenderableType, options: rich.ConsoleOptions | None = None
    ) -> Iterator[Segment] | Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def say(self, text: str) -> None:
        """Print a text in which brackets are no markup."""
        self.print(text, markup=False)

    def warn(self, text: str, title: str = "Warning") -> None:
        """Print a text as `say`, with a title."""
        self.print(f"[yellow]{title}:[/] {escape(text)}")

    def table(
        self, titles: Iterable[str | Column], rows: Iterable[Sequence[str | Text] | None], title: str | None = None
    ) -> None:
        """Print a table whose texts are no markup; a row that is `None` is a line between the others."""
        table = Table(*titles, title=None if title is None else escape(title))
        for row in rows:
            if row is None:
                table.add_section()
            else:
                table.add_row(*map(_escaped, row))
        self.print(table)


def _escaped(cell: str | Text) -> str | Text:
    return escape(cell) if isinstance(cell, str) else cell


console = Console(quiet=process_number() != 0)  # of several processes, the first one prints
errors = Console(stderr=True)


def describe(parts: Mapping[str, Dataset]) -> None:
    """Print what data sets hold, by their titles, and what was left out or merged."""
    for title, data in parts.items():
        n_questions = f"{len(data.answerable):,} questions"
        n_right = f"{data.pairs:,} right answers among {len(data.answers):,}"
        console.say(f"{title}: {n_questions}, {n_right} ({data.name})")
        for reason, count in data.notes.items():
            console.say(f"  {count:,} {reason}")
        n_without = len(data.questions) - len(data.answerable)
        if n_without:
            console.say(f"  {n_without:,} questions without a right answer left out")


def numbers(title: str, **options: Any) -> Column:
    """A table's column of numbers."""
    return Column(title, justify="right", **options)


def minute(time: datetime) -> str:
    """Format a time as date, hours and minutes."""
    return f"{time:%Y-%m-%d %H:%M}"


def cells(title: str, values: Iterable[float], form: str = ".3f") -> list[str]:
    """The cells of a table's row: a title, and numbers."""
    return [title, *(format(value, form) for value in values)]


class ProgressBars(AbstractContextManager["ProgressBars"]):
    """Shows a bar on standard error for each slow step while it lasts, if that is a terminal.

    The first step is what a command begins with, such as to load its libraries: it ends when `update` tells of another.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, quiet=console.quiet)
        self._bar: Progress | None = None
        self._step = ""  # that the bar shows

    def __enter__(self) -> Self:
        self._show("loading libraries", None)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, step: str, done: int, total: int) -> None:
        """Show the number of items of a step that are done; the bar disappears when all are, or another step begins."""
        if done >= total or step != self._step:
            self.close()
        if done >= total:
            return
        if self._bar is None:
            self._show(step, total)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def _show(self, step: str, total: int | None) -> None:
        if not self._console.is_terminal:
            return  # to which rich would print an empty line for each bar
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        # What goes to standard output is not redirected: it would be printed on standard error.
        self._bar = Progress(*columns, console=self._console, transient=True, redirect_stdout=False)
        self._bar.add_task(step, total=total)
        self._bar.start()
        self._step = step

    def close(self) -> None:
        """Show no bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
