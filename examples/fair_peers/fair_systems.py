"""What is compared, and what is tried of each: ours, and what a good engineer would train on the same encoder.

A trial is a choice from `GRIDS`. The first one is what each has by default; the others are drawn, the same ones in each
run. All have as many trials, all keep the epoch that ranks the dev questions best, untrained weights among them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from fair_data import FairData
from late_interaction import LateInteraction

from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.metrics import means
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.models.pretrained import find_encoder
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import Weights
from ap_ranker.training.compare import MEASURE, bm25_weight, fused
from ap_ranker.training.peer_lessons import RERANKED, hard_candidates
from ap_ranker.training.peers import PEERS, RECIPE, BiEncoder, train_or_load_peer
from ap_ranker.training.train import train_or_load

Settings = Mapping[str, Any]

OURS = "ap-transformer"
BI_ENCODER, CROSS_ENCODER, LATE_INTERACTION = "bi-encoder", "cross-encoder", "late-interaction"
UNTRAINED = "bi-encoder, untrained"

KINDS = {**PEERS, LATE_INTERACTION: LateInteraction}
"""Peers that are trained -> their classes."""

GRIDS: dict[str, dict[str, list[Any]]] = {
    OURS: {
        "epochs": [2, 4, 8],
        "encoder_learning_rate": [2e-5, 5e-5, 1e-4],
        "learning_rate": [2e-4, 5e-4, 1e-3],
        "batch_size": [16, 32, 64],
    },
    BI_ENCODER: {
        "epochs": [1, 2, 4, 8],
        "learning_rate": [1e-5, 2e-5, 5e-5, 1e-4],
        "batch_size": [16, 32, 64],
        "wrong_answers": [0, 4],
    },
    LATE_INTERACTION: {
        "epochs": [1, 2, 4, 8],
        "learning_rate": [1e-5, 3e-5, 1e-4],
        "batch_size": [16, 32],
        "wrong_answers": [0, 4],
    },
    CROSS_ENCODER: {
        "epochs": [4, 8, 16],  # its layer on top is random: of 192 pairs, four taught it less than BM25 knows
        "learning_rate": [5e-5, 1e-4, 2e-4],
        "batch_size": [16, 32],
        "wrong_answers": [2, 4],
    },
}
"""System -> setting -> the values that trials are drawn from; of epochs, the most that one has."""

SYSTEMS = (*GRIDS, UNTRAINED)

ALONE, WORDINGS = "answers alone", "wordings"
WITH_BM25 = ", with BM25"
ROWS = (ALONE, ALONE + WITH_BM25, WORDINGS, WORDINGS + WITH_BM25)
"""What a system may know when it ranks. Only equal rows are compared."""


class Trained(Protocol):
    """A system that is ready to rank."""

    def score(self, asked: EvaluationSet, *, wordings: bool) -> CandidateScores:
        """The scores of each question's candidates, with the known wordings or without."""

    def weights(self, *, wordings: bool) -> Weights:
        """Those of its scores, without BM25."""


@dataclass(frozen=True)
class Ours:
    """A checkpoint of ours."""

    ranker: Ranker
    knows_wordings = True

    def score(self, asked: EvaluationSet, *, wordings: bool) -> CandidateScores:
        scores = asked.timed_scores(self.ranker)
        return asked.with_wordings(self.ranker, scores) if wordings else scores

    def weights(self, *, wordings: bool) -> Weights:
        assert self.ranker.config is not None
        return Weights(wording=self.ranker.config.wording_weight if wordings else 0.0)


@dataclass(frozen=True)
class Peer:
    """A bi-encoder or a model of late interaction, which indexes the wordings."""

    peer: Any
    knows_wordings = True

    def score(self, asked: EvaluationSet, *, wordings: bool) -> CandidateScores:
        scores: CandidateScores = self.peer.score(asked, wordings=wordings)
        return scores

    def weights(self, *, wordings: bool) -> Weights:
        return Weights()


