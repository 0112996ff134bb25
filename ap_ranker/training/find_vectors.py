"""Finds the word vectors that a model begins with: in a file, a package, a checkpoint or a pretrained encoder.

From an encoder, they are made as model2vec does (Tulkens & van Dongen 2024):

    x_w = the encoder's pooled vector of the word w alone                     (H,)
    y_w = the D leading principal components of all x                         (D,)
    e_w = y_w · α / (α + p_w),  p_w = 1 / (rank_w Σ_r 1/r)                     frequent words count less

The weights are those of SIF (Arora et al. 2017, equation 3) with Zipf's law for the frequencies: the vocabulary is
sorted by frequency, and its ranks tell more than the counts of a small data set. All vectors are scaled to the spread
that the published word vectors have, for which the learning rates were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from ap_ranker.errors import InputError, library_errors
from ap_ranker.models.pretrained import DEFAULT_ENCODER, MOST_TOKENS, WEIGHTS, encoder_hash, find_encoder, read_encoder
from ap_ranker.models.sentence_modules import modules_of, read_json
from ap_ranker.models.transformer_encoder import TransformerEncoder
from ap_ranker.models.weights import check_finite, load_weights
from ap_ranker.progress import Progress, untold
from ap_ranker.ranking.checkpoint import TOKENIZER, is_checkpoint
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.tokenizer import UNKNOWN, AnyTokenizer, SubwordTokenizer, TokenBatch, split_words
from ap_ranker.text.word_vectors import WordVectors, read_vectors
from ap_ranker.training.computed_once import computed_once

MAX_SIZE = 300
"""Maximum number of dimensions: the later principal components of single words are mostly noise."""

ALPHA = 1e-3
"""α, the frequency at which a word counts half; the paper's range is 1e-4 to 1e-3."""

SPREAD = 0.4
"""Standard deviation of the numbers, about that of GloVe's."""

AT_ONCE = 256  # words that are read at once


def find_vectors(source: str | None, size: int | None, on_progress: Progress = untold) -> PretrainedVectors | None:
    """Word vectors from a file or a package, as `read_vectors`; from a checkpoint of a model of words, or an encoder.

    An encoder is named as `encoder`, the default one, or `encoder:NAME` with its folder or hub name. D is `size`, by
    default and at most 300; a file or a checkpoint decides itself. Without a source there are none.
    """
    if source is None:
        return None
    kind, _, name = source.partition(":")
    if kind == "encoder":
        return vectors_of_encoder(name or DEFAULT_ENCODER, size, on_progress)
    if is_checkpoint(Path(source)):
        return vectors_of_checkpoint(Ranker.from_pretrained(source, "cpu"))
    return read_vectors(source)


def vectors_of_checkpoint(ranker: Ranker) -> WordVectors:
    """The vectors that a model has learnt of its words, each as long as the model counts the word.

    A convolution that copies them, `copy_words` of `ap-cnn`, begins with about the scores of `bow-idf` whose vectors
    they are: an unknown word, too, counts as in the checkpoint, in `bow-idf` not at all.
    """
    vectors = ranker.model.word_vectors()
    if vectors is None:
        raise InputError(f"{ranker.source}: expected a checkpoint of a model with word vectors, found {ranker.name}.")
    words = ranker.tokenizer.words[UNKNOWN + 1 :]
    table = vectors.float().cpu().numpy()
    table = table * (SPREAD / max(float(table[UNKNOWN + 1 :].std()), 1e-12))
    return WordVectors(words, table[UNKNOWN + 1 :], f"the checkpoint {ranker.source}", unknown=table[UNKNOWN])


def vectors_of_encoder(name: str, size: int | None, on_progress: Progress) -> EncoderVectors:
    """Word vectors from a pretrained encoder, as `read_encoder` finds it, or from a static one, as they are."""
    folder = find_encoder(name)
    static = _static_vectors(name, folder, size, on_progress)
    if static is not None:
        return static
    _, tokenizer, inputs = read_encoder(name, None)
    encoder = TransformerEncoder(inputs.encoder or {}, 0.0, frozen=True).eval()
    encoder.load_pretrained(folder)

    @torch.inference_mode()
    def embed(texts: Sequence[str]) -> np.ndarray:
        tokens = tokenizer.encode(texts, questions=True)[0]
        return np.asarray(encoder(TokenBatch.from_lists(tokens), encoder.settings.question_prompt)[2].float())

    origin = f"the encoder {name}, by PCA"
    key = encoder_hash(folder)
    return EncoderVectors(
        embed, words_of_vocabulary(tokenizer), size=size, origin=origin, key=key, on_progress=on_progress
    )


def _static_vectors(name: str, folder: Path, size: int | None, on_progress: Progress) -> EncoderVectors | None:
    """Those of a folder of model2vec or `StaticEmbedding`, which has a vector for each subword; else `None`."""
    with library_errors(f"{folder}: expected an encoder with a vector for each subword, in safetensors"):
        kinds = dict(modules_of(folder))
        if "StaticEmbedding" not in kinds and read_json(folder / "config.json", {}).get("model_type") != "model2vec":
            return None
        place = kinds.get("StaticEmbedding", folder)
        stored = load_weights(place / WEIGHTS)
        tokenizer = SubwordTokenizer.load(place / TOKENIZER, MOST_TOKENS)
        check_finite(place, stored)
        table = (stored["embedding.weight"] if "embedding.weight" in stored else stored["embeddings"]).float()
        if "mapping" in stored:  # of token ids to rows that several of them share
            table = table[stored["mapping"].long()]
        if "weights" in stored:
            table = table * stored["weights"].float().unsqueeze(1)

    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors: list[np.ndarray] = []
        for text in texts:
            vectors_of_subwords = table[tokenizer.subwords(text)]
            vectors.append(vectors_of_subwords.sum(dim=0).numpy())
        return np.stack(vectors)

    words = words_of_vocabulary(tokenizer)
    origin = f"the encoder {name}"
    return EncoderVectors(
        embed, words, size=size, origin=origin, key=encoder_hash(folder), on_progress=on_progress, static=True
    )


