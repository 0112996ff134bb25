"""Builds the tokenizer and the initial model: of random weights, word vectors, a pretrained encoder or a checkpoint."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError, library_errors
from ap_ranker.models.base import AnswerModel
from ap_ranker.models.pretrained import DEFAULT_ENCODER, KEY, find_encoder, read_encoder, read_encoder_config
from ap_ranker.models.registry import build_model, model_spec
from ap_ranker.models.spec import Inputs
from ap_ranker.models.transformer_encoder import AT_ONCE
from ap_ranker.models.weights import difference
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.checkpoint import CheckpointConfig, round_as_stored
from ap_ranker.ranking.language_advice import MULTILINGUAL, init_command
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.language_detection import LANGUAGES, detect_language
from ap_ranker.text.tokenizer import UNKNOWN, AnyTokenizer, TokenBatch, WordTokenizer
from ap_ranker.text.word_vectors import WordVectors
from ap_ranker.training.config import EMBEDDING_SIZE, TrainingConfig
from ap_ranker.training.find_vectors import PretrainedVectors

logger = logging.getLogger(__name__)

SAMPLE = 2_000
"""Number of texts that a pretrained encoder's projection is fitted to; with more, it hardly changes."""

LARGE = 50 * 10**6
"""Weights in an encoder's layers from which a CPU trains the upper half of them by default (`examples/distill`)."""

LARGE_EPOCHS = 2
"""Of a large encoder on a CPU: on the example FAQ the first has dev MRR .904, the best of four .910."""

PART = 300
FOREIGN = 0.1
"""Characters of which the language is told, and the share of parts not in English from which a notice says so."""


