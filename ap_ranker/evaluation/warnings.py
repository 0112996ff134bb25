"""What makes an evaluation flatter: few candidates, and questions that the checkpoint knows."""

from __future__ import annotations

from collections.abc import Sequence

from ap_ranker.data.dataset import Dataset
from ap_ranker.ranking.trained_questions import SEEN

FEW = 20
"""With fewer candidates per question, the right answer is easily the first of them."""


def candidate_warnings(dataset: Dataset) -> list[str]:
    """Warnings, in words, if the questions have fewer candidates than in a search."""
    if dataset.own_answers:
        return [
            f"the candidates were only the {len(dataset.answers):,} answers of {dataset.name}. If the FAQ has others, "
            "a search is harder than this: name the FAQ with --answers FAQ.csv."
        ]
    sizes = [len(dataset.answers if each.candidates is None else each.candidates) for each in dataset.questions]
    mean = sum(sizes) / max(1, len(sizes))
    if mean >= FEW:
        return []
    return [f"only {mean:.0f} candidates per question: a search has more to choose from and is harder than this."]


def seen_warnings(seen: Sequence[bool] | None) -> list[str]:
    """Warnings, in words, if questions were seen in training, or if that is unknown.

    Args:
        seen: whether each question was, as of `Ranker.seen_in_training`.
    """
    if seen is None:
        return [f"it is unknown whether questions were seen in training: the checkpoint has no {SEEN}."]
    if not any(seen):
        return []
    return [f"{sum(seen):,} of the {len(seen):,} questions were seen in training, which makes them easy."]
