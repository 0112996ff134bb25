"""Prints a summary of a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from ap_ranker.cli.console import Console

if TYPE_CHECKING:
    from ap_ranker.data.dataset import Dataset


def describe(console: Console, title: str, data: Dataset) -> None:
    """Print what a data set holds, and what was left out or merged."""
    console.print(
        f"{title}: {len(data.answerable):,} questions, {data.pairs:,} right answers among {len(data.answers):,} "
        f"({escape(data.name)})"
    )
    for reason, count in data.notes.items():
        console.print(f"  {count:,} {reason}")
    if without := len(data.questions) - len(data.answerable):
        console.print(f"  {without:,} questions without a right answer left out")
