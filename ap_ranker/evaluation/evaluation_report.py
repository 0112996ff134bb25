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
from ap_ranker.evaluation.question_kinds import AS_ASKED, COPIES, NEW
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
        near: (Q,) whether it is that, or a near copy of such a question (`text/near_copies.py`): then it is not new.
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
    near: np.ndarray | None = None
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
        if self.fusion_each:
            return means(self.fusion_each)
        return None

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
        """The difference to BM25 on the questions of the headline, tested for significance."""
        from ap_ranker.evaluation.significance import Gain  # by the extra `train`: searches measure, too

        rows = self.rows_of[self.headline]
        fusion = None
        if self.fusion_each:
            fusion = self.fusion_each["MRR"][rows]
        only_new = self.headline == NEW and self.n_near > 0
        return Gain.over_bm25(self.model_each["MRR"][rows], self.bm25_each["MRR"][rows], fusion, only_new=only_new)

    @property
    def n_known(self) -> int:
        """Number of questions that are not new to the checkpoint."""
        if self.known is None:
            return 0
        return int(self.known.sum())

    @cached_property
    def is_near(self) -> np.ndarray:
        """(Q,) `near`, or `known` where nearness was not looked for; by default all questions are new."""
        flags = self.known if self.near is None else self.near
        if flags is None:
            return np.zeros(self.n_questions, dtype=bool)
        return flags

    @property
    def n_near(self) -> int:
        """Number of near copies."""
        return int(self.is_near.sum())

    @cached_property
    def rows_of(self) -> dict[str, np.ndarray]:
        """Kind of question -> (Q,) whether each is one: all as users ask them, the new ones, and near copies."""
        return {AS_ASKED: np.ones(self.n_questions, dtype=bool), NEW: ~self.is_near, COPIES: self.is_near}

    @property
    def headline(self) -> str:
        """The kind of question that the verdict is on: the new ones, if there are any."""
        if self.n_near < self.n_questions:
            return NEW
        return AS_ASKED

    @property
    def shown_kinds(self) -> dict[str, str]:
        """The kinds of questions that a table shows, the headline first -> the end of their rows' names.

        Where all questions are of one kind, there is one row of each, without such an end.
        """
        if not 0 < self.n_near < self.n_questions:
            return {AS_ASKED: ""}
        return {kind: f", {kind}" for kind in (NEW, AS_ASKED, COPIES)}

    def means_of(self, kind: str, of_measures: Mapping[str, np.ndarray] | None) -> dict[str, float] | None:
        """The means of (Q,) values over the questions of a kind; `None` if there are none."""
        rows = self.rows_of[kind]
        if of_measures and rows.any():
            return means({name: values[rows] for name, values in of_measures.items()})
        return None

    def new(self, of_measures: Mapping[str, np.ndarray] | None) -> dict[str, float] | None:
        """The means of (Q,) values over the new questions; `None` if all are new, or none is."""
        if 0 < self.n_near < self.n_questions:
            return self.means_of(NEW, of_measures)
        return None

    def kinds(self) -> dict[str, dict[str, Any]]:
        """Kind of question -> number of questions, and the means of the model, BM25 and fusion, for a JSON file."""
        kinds: dict[str, dict[str, Any]] = {}
        for kind, rows in self.rows_of.items():
            kinds[kind] = {
                "n_questions": int(rows.sum()),
                "model": self.means_of(kind, self.model_each),
                "bm25": self.means_of(kind, self.bm25_each),
                "fusion": self.means_of(kind, self.fusion_each),
            }
        return kinds

    def as_json(self) -> dict[str, Any]:
        """The means, times and, if there is one, the comparison as basic types."""
        numbers: dict[str, Any] = {
            "n_questions": self.n_questions,
            "model": self.model,
            "without_wordings": self.without_wordings,
            "bm25": self.bm25,
            "fusion": self.fusion,
            "n_known": self.n_known,
            "encode_seconds": self.encode_seconds,
            "seconds_per_question": self.seconds_per_question,
            "candidates": self.candidates,
            "bm25_language": self.bm25_language,
            "new": {
                "model": self.new(self.model_each),
                "bm25": self.new(self.bm25_each),
                "fusion": self.new(self.fusion_each),
            },
            "n_near": self.n_near,
            "kinds": self.kinds(),
            "headline": self.headline,
            "warnings": list(self.warnings),
        }
        earlier = self.comparison
        if earlier is None:
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
