"""The calibration of a checkpoint before there are questions: what was learnt from other FAQs, for this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ap_ranker.data.dataset import Answer
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.ranking.priors import find_priors, floor_of, general_prior, random_scores, sampled, usual_background
from ap_ranker.ranking.random_questions import RANDOM_QUESTIONS
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration
from ap_ranker.text.language_detection import main_language

FLAT = 1e-6
"""Less is no unit of scores: all of a FAQ's texts are equal, or its model is broken."""


def prior_calibration(ranker: Ranker, answers: Sequence[Answer]) -> dict[str, Calibration]:
    """The calibration of the model's scores (`MODEL`) and, if BM25 has a weight, of both together (`FUSED`).

    The numbers are those of any checkpoint (`general_prior`); what questions about other matters score on this FAQ, as
    it is served, sets their level and their unit.
    """
    if not answers:
        return {}
    texts = [answer.text for answer in answers]
    wordings = [answer.wordings for answer in answers]
    scores = random_scores(ranker, texts, wordings if any(wordings) else None)
    kinds = {MODEL: scores}
    weight = ranker.decider().weights.bm25
    if weight:
        bm25 = BM25(texts, language=ranker.bm25_language)
        rows = sampled(texts)
        bm25_scores = [bm25.scores(question)[rows] for question in RANDOM_QUESTIONS]
        kinds[FUSED] = scores + weight * np.stack(bm25_scores)
    usual = usual_background(scores)
    return {kind: replace(_of(values), background=usual) for kind, values in kinds.items()}


def untrained_calibration(ranker: Ranker, answers: Sequence[Answer], *, stored: bool) -> Calibration | None:
    """That of an untrained encoder with a prior of its own; `None` for others, or if it has not read the language."""
    priors = find_priors(ranker.model.state_dict())
    texts = [answer.text for answer in answers]
    wordings = [answer.wordings for answer in answers]
    prior = None if priors is None else priors.of(main_language(texts), stored=stored)
    if prior is None:
        return None
    alone = random_scores(ranker, texts)
    served = random_scores(ranker, texts, wordings) if any(wordings) else alone
    calibration = prior.calibration(float(alone.mean()))
    return replace(calibration, background=usual_background(served))


def _of(scores: np.ndarray) -> Calibration:
    unit = max(float(scores.std()), FLAT)
    prior = general_prior().calibration(float(scores.mean()), unit)
    return replace(prior, floor=floor_of(scores.max(axis=1)))
