"""What a user would train instead, with sentence-transformers: a bi-encoder and a cross-encoder on the same pairs.

Both start from the pretrained encoder of `ap-transformer` and are trained as the library's documentation does it: the
bi-encoder with in-batch negatives, the cross-encoder with the wrong answers that the untrained bi-encoder ranks first.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainingArguments, set_seed

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError, check_known, extra_for
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.scoring import CandidateScores
from ap_ranker.files import atomic_directory
from ap_ranker.models.transformer_encoder import multiplies_bfloat16
from ap_ranker.training.distributed import OnOneDevice

EPOCHS, LEARNING_RATE, BATCH_SIZE = 4, 5e-5, 64
"""The settings with which the bi-encoder was best on the example FAQ's dev questions; the cross-encoder's, too."""

HARD_NEGATIVES = 4
"""Wrong answers beside each right one that the cross-encoder learns from."""

MAX_TOKENS = 256
"""Of a question and an answer together; the default encoder's own limit of 128 would cut long answers."""

SETTINGS = "peer.json"


class FineTunedBiEncoder:
    """One vector per text; the score is their cosine (Reimers & Gurevych 2019)."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(str(folder), device=str(device), local_files_only=True)

    def fine_tune(self, data: Dataset, *where: Any) -> None:
        from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
        from sentence_transformers.base.sampler import BatchSamplers
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        pairs = [(question.text, data.answers[row].text) for question in data.answerable for row in question.positives]
        table, loss = _table(("question", "answer"), pairs), MultipleNegativesRankingLoss(self.model)
        settings = _arguments(SentenceTransformerTrainingArguments, *where, batch_sampler=BatchSamplers.NO_DUPLICATES)
        SentenceTransformerTrainer(self.model, settings, train_dataset=table, loss=loss).train()

    def score(self, asked: EvaluationSet) -> CandidateScores:
        started = time.perf_counter()
        vectors = self.encode([answer.text for answer in asked.dataset.answers])
        encoded = time.perf_counter()
        pairs = zip(asked.questions, asked.pools, strict=True)
        scores = [vectors[list(rows)] @ self.encode([question.text])[0] for question, rows in pairs]
        return CandidateScores(scores, encoded - started, time.perf_counter() - encoded, vectors[0].nbytes)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(N, H) vectors of length 1."""
        return np.asarray(self.model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False))


class FineTunedCrossEncoder:
    """Reads question and answer together, so nothing can be kept (Nogueira & Cho 2019)."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        from sentence_transformers.cross_encoder import CrossEncoder

        self.untrained, self.device = folder, device
        self.model = CrossEncoder(
            str(folder), num_labels=1, max_length=MAX_TOKENS, device=str(device), local_files_only=True
        )

    def fine_tune(self, data: Dataset, *where: Any) -> None:
        from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
        from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

        table, loss = _table(("question", "answer", "label"), self._labelled(data)), BinaryCrossEntropyLoss(self.model)
        settings = _arguments(CrossEncoderTrainingArguments, *where)
        CrossEncoderTrainer(self.model, settings, train_dataset=table, loss=loss).train()

    def _labelled(self, data: Dataset) -> list[tuple[str, str, float]]:
        """Each right answer, and the wrong ones that the untrained bi-encoder ranks highest for the question."""
        untrained = FineTunedBiEncoder(self.untrained, self.device)
        texts = [answer.text for answer in data.answers]
        answers, questions = (untrained.encode(part) for part in (texts, [q.text for q in data.answerable]))
        rows: list[tuple[str, str, float]] = []
        for question, vector in zip(data.answerable, questions, strict=True):
            ranking = np.argsort(-(answers @ vector)).tolist()
            wrong = [row for row in ranking if row not in question.positives][:HARD_NEGATIVES]
            rows += [(question.text, texts[row], 1.0) for row in question.positives]
            rows += [(question.text, texts[row], 0.0) for row in wrong]
        return rows

    def score(self, asked: EvaluationSet) -> CandidateScores:
        texts = [answer.text for answer in asked.dataset.answers]
        started = time.perf_counter()
        pairs = ([(q.text, texts[row]) for row in rows] for q, rows in zip(asked.questions, asked.pools, strict=True))
        scores = [np.asarray(self.model.predict(each, show_progress_bar=False)) for each in pairs]
        return CandidateScores(scores, 0.0, time.perf_counter() - started, 0)


Peer = FineTunedBiEncoder | FineTunedCrossEncoder
"""A model of sentence-transformers, from the folder of a pretrained encoder or of a trained peer."""

PEERS: dict[str, type[Peer]] = {"bi-encoder": FineTunedBiEncoder, "cross-encoder": FineTunedCrossEncoder}


def check_fine_tuning(names: Sequence[str]) -> None:
    """Refuse an unknown peer or a missing package before anything is trained."""
    for name in names:
        check_known("a peer", name, PEERS)
    with extra_for("Training --peers needs", "peers"):
        for package in ("datasets", "sentence_transformers") if names else ():
            importlib.import_module(package)


def train_or_load_peer(
    name: str, encoder: Path, data: Dataset, folder: Path, seed: int, device: torch.device
) -> tuple[Peer, float]:
    """The peer that an earlier run wrote to `folder`, or a new one from an encoder; the seconds of its training."""
    settings = {"encoder": encoder.name, "data": data.name, "pairs": data.pairs}
    settings |= {"epochs": EPOCHS, "learning_rate": LEARNING_RATE, "batch_size": BATCH_SIZE, "seed": seed}
    if not (folder / SETTINGS).is_file():
        set_seed(seed)
        started = time.perf_counter()
        peer = PEERS[name](encoder, device)
        with atomic_directory(folder) as draft:
            peer.fine_tune(data, draft, seed, device)
            record = settings | {"seconds": time.perf_counter() - started}
            peer.model.save_pretrained(str(draft))
            (draft / SETTINGS).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    record = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    seconds = float(record.pop("seconds"))
    if record != settings:
        raise InputError(f"{folder}: expected a {name} trained with {settings}, found {record}. Name another folder.")
    # Loaded anew also after training, which leaves the library's model in reduced precision.
    return PEERS[name](folder, device), seconds


def _arguments(kind: type[TrainingArguments], folder: Path, seed: int, device: torch.device, **others: Any) -> Any:
    is_gpu = device.type == "cuda"
    return type(kind.__name__, (OnOneDevice, kind), {})(
        on=device,
        output_dir=str(folder),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        warmup_steps=0.1,
        bf16=torch.cuda.is_bf16_supported(including_emulation=False) if is_gpu else multiplies_bfloat16(),
        seed=seed,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        **others,
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    from datasets import Dataset as Table

    return Table.from_dict(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
