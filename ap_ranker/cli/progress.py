"""Progress bars of the commands."""

from __future__ import annotations

from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ap_ranker.cli.console import Console


class ProgressBars:
    """Shows a bar on standard error for each slow step while it lasts."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def update(self, step: str, done: int, total: int) -> None:
        """Show the number of items done; the bar disappears when all are."""
        if done >= total:
            self._end()
            return
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.add_task(step, total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
