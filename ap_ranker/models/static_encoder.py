"""A static encoder: a text's vector is the mean of its subwords' vectors (model2vec, Tulkens & van Dongen 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from ap_ranker.errors import library_errors
from ap_ranker.models.sentence_files import modules_of, read_json
from ap_ranker.models.weights import check_finite
from ap_ranker.text.tokenizer import SubwordTokenizer

LONGEST = 512
"""Subwords of a text."""


@dataclass(frozen=True, eq=False)
class StaticEncoder:
    """The vectors (V, D) of the subwords of a tokenizer."""

    tokenizer: SubwordTokenizer
    vectors: Tensor

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) the mean of the vectors of each text's subwords, without special tokens; zero without any."""
        rows = [torch.tensor(self.tokenizer.subwords(text), dtype=torch.long) for text in texts]
        ends = torch.tensor([0, *map(len, rows[:-1])]).cumsum(0)
        return np.asarray(F.embedding_bag(torch.cat(rows), self.vectors, ends, mode="mean"))


def find_static(folder: Path) -> StaticEncoder | None:
    """The static encoder in a folder of model2vec or of sentence-transformers; `None` if it holds another one.

    InputError if it is damaged.
    """
    with library_errors(f"{folder}: expected an encoder with the vectors of its subwords in safetensors"):
        kinds = dict(modules_of(folder))
        if "StaticEmbedding" not in kinds and read_json(folder / "config.json", {}).get("model_type") != "model2vec":
            return None
        place = kinds.get("StaticEmbedding", folder)
        stored = load_file(place / "model.safetensors")
        check_finite(place, stored)
        vectors = (stored["embedding.weight"] if "embedding.weight" in stored else stored["embeddings"]).float()
        if "mapping" in stored:  # of token ids to shared rows
            vectors = vectors[stored["mapping"].long()]
        if "weights" in stored:
            vectors = vectors * stored["weights"].float().unsqueeze(1)
        return StaticEncoder(SubwordTokenizer.load(place / "tokenizer.json", LONGEST), vectors)
