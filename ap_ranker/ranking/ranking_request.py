"""Questions with their candidates, as a ranker scores them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ap_ranker.data.dataset import without_question
from ap_ranker.ranking.language_advice import language_to_tell
from ap_ranker.ranking.rule import Signals
from ap_ranker.ranking.typed_rule import compare_typed
from ap_ranker.ranking.wordings import is_exact_match


@dataclass(frozen=True)
class RankingRequest:
    """A question and its N candidates, with the arguments of `Ranker.rank`.

    `parts` are the text of each entry and its answer alone, which tell those that are the same answer; by default that
    of `answers` without the stored question above it, the first of its wordings. `typed` is the question as somebody
    has typed it, where `question` has a prefix or suffix for the model.
    """

    question: str
    answers: Sequence[str]
    wordings: Sequence[Sequence[str]] | None = None
    bm25_scores: Sequence[float] | None = None
    parts: Sequence[tuple[str, str]] | None = None
    typed: str | None = None

    @cached_property
    def wordings_of_rows(self) -> list[tuple[str, ...]]:
        """The known wordings of each candidate, maybe none."""
        return [tuple(texts) for texts in self.wordings or [()] * len(self.answers)]

    def signals(self, bm25_language: str | None, faq_language: str | None) -> Signals:
        """What is known before a model has read anything; ValueError for lists of other lengths than N."""
        count = len(self.answers)
        if self.wordings is not None and len(self.wordings) != count:
            raise ValueError(f"wordings must be {count} lists, one for each candidate, but got {len(self.wordings)}")
        bm25 = None
        if self.bm25_scores is not None:
            bm25 = np.asarray(self.bm25_scores, dtype=np.float64)
        if bm25 is not None and (bm25.shape != (count,) or not np.isfinite(bm25).all()):
            raise ValueError(f"BM25's scores must be {count} finite numbers, but got {self.bm25_scores}")
        typed = self.typed or self.question
        return Signals(
            np.empty(0),
            bm25=bm25,
            exact=np.array(is_exact_match(self.question, self.wordings_of_rows), dtype=bool),
            answers=self.parts or _parts_of(self.answers, self.wordings_of_rows),
            typed=compare_typed(typed, self.answers, self.wordings_of_rows, bm25_language),
            language=partial(language_to_tell, typed, faq_language),
        )


def matched_together(batch: Sequence[RankingRequest], *, any_candidates: bool) -> list[list[int]]:
    """The positions of the questions that have candidates, in groups: those of a group have the same candidates.

    `any_candidates`: all are one group, as for a GPU, which matches a question with the candidates of the others sooner
    than it begins anew for each question.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for position, request in enumerate(batch):
        if request.answers:
            key = () if any_candidates else tuple(request.answers)
            groups.setdefault(key, []).append(position)
    return list(groups.values())


def _parts_of(answers: Sequence[str], wordings: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """The text of each entry, and its answer alone, without the stored question above it."""
    parts: list[tuple[str, str]] = []
    for text, wordings_of_text in zip(answers, wordings, strict=True):
        parts.append((text, without_question(text, wordings_of_text)))
    return parts
