"""Which search answers: its checkpoint, what its decisions rest on, and since when."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ap_ranker.errors import InputError
from ap_ranker.kept_results import Latest
from ap_ranker.ranking.rule import Basis
from ap_ranker.search.declared_pipeline import CHANGED, DeclaredPipeline, Limits

logger = logging.getLogger(__name__)

SHORT = 12
"""Digits of a fingerprint that are told: enough to tell two checkpoints apart."""

BY_WORDS = "words"
"""What a search ranks by: BM25 alone."""

BY_MODEL = "model"
"""What a search ranks by: a model."""


@dataclass(frozen=True)
class ServedSearch:
    """A search that answers questions."""

    pipeline: str  # the name of its file
    since: float  # when it began to answer, in seconds since 1970
    ranks_by: str = BY_WORDS
    checkpoint: str = ""  # the name of its folder; empty if no model ranks
    fingerprint: str = ""  # the first digits of the checkpoint's
    trained: str = "no"  # or "yes"
    recommended: str = "unknown"  # by its training, "yes" or "no"; unknown of an untrained or an older one
    basis: str = str(Basis.NOTHING)  # of its decisions, as `Basis` names it: a calibration, a prior, nothing
    aged: str = "no"  # or "yes": many entries are new since it was calibrated


@dataclass(frozen=True)
class Promise:
    """What a search promises, and what it has learnt from."""

    precision: float | None = None  # target share of right answers among those that it asserts; `None`: no promise
    calibrated_on: int = 0  # number of questions or wordings; 0 if none or unknown
    trained_on: int = 0  # number of pairs of a question and an answer


def promise_of(search: DeclaredPipeline, limits: Limits) -> Promise:
    """The promise of a search with these limits; InputError if its checkpoint cannot be loaded."""
    ranker = search.ranker()
    if ranker is None:
        return Promise()
    loaded = ranker.loaded()
    calibration = loaded.decider(fuse_scores=ranker.fuse_scores).served
    pairs = 0 if loaded.config is None else loaded.config.training.get("pairs")
    return Promise(
        search.target_precision(limits),
        calibrated_on=0 if calibration is None else calibration.questions or 0,
        trained_on=pairs if isinstance(pairs, int) else 0,
    )


class ServedNow:
    """Describes a search as it is now, anew when its checkpoint has changed. Threads may share it."""

    def __init__(self, search: DeclaredPipeline) -> None:
        self._search = search
        self._started = time.time()
        self._served: Latest[ServedSearch] = Latest()

    def __call__(self) -> ServedSearch:
        """The search that answers questions now, which is ready to."""
        version = (self._search.version, self._search.since)
        describe = partial(_describe, self._search, max(self._search.since, self._started))
        return self._served.get(version, describe)


def _describe(search: DeclaredPipeline, since: float) -> ServedSearch:
    pipeline = search.path.stem
    ranker = search.ranker()
    if ranker is None:
        return ServedSearch(pipeline, since)
    checkpoint = Path(str(ranker.model)).name
    try:
        loaded = ranker.loaded()
        calibration = loaded.decider(fuse_scores=ranker.fuse_scores).served
        basis = Basis.NOTHING if calibration is None else calibration.basis
        changed = loaded.changed_share or 0.0
        is_aged = basis in (Basis.QUESTIONS, Basis.WORDINGS) and changed >= CHANGED
        config = loaded.config
        is_trained = config is not None and config.training.get("epochs") != 0
        verdict = None if config is None else config.verdict
        fingerprint = loaded.fingerprint[:SHORT]
    except (InputError, OSError) as error:  # another checkpoint takes its place at this moment
        logger.debug("The checkpoint cannot be described.", exc_info=error)
        return ServedSearch(pipeline, since, ranks_by=BY_MODEL, checkpoint=checkpoint)
    return ServedSearch(
        pipeline,
        since,
        ranks_by=BY_MODEL,
        checkpoint=checkpoint,
        fingerprint=fingerprint,
        trained=_yes_or_no(is_trained),
        recommended="unknown" if verdict is None else _yes_or_no(verdict.recommended),
        basis=str(basis),
        aged=_yes_or_no(is_aged),
    )


def _yes_or_no(holds: bool) -> str:
    return "yes" if holds else "no"
