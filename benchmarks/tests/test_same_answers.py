"""What counts as another answer."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.same_answers import TOLERANCE, changed_questions


def reply(outcome: str = "answer", probability: float | None = 0.5, *answers: str) -> dict[str, Any]:
    rows = [{"answer": text} for text in answers]
    return {"question": "q", "outcome": outcome, "probability": probability, "answers": rows}


@pytest.mark.parametrize(
    ("later", "changed"),
    [
        (reply("answer", 0.5, "a", "b"), []),
        (reply("answer", 0.5 + TOLERANCE / 2, "a", "c"), []),
        (reply("answer", 0.5 + 2 * TOLERANCE, "a"), ["probability"]),
        (reply("answer", None, "a"), ["probability"]),
        (reply("maybe", 0.5, "a", "b"), ["outcome"]),
        (reply("answer", 0.5, "b", "a"), ["first answer"]),
        (reply("none", 0.1), ["outcome", "first answer", "probability"]),
    ],
)
def test_what_has_changed(later: dict[str, Any], changed: list[str]) -> None:
    earlier = reply("answer", 0.5, "a", "b")
    differing = changed_questions([earlier], [later])
    assert [kind for kind, texts in differing.items() if texts] == changed