def vectors_of_teacher(teacher: Ranker, size: int | None, on_progress: Progress) -> EncoderVectors | None:
    """Word vectors from a trained model's encoder; `None` if it has no vectors of whole texts."""
    if not teacher.has_vectors:
        return None
    words = words_of_vocabulary(teacher.tokenizer)
    origin = f"the teacher {teacher.source}, by PCA"
    return EncoderVectors(
        teacher.embed_questions, words, size=size, origin=origin, key=teacher.fingerprint, on_progress=on_progress
    )


@dataclass(frozen=True, eq=False)
class EncoderVectors:
    """Word vectors that an encoder gives any vocabulary, by its vectors (N, H) of texts.

    Those of its own words, most frequent first, are kept in the user's cache; `key` differs between two encoders. Those
    of a `static` encoder are word vectors already, in which a frequent word counts less: all of their numbers are kept,
    unless `size` is smaller.
    """

    embed: Callable[[Sequence[str]], np.ndarray | torch.Tensor]
    words: Sequence[str]
    size: int | None
    origin: str
    key: str
    on_progress: Progress = untold
    static: bool = False

    @cached_property
    def dimensions(self) -> int:
        """D, the length of a vector."""
        width = self.embed(["a"]).shape[1]
        if self.static:
            return min(self.size or width, width)
        return min(self.size or MAX_SIZE, MAX_SIZE, width)

    def table(self, vocabulary: Sequence[str], rng: np.random.Generator) -> np.ndarray:
        """(V, D) float32: the vector of each word, most frequent first; 0 for padding, noise for unknown."""
        table = np.zeros((len(vocabulary), self.dimensions), dtype=np.float32)
        words = vocabulary[UNKNOWN + 1 :]
        if words:
            vectors = self._vectors(words)
            if not self.static or self.dimensions < vectors.shape[1]:
                vectors = principal_components(vectors, self.dimensions)
            if not self.static:
                vectors = vectors * frequency_weights(len(words))[:, None]
            table[UNKNOWN + 1 :, : vectors.shape[1]] = vectors * (SPREAD / max(float(vectors.std()), 1e-12))
        table[UNKNOWN] = rng.normal(0.0, SPREAD, self.dimensions)
        return table

    def _vectors(self, words: Sequence[str]) -> np.ndarray:
        """(V, H) the encoder's vectors of words."""
        if self.static:
            return self._read(words)

        def read_own() -> np.ndarray:
            return self._read(self.words).astype(np.float16)

        vectors_of_own_words = computed_once("word-vectors", (self.key, list(self.words)), read_own)
        vector_of = dict(zip(self.words, vectors_of_own_words.astype(np.float32), strict=True))
        new = [word for word in words if word not in vector_of]
        vector_of |= dict(zip(new, self._read(new), strict=True))
        return np.stack([vector_of[word] for word in words])

    def _read(self, texts: Sequence[str]) -> np.ndarray:
        parts = []
        if not texts:
            parts = [np.zeros((0, 1), dtype=np.float32)]
        for start in range(0, len(texts), AT_ONCE):
            self.on_progress("reading words with the encoder", start, len(texts))
            parts.append(np.asarray(self.embed(texts[start : start + AT_ONCE])))
        self.on_progress("reading words with the encoder", len(texts), len(texts))
        return np.concatenate(parts)


PretrainedVectors = WordVectors | EncoderVectors
"""Word vectors that exist before training: their `words`, most frequent first, may join a vocabulary."""


def words_of_vocabulary(tokenizer: AnyTokenizer) -> list[str]:
    """The whole words of a vocabulary, in lower case and in its order, in which the frequent ones come first.

    A tokenizer marks either what begins a word ("▁the", "Ġthe") or what continues one ("##ing").
    """
    tokens = tokenizer.words
    pieces = [token[1:] for token in tokens if token.startswith("▁")]
    byte_pieces = [token[1:] for token in tokens if token.startswith("Ġ")]
    if len(pieces) < len(byte_pieces):
        tokens = [token for token in byte_pieces if token.isascii()]  # the others are bytes
    elif pieces:
        tokens = pieces
    words: dict[str, None] = {}  # in their order, each once
    for token in tokens:
        word = token.lower()
        if any(map(str.isalnum, token)) and split_words(word) == [word]:
            words[word] = None
    return list(words)


def principal_components(vectors: np.ndarray, size: int) -> np.ndarray:
    """(V, H) -> (V, min(size, H)): the leading principal components, the largest number of each direction positive."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    directions = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :size]
    largest = np.abs(directions).argmax(axis=0)
    return np.asarray(centred @ (directions * np.sign(directions[largest, np.arange(directions.shape[1])])))


def frequency_weights(words: int) -> np.ndarray:
    """(V,) α / (α + p) of V words that are sorted by frequency."""
    ranks = np.arange(1, words + 1)
    return np.asarray(ALPHA / (ALPHA + 1 / (ranks * (1 / ranks).sum())))
