"""What a search by words finds among all answers, with synonyms: no ranker finds more than that."""

from dataclasses import dataclass

import numpy as np

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.evaluation.metrics import Levels
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.text.synonyms import Synonyms

SYNONYMS_DEPTH = 10
"""The recall of a `SynonymPreview` is the share of questions with a right answer among so many."""


@dataclass(frozen=True)
class Moved:
    """A question whose first right answer has another rank with synonyms; `None`: no word finds it."""

    question: str
    before: float | None
    after: float | None

    @property
    def rises(self) -> bool:
        """Whether the answer is now nearer to the top."""
        return self.after is not None and (self.before is None or self.after < self.before)


@dataclass(frozen=True)
class SynonymPreview:
    """The effect of synonyms on BM25: MRR and recall before and after, and who moved, the farthest first."""

    n_questions: int
    concerned: int
    mrr: tuple[float, float]
    recall: tuple[float, float]
    moved: list[Moved]


def preview(data: Dataset, synonyms: Synonyms) -> SynonymPreview:
    """Search the questions of a data set without and with synonyms, among all of its answers."""
    index = BM25((answer.text for answer in data.answers), language=synonyms.language)
    moved, ranks, recalls, concerned = [], [], [], 0
    for question in data.answerable:
        forms = [index.scores(form) for form in synonyms.forms(question.text)]
        concerned += len(forms) > 1
        both = [levels_of(scores, question) for scores in (forms[0], np.maximum.reduce(forms))]
        ranks.append([levels.reciprocal_rank() for levels in both])
        recalls.append([levels.success(SYNONYMS_DEPTH) for levels in both])
        moved.append((abs(ranks[-1][1] - ranks[-1][0]), Moved(question.text, *(each.first_rank() for each in both))))
    farthest = [each for _, each in sorted(moved, key=lambda pair: -pair[0]) if each.before != each.after]
    (mrr, new_mrr), (recall, new_recall) = (np.array(values).reshape(-1, 2).T for values in (ranks, recalls))
    means = [float(values.mean()) for values in (mrr, new_mrr, recall, new_recall)]
    return SynonymPreview(len(ranks), concerned, (means[0], means[1]), (means[2], means[3]), farthest)


def levels_of(scores: np.ndarray, question: Question) -> Levels:
    """The ranking of the texts that share a word with a question."""
    rows = np.flatnonzero(scores > 0)
    return Levels.of(scores[rows], np.isin(rows, question.positives))
