"""P@1 by the length of the right answers: do long ones make a model fail? (dos Santos et al. 2016, figure 4.)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ap_ranker.data.dataset import answerable
from ap_ranker.evaluation.evaluation_report import EvaluationReport
from ap_ranker.text.tokenizer import split_words

GROUPS = 6


@dataclass(frozen=True)
class LengthGroup:
    """Questions whose right answers have similar lengths.

    Attributes:
        shortest: the group's smallest mean length of a question's right answers, in words and punctuation marks.
        longest: the largest.
        n_questions: number of questions.
        model: the model's P@1.
        bm25: BM25's P@1.
    """

    shortest: float
    longest: float
    n_questions: int
    model: float
    bm25: float


def by_length(report: EvaluationReport) -> list[LengthGroup]:
    """Divide the report's questions into up to `GROUPS` groups of similar size, shortest answers first.

    Questions with equally long answers share a group, so group sizes differ where there are many ties.
    """
    lengths = np.array(
        [
            np.mean([len(split_words(report.dataset.answers[row].text)) for row in question.positives])
            for question in answerable(report.dataset)
        ]
    )
    limits = np.unique(np.quantile(lengths, np.linspace(0, 1, GROUPS + 1)[1:-1], method="lower"))
    group_of = np.searchsorted(limits, lengths)  # a length equal to a limit belongs below it
    groups = []
    for group in np.unique(group_of):
        rows = group_of == group
        p_at_1 = [float(values["P@1"][rows].mean()) for values in (report.model_each, report.bm25_each)]
        groups.append(LengthGroup(float(lengths[rows].min()), float(lengths[rows].max()), int(rows.sum()), *p_at_1))
    return groups
