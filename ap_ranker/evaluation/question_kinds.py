"""The three kinds of questions that measures are given for, as tables and JSON name them."""

from __future__ import annotations

AS_ASKED = "as users ask"
"""All of them."""

NEW = "new questions"
"""Those that are no near copy of what the search has seen: they tell how good it is with the next question."""

COPIES = "near copies"
"""The others."""
