"""Begins with the weights of a checkpoint that was trained on other data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.registry import build_model
from ap_ranker.models.spec import Inputs
from ap_ranker.models.weights import difference
from ap_ranker.ranking.checkpoint import CheckpointConfig
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import UNKNOWN, AnyTokenizer
from ap_ranker.text.word_vectors import WordVectors
from ap_ranker.training.config import TrainingConfig
from ap_ranker.training.initialize import initialize_model
from ap_ranker.training.progress import Progress


def settings_of_start(config: TrainingConfig, start: Ranker) -> TrainingConfig:
    """The settings with those that a checkpoint's weights decide: options, length, segmenter, size of word vectors."""
    first = start.config
    if first is None or first.model != config.model:
        found = f"one of {first.model}" if first else "a model that was never saved"
        raise InputError(f"{start.source}: expected a checkpoint of {config.model} to start from, found {found}.")
    if config.embeddings is not None:
        raise InputError("Expected --start or --embeddings, found both: the checkpoint brings its own word vectors.")
    return replace(
        config,
        options={**first.options, **config.options},
        max_tokens=first.max_tokens,
        segmenter=first.segmenter,
        embedding_size=first.embedding_size or config.embedding_size,
    )


def initialize_from(
    start: Ranker,
    data: Dataset,
    config: TrainingConfig,
    options: Mapping[str, Any],
    device: torch.device,
    on_progress: Progress,
) -> tuple[AnswerModel, AnyTokenizer, Inputs]:
    """As `initialize_model`, with the weights of a checkpoint; a vocabulary of words grows by those of the data."""
    first = start.config
    assert first is not None
    by_word: set[str] = set()
    if first.encoder is not None:
        tokenizer: AnyTokenizer = start.tokenizer
        inputs = Inputs(tokenizer.words, 0, first.max_tokens, first.encoder)
        model = build_model(config.model, inputs, options).to(device)
    else:
        known, embedding = start.tokenizer.words[UNKNOWN + 1 :], start.model.embedding
        table = np.zeros((len(known), first.embedding_size), dtype=np.float32)
        if embedding is not None:
            table = embedding.vectors.weight.detach().float().cpu().numpy()[UNKNOWN + 1 :]
        vectors = WordVectors(known, table, f"the checkpoint {start.source}")
        config = replace(config, vocabulary_from_vectors=len(known))
        model, tokenizer, inputs = initialize_model(data, config, options, vectors, device, on_progress)
        by_word = _names_by_word(first)
    _load(model, tokenizer.words, start, by_word)
    return model, tokenizer, inputs


def _load(model: AnswerModel, words: Sequence[str], start: Ranker, by_word: set[str]) -> None:
    """Copy all weights; of those that have a row for each word, the rows of the words that the checkpoint knows."""
    own, learnt = model.state_dict(), start.model.state_dict()
    shapes = ({name: tuple(value.shape[name in by_word :]) for name, value in each.items()} for each in (own, learnt))
    if unequal := difference(*shapes):
        raise InputError(f"{start.source}: expected a checkpoint of the same architecture to start from ({unequal}).")
    row_of = {word: row for row, word in enumerate(words)}
    known = [(row_of[word], row) for row, word in enumerate(start.tokenizer.words) if word in row_of]
    rows, learnt_rows = torch.tensor(known).T
    for name in by_word:
        own[name][rows.to(own[name].device)] = learnt[name][learnt_rows.to(learnt[name].device)].to(own[name].device)
    model.load_state_dict({name: value for name, value in learnt.items() if name not in by_word}, strict=False)


def _names_by_word(first: CheckpointConfig) -> set[str]:
    """The names of the weights and counts that have a row for each word: one word more changes their shapes."""
    few, more = (
        build_model(first.model, Inputs(words, first.embedding_size, first.max_tokens), first.options).state_dict()
        for words in (["[PAD]", "[UNK]"], ["[PAD]", "[UNK]", "word"])
    )
    return {name for name, value in few.items() if value.shape != more[name].shape}