def with_effort(config: TrainingConfig, device: torch.device) -> TrainingConfig:
    """The settings with what `effort` means where a CPU trains a large encoder; a line says so if it was left open."""
    is_open = config.effort in ("auto", "best") and "frozen" not in config.options and config.epochs != 0
    if not is_open or not model_spec(config.model).pretrained or device.type != "cpu":
        return config
    name = config.model_options["encoder"]
    architecture = read_encoder_config(find_encoder(name))
    layers = architecture.get("num_hidden_layers", 0)
    if 12 * layers * architecture.get("hidden_size", 0) ** 2 < LARGE:
        return config
    epochs = config.epochs or LARGE_EPOCHS
    if config.effort == "best":
        return replace(config, epochs=epochs)
    logger.warning(
        "%s is large for a CPU: the last %d of its %d layers learn (epochs: %d). To train all, add "
        "--best; to train none, add --quick.",
        *(name, layers // 2, layers, epochs),
    )
    return replace(config, epochs=epochs, options={**config.options, "frozen": True, "trained_layers": layers // 2})


def initialize_model(
    data: Dataset,
    config: TrainingConfig,
    options: Mapping[str, Any],
    vectors: PretrainedVectors | None,
    device: torch.device,
    on_progress: Progress = untold,
) -> tuple[AnswerModel, AnyTokenizer, Inputs]:
    """Build the model on its device, its tokenizer, and the description of its inputs; errors as `read_encoder`."""
    texts = data.question_texts + data.answer_texts
    if model_spec(config.model).pretrained:
        if vectors:
            raise InputError(
                f"{config.model} has a pretrained encoder with its own vectors: leave out the word vectors, or name a "
                "model that reads with them, such as ap-cnn."
            )
        return _with_encoder(
            texts,
            config,
            options,
            device,
            on_progress,
            judged=data.judged,
            is_private=data.has_feedback,
            source=data.name,
        )
    extra_words = []
    if vectors:
        extra_words = [word.lower() for word in vectors.words[: config.vocabulary_from_vectors]]
    tokenizer = WordTokenizer.build(texts, max_tokens=config.max_tokens, extra_words=extra_words)
    usual = (config.recipe == "paper" and model_spec(config.model).recipe.embedding_size) or EMBEDDING_SIZE
    size = vectors.dimensions if vectors else config.embedding_size or usual
    inputs = Inputs(tokenizer.words, size, config.max_tokens)
    model = build_model(config.model, inputs, options)
    if vectors and model.embedding is not None:
        table = torch.from_numpy(vectors.table(tokenizer.words, np.random.default_rng(config.seed)))
        model.embedding.vectors.weight.data.copy_(table)
        model.embedding.vectors.requires_grad_(not config.freeze_embeddings)
    return model.to(device), tokenizer, inputs


def _with_encoder(
    texts: Sequence[str],
    config: TrainingConfig,
    options: Mapping[str, Any],
    device: torch.device,
    on_progress: Progress,
    *,
    judged: bool,
    is_private: bool,
    source: str,
) -> tuple[AnswerModel, AnyTokenizer, Inputs]:
    settings = {name: options[name] for name in ("question_prompt", "answer_prompt", "dimensions")}
    folder, tokenizer, inputs = read_encoder(options["encoder"], config.max_tokens, **settings)
    model = build_model(config.model, inputs, options).to(device)
    if options["encoder"] == DEFAULT_ENCODER:
        # A single question is too short to tell its language.
        _warn_of_languages(" ".join(texts[:SAMPLE]), untrained_for=source if config.epochs == 0 else None)
    # A frozen encoder reads all of them anyway, unless it reads a prompt before each, or meets few of many judged ones.
    reads_all = options.get("frozen") and not judged and KEY not in (inputs.encoder or {})
    most = SAMPLE
    doing = "reading a sample of the texts"
    if reads_all:
        most = len(texts)
        doing = "reading the texts once"
    sample = np.random.default_rng(config.seed).permutation(len(texts))[:most]
    tokens, _ = tokenizer.encode([texts[row] for row in sample])
    tokens = sorted(tokens, key=len)

    def batches() -> Iterator[TokenBatch]:  # the weights are loaded before the first one is wanted
        if not options.get("linked"):
            round_as_stored(model.named_parameters())
        with model.cache_frozen_states(outlives=not is_private):
            for start in range(0, len(tokens), AT_ONCE):
                on_progress(doing, start, len(tokens))
                yield TokenBatch.from_lists(tokens[start : start + AT_ONCE], device)
            on_progress(doing, len(tokens), len(tokens))

    with library_errors(f"{folder}: expected an encoder that reads texts here", advice=" Choose another encoder."):
        model.load_pretrained(folder, batches())
    return model, tokenizer, inputs


def _warn_of_languages(text: str, untrained_for: str | None) -> None:
    """Say so if parts of a text are in other languages than English, and what to do.

    Only `train` and `init` have an option for the encoder. `untrained_for` are the documents of what is not trained,
    which may be a search: `init` makes a checkpoint for it.
    """
    parts = [text[start : start + PART] for start in range(0, len(text), PART)]
    foreign = Counter(filter(None, map(detect_language, parts)))
    del foreign["en"]
    most = [code for code, _ in foreign.most_common(2)]
    if foreign.total() > FOREIGN * len(parts):
        advice = f"add --encoder {MULTILINGUAL}"
        if untrained_for is not None:
            advice = init_command(most[0] if len(most) == 1 else None, untrained_for)
        logger.warning(
            "Texts are in %s, but the default encoder has read English only. A multilingual one ranks better: %s",
            " and ".join(LANGUAGES[code] for code in most),
            advice,
        )


# --- from a checkpoint that was trained on other data ---


def settings_of_start(config: TrainingConfig, start: Ranker) -> TrainingConfig:
    """The settings with those that a checkpoint's weights decide: options, length, size of word vectors."""
    first = start.config
    if first is None or first.model != config.model:
        other_model = f"one of {first.model}" if first else "a model that was never saved"
        raise InputError(f"{start.source}: expected a checkpoint of {config.model} to start from, found {other_model}.")
    if config.embeddings is not None:
        raise InputError("Expected --start or --embeddings, found both: the checkpoint brings its own word vectors.")
    by_effort = () if config.effort == "auto" else ("frozen", "trained_layers")
    theirs = {name: value for name, value in first.options.items() if name not in by_effort}
    return replace(
        config,
        options={**theirs, **config.options},
        max_tokens=first.max_tokens,
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
        words = start.tokenizer.words[UNKNOWN + 1 :]
        embedding = start.model.embedding
        table = np.zeros((len(words), first.embedding_size), dtype=np.float32)
        if embedding is not None:
            weights = embedding.vectors.weight.detach().float().cpu()
            table = weights.numpy()[UNKNOWN + 1 :]
        vectors = WordVectors(words, table, f"the checkpoint {start.source}")
        config = replace(config, vocabulary_from_vectors=len(words))
        model, tokenizer, inputs = initialize_model(data, config, options, vectors, device, on_progress)
        by_word = _names_by_word(first)
    _load_start(model, tokenizer.words, start, by_word)
    return model, tokenizer, inputs


def _load_start(model: AnswerModel, words: Sequence[str], start: Ranker, by_word: set[str]) -> None:
    """Copy all weights; of those that have a row for each word, the rows of the words that the checkpoint knows."""

    def shapes_of(weights: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
        """The shapes, without the number of words."""
        return {name: tuple(value.shape[name in by_word :]) for name, value in weights.items()}

    own = model.state_dict()
    learnt = start.model.state_dict()
    unequal = difference(shapes_of(own), shapes_of(learnt))
    if unequal:
        raise InputError(
            f"{start.source}: expected a checkpoint of the same architecture to start from, found another ({unequal})."
        )
    row_of = {word: row for row, word in enumerate(words)}
    row_pairs: list[tuple[int, int]] = []  # of each word that both know: its row here, and in the checkpoint
    for learnt_row, word in enumerate(start.tokenizer.words):
        if word in row_of:
            row_pairs.append((row_of[word], learnt_row))
    rows, learnt_rows = torch.tensor(row_pairs).T
    for name in by_word:
        weights = own[name]
        learnt_weights = learnt[name]
        weights[rows.to(weights.device)] = learnt_weights[learnt_rows.to(learnt_weights.device)].to(weights.device)
    without_rows = {name: value for name, value in learnt.items() if name not in by_word}
    model.load_state_dict(without_rows, strict=False)


def _names_by_word(first: CheckpointConfig) -> set[str]:
    """The names of the weights and counts that have a row for each word: one word more changes their shapes."""

    def weights_with(words: list[str]) -> dict[str, torch.Tensor]:
        inputs = Inputs(words, first.embedding_size, first.max_tokens)
        return build_model(first.model, inputs, first.options).state_dict()

    few = weights_with(["[PAD]", "[UNK]"])
    more = weights_with(["[PAD]", "[UNK]", "PAD"])  # of no new letters, which have rows in `bimpm`
    return {name for name, value in few.items() if value.shape != more[name].shape}
