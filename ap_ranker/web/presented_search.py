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
    """The candidates for a question, best first, and the decision; what visitors see of them, and how."""

    candidates: list[Document]
    decision: Decision
    visible: list[Document]  # those of the candidates that visitors see
    answers: list[dict[str, Any]]  # these, as `presentation.PresentedAnswer` without a receipt


@dataclass(frozen=True)
class Presentation:
    """How a page presents answers, the same for all questions."""

    scales: bool  # whether the ranker's scores are probabilities once they are calibrated
    category: str  # the column of topics, as for `presentation.category_of`

    def is_calibrated(self, decision: Decision) -> bool:
        """Whether the scores are probabilities."""
        return self.scales and decision.probability is not None

    def of(self, question: str, candidates: list[Document], decision: Decision) -> PresentedSearch:
        """What visitors see of the candidates, as they see it."""
        visible = shown_of(candidates, decision)
        # Of a maybe, the heading says how well it matches.
        is_rated = self.is_calibrated(decision) and decision.outcome is Outcome.ANSWER
        answers = presented(question, visible, calibrated=is_rated, category=self.category)
        return PresentedSearch(candidates, decision, visible=visible, answers=answers)


def shown_of(candidates: list[Document], decision: Decision) -> list[Document]:
    """The documents that visitors see."""
    return candidates[: _MOST_SHOWN.get(decision.outcome)]
