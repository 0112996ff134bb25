"""The dev questions as they choose an epoch: of our models, and of the peers beside them."""

from __future__ import annotations

from ap_ranker.data.dataset import Dataset, sample_questions
from ap_ranker.data.wordings import with_wordings
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.training.config import TrainingConfig


def with_all_wordings(dev: Dataset, data: Dataset) -> Dataset:
    """The dev questions where, as in a search, all wordings are known: no question meets its own text."""
    return with_wordings(with_wordings(dev, data), dev)


def dev_set_of(dev: Dataset, config: TrainingConfig) -> EvaluationSet:
    """As many dev questions as are ranked after each epoch."""
    sample = sample_questions(dev, config.dev_questions, config.seed)
    return EvaluationSet(sample, language=config.language)
