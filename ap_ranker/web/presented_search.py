"""A search whose answers come as the page shows them: the process that searches presents them, too.

Presenting reads each answer as text again. Where processes of their own search, the server's process, which speaks
HTTP, need not do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from haystack import Document

from ap_ranker.ranking.decision import Decision
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.presentation import presented

MAX_MAYBES = 5
"""Number of entries that are shown if none is asserted."""

_MOST_SHOWN = {Outcome.MAYBE: MAX_MAYBES, Outcome.NONE: 0}


class PresentedSearch(NamedTuple):
    """What is found for a question, best first, and the decision; what visitors see of it, and how."""

    found: list[Document]
    decision: Decision
    shown: list[Document]
    answers: list[dict[str, Any]]  # these, as `presentation.PresentedAnswer` without a receipt

    def in_order_of(self, shown: list[Document]) -> PresentedSearch:
        """The same with what visitors see in another order."""
        answers = {id(document): answer for document, answer in zip(self.shown, self.answers, strict=True)}
        return self._replace(shown=shown, answers=[answers[id(document)] for document in shown])


@dataclass(frozen=True)
class Presentation:
    """How a page presents answers, the same for all questions."""

    scales: bool  # whether the ranker's scores are probabilities once they are calibrated
    category: str  # the column of topics, as for `presentation.category_of`

    def is_calibrated(self, decision: Decision) -> bool:
        """Whether the scores are probabilities."""
        return self.scales and decision.probability is not None

    def of(
        self, question: str, found: list[Document], decision: Decision, shown: list[Document] | None = None
    ) -> PresentedSearch:
        """What visitors see of what is found, as they see it; `shown` may have it in another order."""
        seen = shown_of(found, decision) if shown is None else shown
        # Of a maybe, the heading says how well it matches.
        is_rated = self.is_calibrated(decision) and decision.outcome is Outcome.ANSWER
        answers = presented(question, seen, calibrated=is_rated, category=self.category)
        return PresentedSearch(found, decision, seen, answers)


def shown_of(found: list[Document], decision: Decision) -> list[Document]:
    """The documents that visitors see."""
    return found[: _MOST_SHOWN.get(decision.outcome)]
