"""What an evaluation found: the measures of a model, of BM25 and of both together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import Match
from ap_ranker.evaluation.comparison import EarlierCheckpoint
from ap_ranker.evaluation.gain import Gain, gain_over_bm25
from ap_ranker.evaluation.metrics import means
from ap_ranker.ranking.bm25 import bm25_name
from ap_ranker.ranking.rule import Ranking


@dataclass(frozen=True)
class EvaluationReport:
    """The result of an evaluation.

    Attributes:
        dataset: the questions and answers.
        n_questions: Q, number of questions that the means are over.
        unanswerable: number of questions left out because the data has no right answer for them.
        candidates: what was ranked, in words.
        model: measure -> mean; with the best known wordings, if the checkpoint has a weight for them.
        bm25: the same for BM25.
        fusion: the same for both scores added, with the checkpoint's weight of BM25; `None` if that is 0.
        model_each: measure -> (Q,) values, one per question.
        bm25_each: the same for BM25.
        encode_seconds: time to encode all answers once.
        seconds_per_question: time to encode a question and match it with its encoded candidates.
        fusion_each: as `model_each`, for the fusion.
        rankings: each question's candidates, ranked by the model.
        served: the same as users get them: with BM25's score, if it has a weight, and the calibration.
        bytes_per_answer: of the states kept of an answer; mean over the answers.
        model_name: the model's registry name; empty if unknown.
        comparison: an earlier checkpoint on the same questions, if one was named.
        without_wordings: as `model`, by the answers alone; `None` if `model` has no wordings either.
        bm25_language: the language of BM25's stemmer; `None` for no stemmer.
        known: (Q,) whether each question was seen in training or is a known wording of an answer, word for word.
        warnings: why the numbers may be too high, in words.
        match: the text of an entry that was ranked.
    """

    dataset: Dataset = field(repr=False)
    n_questions: int
    unanswerable: int
    candidates: str
    model: dict[str, float]
    bm25: dict[str, float]
    fusion: dict[str, float] | None
    model_each: dict[str, np.ndarray]
    bm25_each: dict[str, np.ndarray]
    encode_seconds: float
    seconds_per_question: float
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
    def bm25_name(self) -> str:
        """BM25 as a table names it."""
        return bm25_name(self.bm25_language)

    @property
    def fused(self) -> dict[str, float]:
        """The measures that a user of the checkpoint gets: `fusion`, or `model` if BM25 has no weight."""
        return self.fusion or self.model

    @cached_property
    def gain(self) -> Gain:
        """The difference to BM25, tested for significance."""
        fusion = self.fusion_each["MRR"] if self.fusion_each else None
        return gain_over_bm25(self.model_each["MRR"], self.bm25_each["MRR"], fusion)

    @property
    def n_known(self) -> int:
        """Number of questions that are not new to the checkpoint."""
        return 0 if self.known is None else int(self.known.sum())

    def new(self, each: Mapping[str, np.ndarray]) -> dict[str, float] | None:
        """The means of (Q,) values over the new questions; `None` if all are new, or none is."""
        if self.known is None or not 0 < self.n_known < len(self.known):
            return None
        return means({name: values[~self.known] for name, values in each.items()})

    def as_json(self) -> dict[str, Any]:
        """The means, times and, if there is one, the comparison as basic types."""
        measures = ("n_questions", "model", "without_wordings", "bm25", "fusion", "n_known")
        costs = ("encode_seconds", "seconds_per_question", "candidates", "bm25_language")
        numbers = {name: getattr(self, name) for name in (*measures, *costs)}
        each = {"model": self.model_each, "bm25": self.bm25_each, "fusion": self.fusion_each}
        numbers |= {"new": {name: self.new(values) if values else None for name, values in each.items()}}
        numbers |= {"warnings": list(self.warnings)}
        return numbers | ({"compare": self.comparison.as_json()} if self.comparison else {})
