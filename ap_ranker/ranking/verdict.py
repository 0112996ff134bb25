"""What a training says of its own checkpoint: is the search with it at least as good as the one before it?

Both searches are compared as they are served, with known wordings, BM25 and the decision, on questions that neither
was fitted to. Where there are few questions, what trainings on other FAQs gained counts beside them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ap_ranker.settings import settings

WRONG_COSTS = 3.0
"""How many right answers one wrong answer costs: the utility of a search is right answers asserted - 3 x wrong ones."""

ENOUGH = 30
"""Number of questions from which on a loss on them is hardly chance alone."""


@settings
class Verdict:
    """Whether a checkpoint is recommended, and the comparison that says so.

    `before` names the search before it: `untrained`, or the checkpoint that was served. `utility_before` and
    `utility_after` are right answers asserted minus `WRONG_COSTS` times wrong ones, for each of `n_questions` on
    average; `mrr_before` and `mrr_after` are of what is shown. `certainty` is the probability that the search with this
    checkpoint is at least as good, given these questions and the trainings on other FAQs.
    """

    recommended: bool
    before: str
    n_questions: Annotated[int, Field(ge=0)]
    utility_before: float
    utility_after: float
    mrr_before: Annotated[float, Field(ge=0, le=1)]
    mrr_after: Annotated[float, Field(ge=0, le=1)]
    certainty: Annotated[float, Field(ge=0, le=1)]

    @property
    def comparison(self) -> str:
        """Both searches side by side, without an end."""
        asked = f"{self.n_questions:,} question{'' if self.n_questions == 1 else 's'}"
        return (
            f"on {asked} that neither has learnt from: MRR {self.mrr_before:.3f} before and "
            f"{self.mrr_after:.3f} with it, right answers asserted minus {WRONG_COSTS:g} times wrong ones "
            f"{self.utility_before:+.2f} and {self.utility_after:+.2f} a question"
        )

    def explained(self) -> str:
        """Whether it is recommended, and why, in a sentence; then what would help."""
        gains = self.comparison.removeprefix("on ")
        certain = (
            f"it is at least as good as the search before ({self.before}) with a certainty of {self.certainty:.0%}"
        )
        if self.recommended:
            return f"Recommended: {certain}. On {gains}."
        is_worse = self.utility_after < self.utility_before or self.mrr_after < self.mrr_before
        if self.n_questions >= ENOUGH and is_worse:
            advice = "Collect more wordings, which the search before knows too, and train again with them."
        else:
            advice = (
                "Train again with more questions of users: it learns from them, and more of them show what it gains."
            )
        return f"Not recommended: {certain} only. On {gains}. {advice}"
