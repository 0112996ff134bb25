"""Trains, or loads the checkpoint of an equal earlier run, so that an interrupted series of runs can continue."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.models.registry import model_spec
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.checkpoint import is_checkpoint
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.text.word_vectors import PretrainedVectors
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.teacher import Teacher
from ap_ranker.training.train import train
from ap_ranker.training.transfer import settings_of_start


def train_or_load(
    data: Dataset,
    dev: Dataset,
    folder: Path,
    config: TrainingConfig,
    *,
    vectors: PretrainedVectors | None = None,
    start: Ranker | None = None,
    teacher: Teacher | None = None,
    device: str | None = None,
    **others: Any,
) -> Ranker:
    """Load the ranker of the finished run in `folder`, or train one and write it there.

    The arguments are those of `train`; `vectors` are ignored for a model with a pretrained encoder.

    Raises:
        InputError: `folder` holds a run with other settings, on other data, from another start or teacher.
    """
    config = config if start is None else settings_of_start(config, start)
    if not is_checkpoint(folder):
        others["vectors"] = None if model_spec(config.model).pretrained else vectors
        return train(data, dev, folder, config, start=start, teacher=teacher, device=device, **others).ranker
    ranker = Ranker.from_pretrained(folder, resolve_device(device), cache=EncodingCache(0))  # as `train` returns it
    assert ranker.config is not None
    recipe = config.training_recipe(
        judged=data.judged, questions_per_answer=data.questions_per_answer, with_teacher=teacher is not None
    )
    sources = {"start": start.source if start else None, "teacher": teacher.source if teacher else None}
    settings = json.loads(json.dumps(asdict(config) | {"data": data.name} | sources)) | asdict(recipe)
    different = [name for name, value in settings.items() if ranker.config.training.get(name) != value]
    if different:
        raise InputError(
            f"{folder}: expected a run with the same settings, found another {', '.join(different)}. "
            "Name another folder for the runs, or remove this one."
        )
    return ranker
