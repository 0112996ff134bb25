"""Word vectors from a pretrained encoder, as model2vec makes them (Tulkens & van Dongen 2024).

    x_w = the encoder's pooled vector of the word w alone                     (H,)
    y_w = the D leading principal components of all x                         (D,)
    e_w = y_w · α / (α + p_w),  p_w = 1 / (rank_w Σ_r 1/r)                     frequent words count less

The weights are those of SIF (Arora et al. 2017, equation 3) with Zipf's law for the frequencies: the vocabulary is
sorted by frequency, and its ranks tell more than the counts of a small data set. All vectors are scaled to the spread
that the published word vectors have, for which the learning rates were chosen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ap_ranker.files import WriteError, atomic_file, cache_folder
from ap_ranker.models.transformer_encoder import TransformerEncoder
from ap_ranker.ranking.checkpoint import TOKENIZER
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.text.batch import UNKNOWN, TokenBatch
from ap_ranker.text.phrases import phrase_words
from ap_ranker.text.subwords import AnyTokenizer
from ap_ranker.text.tokenizer import split_words
from ap_ranker.training.initialize import read_encoder
from ap_ranker.training.progress import Progress

MAX_SIZE = 300
"""Maximum number of dimensions: the later principal components of single words are mostly noise."""

ALPHA = 1e-3
"""α, the frequency at which a word counts half; the paper's range is 1e-4 to 1e-3."""

SPREAD = 0.4
"""Standard deviation of the numbers, about that of GloVe's."""

WORD_TOKENS = 16
"""Maximum number of subwords of a word or phrase, special ones included."""

CACHE = "word-vectors"
"""The folder of the encoders' vectors of their own words."""

AT_ONCE = 256
"""Words that are read at once."""

Embed = Callable[[Sequence[str]], np.ndarray]
"""(N,) texts -> (N, H) vectors."""


class EncoderVectors:
    """Word vectors that an encoder gives any vocabulary.

    Args:
        embed: the encoder's vectors of texts.
        words: the words of the encoder's own vocabulary, most frequent first.
        size: D.
        origin: the encoder, in words.
        key: differs between two encoders.
        cache: a file that keeps the encoder's vectors of `words`, by far the most; `None` for none.
        on_progress: called while words are read.

    Attributes:
        dimensions: D, the length of a vector.
        words: as above.
        origin: where the vectors come from, in words.
    """

    def __init__(
        self,
        embed: Embed,
        words: Sequence[str],
        size: int,
        *,
        origin: str,
        key: str,
        cache: Path | None = None,
        on_progress: Progress = lambda what, done, total: None,
    ) -> None:
        self.words, self.origin = words, origin
        self._embed, self._size, self._key, self._cache = embed, size, key, cache
        self._on_progress = on_progress

    @cached_property
    def dimensions(self) -> int:
        """D, the length of a vector."""
        return min(self._size, MAX_SIZE, self._embed(["a"]).shape[1])

    @property
    def digest(self) -> str:
        """A hash that is equal for equal vectors."""
        return hashlib.sha256(f"{self._key} {self._size}".encode()).hexdigest()

    def table(self, vocabulary: Sequence[str], rng: np.random.Generator) -> np.ndarray:
        """(V, D) float32: the vector of each word or phrase; noise for an unknown word. The first row is zero.

        Args:
            vocabulary: V words, most frequent first; the first two are those of padding and of unknown words.
            rng: of the noise.
        """
        table = np.zeros((len(vocabulary), self.dimensions), dtype=np.float32)
        words = vocabulary[UNKNOWN + 1 :]
        if words:
            vectors = principal_components(self._vectors(words), self.dimensions) * frequency_weights(words)[:, None]
            table[UNKNOWN + 1 :, : vectors.shape[1]] = vectors * (SPREAD / max(float(vectors.std()), 1e-12))
        table[UNKNOWN] = rng.normal(0.0, SPREAD, self.dimensions)
        return table

    def _vectors(self, words: Sequence[str]) -> np.ndarray:
        """(V, H) the encoder's vectors of words; those of its own words are read once and kept."""
        own = self._own_vectors()
        row_of = {word: row for row, word in enumerate(self.words)}
        texts = [" ".join(phrase_words(word)) or word for word in words]
        new = [text for text in texts if text not in row_of]
        known = dict(zip(new, self._read(new), strict=True))
        return np.stack([own[row_of[text]] if text in row_of else known[text] for text in texts])

    def _own_vectors(self) -> np.ndarray:
        if self._cache is not None and self._cache.is_file():
            try:
                kept = load_file(self._cache)["vectors"]
                if len(kept) == len(self.words) and np.isfinite(kept).all():
                    return kept.astype(np.float32)
            except (OSError, SafetensorError, KeyError):
                pass  # damaged, or of another version: it is written again
        vectors = np.concatenate([*self._read_all(self.words)]) if self.words else np.zeros((0, 1), dtype=np.float32)
        vectors = vectors.astype(np.float16)  # also where nothing is kept, so that the result is the same
        if self._cache is not None:
            try:
                with atomic_file(self._cache) as draft:
                    save_file({"vectors": vectors}, draft)
            except WriteError:
                pass  # a read-only home only costs the time again
        return vectors.astype(np.float32)

    def _read(self, texts: Sequence[str]) -> Sequence[np.ndarray]:
        return [vector for part in self._read_all(texts) for vector in part]

    def _read_all(self, texts: Sequence[str]) -> Iterator[np.ndarray]:
        for start in range(0, len(texts), AT_ONCE):
            self._on_progress("reading words with the encoder", start, len(texts))
            yield self._embed(texts[start : start + AT_ONCE])
        self._on_progress("reading words with the encoder", len(texts), len(texts))


