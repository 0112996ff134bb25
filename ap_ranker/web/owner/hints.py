"""What the owner's page cannot do, or does not show yet, in a sentence each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.dispensable import Dispensable
from ap_ranker.web.owner.texts import TEXTS


class Hints:
    """The hints of a server. `unwritten` counts the changes of the FAQ's file that no index has yet.

    `refusal` is why no entry can be changed; empty if they can.
    """

    def __init__(self, search: DeclaredPipeline, *, editable: bool, unwritten: Callable[[], int] | None) -> None:
        self._refusal = ""
        if not editable:
            self._refusal = "notEditable" if search.index_retriever() is None else "needsFile"
        self.refusal = str(TEXTS["en"][self._refusal]) if self._refusal else ""
        self._unwritten = unwritten
        self._brief = Dispensable("The owner's page does not say what is unwritten.", "The index")

    def now(self) -> list[dict[str, Any]]:
        """The `text` of each hint, by its name, and the `count` in it."""
        hints: list[dict[str, Any]] = []
        if self._refusal:
            hints.append({"text": self._refusal})
        count = None if self._unwritten is None else self._brief.ask(self._unwritten)
        if count:
            hints.append({"text": "unwritten", "count": count})
        return hints
