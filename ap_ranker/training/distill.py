"""Distillation: a model learns from another one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.models.registry import build_model, model_spec
from ap_ranker.models.spec import Inputs
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.ranker import Ranker, resolve_device
from ap_ranker.training.augment import augmented_questions, find_neighbours
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.find_vectors import PretrainedVectors, find_vectors, vectors_of_teacher
from ap_ranker.training.peers import BiEncoder, Peer, is_ready_peer, ready_peer
from ap_ranker.training.teacher import Teacher
from ap_ranker.training.train import TrainingResult, train


def distill(
    teacher: Ranker | str | Path,
    data: Dataset,
    dev: Dataset,
    output: str | Path,
    config: TrainingConfig,
    *,
    questions: Sequence[str] = (),
    device: str | None = None,
    on_progress: Progress = untold,
    **others: Any,
) -> TrainingResult:
    """Train a model on the scores of a teacher beside the labels, and write its checkpoint folder.

    The teacher is a checkpoint, trained or not, or its ranker; or a model of sentence-transformers,
    `cross-encoder:NAME` or `bi-encoder:NAME`, by a name on the hub or a folder. Its scores are kept in the user's
    cache, for the next run and the next student.

    `config` describes the student. `questions` are texts whose answers are unknown: the teacher's scores take the place
    of their labels. Where candidates were not judged, `config.augmented_questions` more are made of the training
    questions. A student of words begins with the vectors that `config.embeddings` names, by default with those of the
    teacher's own encoder. A cross-encoder has none: its student begins with those of the default encoder. All `others`
    are arguments of `train`.

    Raises:
        InputError: as `train`; a teacher is missing, an objective is named, or the student has nothing to learn.
        WriteError: as `train`.
    """
    _check_student(config)
    ranker: Ranker | Peer
    if is_ready_peer(teacher):
        ranker = ready_peer(str(teacher), resolve_device(device))
    else:
        ranker = teacher if isinstance(teacher, Ranker) else Ranker.from_pretrained(teacher, device)
    vectors: PretrainedVectors | None = None
    if not model_spec(config.model).pretrained:
        size = config.embedding_size
        if isinstance(ranker, Ranker):
            vectors = find_vectors(config.embeddings, size, on_progress)
            vectors = vectors or vectors_of_teacher(ranker, size, on_progress)
        else:
            encoder = "encoder"  # the default one
            if isinstance(ranker, BiEncoder):
                encoder = ranker.source.removeprefix("bi-")  # `encoder:NAME` of `bi-encoder:NAME`
            vectors = find_vectors(config.embeddings or encoder, size, on_progress)
    n_augmented = 0
    if not data.judged:
        n_augmented = config.questions_to_make(len(data.questions) + len(questions))
    augmented: list[str] = []
    if n_augmented:
        neighbours = {}
        if vectors:
            neighbours = find_neighbours(data, vectors, config.vocabulary_from_vectors)
        augmented = augmented_questions(data, n_augmented, neighbours, config.seed)
    return train(
        data,
        dev,
        output,
        config,
        vectors=vectors,
        teacher=Teacher(ranker, [*questions, *augmented]),
        device=device,
        on_progress=on_progress,
        **others,
    )


def _check_student(config: TrainingConfig) -> None:
    if config.objective is not None:
        raise InputError(f"Expected no objective, as a student learns from its teacher, found {config.objective}.")
    learns = model_spec(config.model).pretrained
    if not learns:
        # The smallest model of its kind: whether it has weights that learn does not depend on its inputs.
        smallest = Inputs(words=["[PAD]", "[UNK]"], embedding_size=2, max_tokens=2)
        model = build_model(config.model, smallest, config.model_options)
        learns = any(parameter.requires_grad for parameter in model.parameters())
    if not learns or config.epochs == 0:
        student = f"{config.model} with epochs: {config.epochs}"
        raise InputError(f"Expected a student that can learn, such as ap-cnn, in epochs above 0, found {student}.")
