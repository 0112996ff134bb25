"""What `ap-ranker evaluate --compare` says: a checkpoint against an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ap_ranker.evaluation.changes import Change, RankingChanges
    from ap_ranker.evaluation.evaluate import EvaluationReport

WIDTH = 100
"""Columns of a text that are shown; the JSON has all of it."""


def print_changes(console: Console, other: str, before: EvaluationReport, changes: RankingChanges) -> None:
    """Measures of the other checkpoint, the differences to them, and the questions that changed most."""
    table = Table(title=escape(f"Compared with {other}"))
    table.add_column("")
    for measure in before.model:
        table.add_column(measure, justify="right")
    scores = {other: (before.model, changes.model)}
    if changes.fusion:
        scores["both scores added"] = (before.fusion or before.model, changes.fusion)
    for name, (values, gain) in scores.items():
        table.add_row(escape(name), *(f"{value:.3f}" for value in values.values()))
        table.add_row("difference", *(f"{value:+.3f}" for value in gain.difference.values()))
        table.add_row("p-value", *(f"{value:.4f}" for value in gain.p_value.values()), end_section=True)
    console.print(table)
    console.print(
        f"The first right answer stands higher for {changes.better:,} questions, lower for {changes.worse:,} "
        f"of {before.n_questions:,}.",
        highlight=False,
    )
    for title, listed in (("Higher", changes.improved), ("Lower", changes.worsened)):
        for change in listed:
            _print_change(console, title, change)


def _print_change(console: Console, title: str, change: Change) -> None:
    lines = {f"{title}, {change.rank_before} → {change.rank_after}": change.question}
    if change.first_before != change.first_after:
        lines |= {"  first before": change.first_before, "  first now": change.first_after}
    for name, text in lines.items():
        shown = Text(" ".join(text.split()))
        shown.truncate(WIDTH, overflow="ellipsis")
        console.print(Text(f"{name}: ").append_text(shown))


def changes_as_json(other: str, before: EvaluationReport, changes: RankingChanges) -> dict[str, Any]:
    """Everything, for other programs."""
    from dataclasses import asdict

    return {"checkpoint": other, "measures": {"model": before.model, "fusion": before.fusion}, **asdict(changes)}
