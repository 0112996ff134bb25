"""What has happened since the owner was here last, and the one thing that helps most visitors if it is done next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, func, select

from ap_ranker.web.changes import Action
from ap_ranker.web.database import Database, changes, judgements, questions


@dataclass(frozen=True)
class NextStep:
    """The most useful thing to do: a section of the page, and what of it comes first there."""

    section: str
    text: str = ""  # a visitor's question, or empty
    visitors: float = 0.0  # about how many were not helped, or said that something is right


def next_step(
    unhelpful: Sequence[Mapping[str, Any]],
    gaps: Sequence[Mapping[str, Any]],
    new: Sequence[Mapping[str, Any]],
    wordings: Sequence[Mapping[str, Any]],
) -> NextStep | None:
    """The step that concerns most visitors; `None` if nothing is left to do. The arguments are rows of the page.

    An answer that did not help counts each network, a gap each question, a new question each time that its first entry
    was probably wrong, a proposed wording each network: of equal ones, the first of these comes first.
    """
    steps: list[NextStep] = []
    for row in unhelpful:
        steps.append(NextStep("unhelpful", row["question"], row["networks"]))
    for row in gaps:
        steps.append(NextStep("gaps", row["questions"][0]["text"], row["asked"]))
    for row in new:
        steps.append(NextStep("new", row["question"], row["doubt"]))
    for row in wordings:
        if row["key"]:
            steps.append(NextStep("wordings", row["question"], row["networks"]))
    return max(steps, key=lambda step: step.visitors, default=None)  # the first of equal ones


def happened_since(database: Database, since: int, owner: str = "") -> dict[str, int]:
    """How often each of these has happened from a time on.

    `questions` asked, judgements that an answer `helped` or did not (`unhelpful`), `comments` beside these, and
    `changes` of all owners but this one, also such as are undone.
    """
    conditions: dict[str, tuple[Table, Iterable[Any]]] = {
        "questions": (questions, ()),
        "helped": (judgements, (judgements.c.helped,)),
        "unhelpful": (judgements, (~judgements.c.helped,)),
        "comments": (judgements, (judgements.c.comment != "",)),
        "changes": (changes, (changes.c.action != Action.undo.value, changes.c.owner != owner)),
    }
    counts = {}
    with database.reading() as connection:
        for name, (table, where) in conditions.items():
            query = select(func.count()).select_from(table).where(table.c.time >= since, *where)
            counts[name] = connection.scalar(query) or 0
    return counts