def vectors_of_encoder(name: str, size: int | None, on_progress: Progress) -> EncoderVectors:
    """Word vectors from a pretrained encoder.

    Args:
        name: a folder, or the name of a model on the hub.
        size: D, by default and at most 300.
        on_progress: called while words are read.

    Raises:
        InputError: as `read_encoder`.
    """
    folder, tokenizer, inputs = read_encoder(name, WORD_TOKENS)
    encoder = TransformerEncoder(inputs.encoder or {}, 0.0, frozen=True).eval()
    encoder.load_pretrained(folder)

    @torch.inference_mode()
    def embed(texts: Sequence[str]) -> np.ndarray:
        _, _, pooled = encoder(TokenBatch.from_lists(tokenizer.encode(texts)[0]), encoder.settings.question_prompt)
        vectors: np.ndarray = pooled.float().numpy()
        return vectors

    key, words = _hash(folder), whole_words(tokenizer)
    origin = f"the encoder {name}, by PCA"
    return EncoderVectors(
        embed, words, size or MAX_SIZE, origin=origin, key=key, cache=cache_folder(CACHE) / key, on_progress=on_progress
    )


def vectors_of_teacher(
    teacher: Ranker, size: int | None, on_progress: Progress = lambda what, done, total: None
) -> EncoderVectors | None:
    """Word vectors from a trained model's encoder; `None` if it has no vectors of whole texts.

    Args:
        teacher: the model.
        size: D, by default and at most 300.
        on_progress: called while words are read.
    """
    if not teacher.has_vectors:
        return None
    words = whole_words(teacher.tokenizer)

    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors: np.ndarray = teacher.embed_questions(texts).numpy()
        return vectors

    origin = f"the teacher {teacher.source}, by PCA"
    key = teacher.fingerprint
    return EncoderVectors(
        embed, words, size or MAX_SIZE, origin=origin, key=key, cache=cache_folder(CACHE) / key, on_progress=on_progress
    )


def whole_words(tokenizer: AnyTokenizer) -> list[str]:
    """The whole words of a vocabulary, in lower case and in its order, in which the frequent ones come first.

    A tokenizer marks either what begins a word ("▁the", "Ġthe") or what continues one ("##ing").
    """
    tokens = tokenizer.words
    marks = {mark: sum(token.startswith(mark) for token in tokens) for mark in ("▁", "Ġ")}
    mark = max(marks, key=marks.__getitem__)
    if marks[mark]:
        tokens = [token[1:] for token in tokens if token.startswith(mark)]
    if mark == "Ġ" and marks[mark]:
        tokens = [token for token in tokens if token.isascii()]  # the others are bytes
    lowered = dict.fromkeys(token.lower() for token in tokens if any(map(str.isalnum, token)))
    return [word for word in lowered if split_words(word) == [word]]


def principal_components(vectors: np.ndarray, size: int) -> np.ndarray:
    """(V, H) -> (V, min(size, H)): the leading principal components, the sign of each fixed.

    The signs are free. The number of largest magnitude of each direction is positive, so that they are the same on
    every machine.
    """
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    directions = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :size]
    largest = np.abs(directions).argmax(axis=0)
    components: np.ndarray = centred @ (directions * np.sign(directions[largest, np.arange(directions.shape[1])]))
    return components


def frequency_weights(words: Sequence[str]) -> np.ndarray:
    """(V,) α / (α + p) of words that are sorted by frequency. A phrase, however frequent, has the weight 1."""
    is_word = np.array([not phrase_words(word) for word in words])
    ranks = np.cumsum(is_word).clip(min=1)
    frequencies = is_word / (ranks * (1 / np.arange(1, len(words) + 1)).sum())
    weights: np.ndarray = ALPHA / (ALPHA + frequencies)
    return weights


def _hash(folder: Path) -> str:
    """A hash of an encoder's files."""
    digest = hashlib.sha256()
    for path in [*sorted(folder.glob("*.safetensors")), folder / TOKENIZER]:
        digest.update(path.read_bytes())
    return digest.hexdigest()