@dataclass(frozen=True)
class Reranker:
    """A cross-encoder behind a first stage: it reads the candidates that BM25 and the untrained bi-encoder find first.

    The others follow in the order in which they were found.
    """

    peer: Any
    first_stage: BiEncoder
    knows_wordings = False

    def score(self, asked: EvaluationSet, *, wordings: bool) -> CandidateScores:
        orders = hard_candidates(asked, self.first_stage)
        read = []
        for question, order in zip(asked.questions, orders, strict=True):
            read.append(replace(question, candidates=tuple(order[:RERANKED]), labels=()))
        best = EvaluationSet(replace(asked.dataset, questions=read), language=asked.language)
        scores: list[np.ndarray] = []
        for values, order, pool in zip(self.peer.score(best).by_question, orders, asked.pools, strict=True):
            lowest = float(values.min())
            score_of = {row: lowest - place for place, row in enumerate(order)}
            score_of.update(zip(order, values.tolist(), strict=False))
            scores.append(np.array([score_of[row] for row in pool]))
        return CandidateScores(scores, 0.0, 0.0)

    def weights(self, *, wordings: bool) -> Weights:
        return Weights()


def trials_of(system: str, count: int) -> list[Settings]:
    """The settings of the trials: the defaults, then others of the grid, drawn without repetition."""
    grid = GRIDS.get(system)
    if grid is None:
        return [{}]
    default = {} if system == OURS else dict(RECIPE)
    choices = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    others = [choice for choice in choices if choice != default]
    random.Random(system).shuffle(others)
    return [default, *others][:count]


def train_system(
    system: str, settings: Settings, data: FairData, folder: Path, seed: int, device: torch.device
) -> Trained:
    """Train a system into a folder, or load it from there."""
    if system == OURS:
        config = replace(data.base, **settings, seed=seed)
        return Ours(train_or_load(data.training, data.dev, folder, config, device=str(device)))
    encoder = find_encoder(data.encoder)
    if system == UNTRAINED:
        return Peer(BiEncoder(encoder, device))
    dev = data.dev_set(seed)
    peer, _ = train_or_load_peer(
        system, encoder, data.training, dev, folder, seed=seed, device=device, recipe=settings, kinds=KINDS
    )
    if system == CROSS_ENCODER:
        return Reranker(peer, BiEncoder(encoder, device))
    return Peer(peer)


def has_wordings(trained: Any, asked: EvaluationSet) -> bool:
    """Whether a system ranks these questions by wordings, too."""
    return trained.knows_wordings and bool(asked.dataset.wordings)


def dev_mrr(trained: Any, dev: EvaluationSet) -> float:
    """What chooses the settings: the MRR on the dev questions, with the wordings or without, whichever is higher."""
    values: list[float] = []
    for wordings in (False, True):
        if not wordings or has_wordings(trained, dev):
            scores = trained.score(dev, wordings=wordings)
            report = dev.report_of(scores, trained.weights(wordings=wordings))
            values.append(report.model[MEASURE])
    return max(values)


def measure_rows(trained: Any, dev: EvaluationSet, test: EvaluationSet) -> dict[str, dict[str, np.ndarray]]:
    """Row -> measure -> (Q,) values of the test questions; the dev questions choose the weight of BM25."""
    rows: dict[str, dict[str, np.ndarray]] = {}
    for name, wordings in ((ALONE, False), (WORDINGS, True)):
        if not wordings or has_wordings(trained, test):
            weights = trained.weights(wordings=wordings)
            weights = bm25_weight(dev, trained.score(dev, wordings=wordings), weights)
            report = test.report_of(trained.score(test, wordings=wordings), weights)
            rows[name] = report.model_each
            rows[name + WITH_BM25] = fused(report).model_each
    return rows


def mean_measures(rows: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, dict[str, float]]:
    """Row -> measure -> its mean."""
    return {name: means(dict(measures)) for name, measures in rows.items()}
