"""What an evaluation found: the measures of a model, of BM25 and of both together, and what an earlier model had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match
from ap_ranker.evaluation.metrics import means
from ap_ranker.ranking.bm25 import bm25_name
from ap_ranker.ranking.rule import Ranking

if TYPE_CHECKING:
    from ap_ranker.evaluation.significance import Gain


@dataclass(frozen=True)
class EvaluationReport:
    """The result of an evaluation; `model`, `bm25` and `fusion` are the means of the (Q,) values of each measure.

    Attributes:
        unanswerable: number of questions left out because the data has no right answer for them.
        candidates: what was ranked, in words.
        model_each: measure -> (Q,) values; with the best known wordings, if these have a weight.
        encode_seconds: to encode all answers once.
        seconds_per_question: to encode a question and match it with its encoded candidates.
        fusion_each: as `model_each`, for both scores added; `None` if BM25 has no weight.
        rankings: each question's candidates, ranked by the model.
        served: the same as users get them: with BM25's score, if it has a weight, and the calibration.
        without_wordings: as `model`, by the answers alone; `None` if `model` has no wordings either.
        known: (Q,) whether each question was seen in training or is a known wording of an answer, word for word.
        warnings: why the numbers may be too high, in words.
    """

    dataset: Dataset = field(repr=False)
    unanswerable: int
    candidates: str
    model_each: dict[str, np.ndarray]
    bm25_each: dict[str, np.ndarray]
    encode_seconds: float = 0.0
    seconds_per_question: float = 0.0
    fusion_each: dict[str, np.ndarray] | None = None
    rankings: Sequence[Ranking] = ()
    served: Sequence[Ranking] = ()
    bytes_per_answer: float = 0.0
    model_name: str = ""
    comparison: EarlierCheckpoint | None = None
    without_wordings: dict[str, float] | None = None
    bm25_language: str | None = None
    known: np.ndarray | None = None
    warnings: Sequence[str] = ()
    match: Match = Match.both

    @property
    def n_questions(self) -> int:
        """Q, number of questions that the means are over."""
        return len(self.model_each["P@1"])

    @property
    def model(self) -> dict[str, float]:
        """Measure -> the model's mean."""
        return means(self.model_each)

    @property
    def bm25(self) -> dict[str, float]:
        """Measure -> BM25's mean."""
        return means(self.bm25_each)

    @property
    def fusion(self) -> dict[str, float] | None:
        """Measure -> the mean with both scores added; `None` if BM25 has no weight."""
        return means(self.fusion_each) if self.fusion_each else None

    @property
    def fused(self) -> dict[str, float]:
        """The measures that a user of the checkpoint gets: `fusion`, or `model` if BM25 has no weight."""
        return self.fusion or self.model

    @property
    def bm25_name(self) -> str:
        """BM25 as a table names it."""
        return bm25_name(self.bm25_language)

    @cached_property
    def gain(self) -> Gain:
        """The difference to BM25, tested for significance."""
        from ap_ranker.evaluation.significance import Gain  # by the extra `train`: searches measure, too

        fusion = self.fusion_each["MRR"] if self.fusion_each else None
        return Gain.over_bm25(self.model_each["MRR"], self.bm25_each["MRR"], fusion)

    @property
    def n_known(self) -> int:
        """Number of questions that are not new to the checkpoint."""
        return 0 if self.known is None else int(self.known.sum())

    def new(self, each: Mapping[str, np.ndarray] | None) -> dict[str, float] | None:
        """The means of (Q,) values over the new questions; `None` if all are new, or none is."""
        if not each or self.known is None or not 0 < self.n_known < len(self.known):
            return None
        return means({name: values[~self.known] for name, values in each.items()})

    def as_json(self) -> dict[str, Any]:
        """The means, times and, if there is one, the comparison as basic types."""
        measures = "n_questions model without_wordings bm25 fusion n_known"
        costs = "encode_seconds seconds_per_question candidates bm25_language"
        new = {name: self.new(getattr(self, f"{name}_each")) for name in ("model", "bm25", "fusion")}
        numbers = {name: getattr(self, name) for name in f"{measures} {costs}".split()}
        numbers |= {"new": new, "warnings": list(self.warnings)}
        if (earlier := self.comparison) is None:
            return numbers
        measures_before = {"model": earlier.before.model, "fusion": earlier.before.fusion}
        compared = {"checkpoint": earlier.checkpoint, "measures": measures_before, **earlier.changes}
        return numbers | {"compare": compared}


@dataclass(frozen=True)
class EarlierCheckpoint:
    """An earlier checkpoint on the same questions and candidates; `changes` to it; the text it was trained with."""

    checkpoint: str
    before: EvaluationReport
    changes: Mapping[str, Any]
    trained_match: Match
