"""BM25, Lucene's variant with its usual parameters: it fetches candidates, and is every table's baseline."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable
from pathlib import Path

import bm25s
import numpy as np

from ap_ranker.errors import InputError, one_line
from ap_ranker.text.tokenizer import split_words

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets itself to DEBUG

# What Lucene and Elasticsearch ship with (and the benchmark numbers we compare with use).
K1, B = 1.2, 0.75

BM25_SCORE, BM25_RANK = "bm25_score", "bm25_rank"
"""Where a retriever leaves BM25's score, and the place from 1, in a document's meta: other components overwrite its
score with their own."""


class BM25:
    """An index of N texts.

    Words are those of the neural models' tokeniser without its punctuation marks, so both see the same text.

    Args:
        texts: are read once and not kept; while they are indexed, each of their words takes some 30 bytes.
        k1: how much a word's repetitions in a text add; 0 counts each word once.
        b: how much longer texts are marked down, from 0 (not at all) to 1.
    """

    def __init__(self, texts: Iterable[str], *, k1: float = K1, b: float = B) -> None:
        vocabulary: dict[str, int] = {}
        rows = [array("i", [vocabulary.setdefault(word, len(vocabulary)) for word in _words(text)]) for text in texts]
        self._size = len(rows)
        self._folder: Path | None = None  # of a saved index, whose numbers are checked as they are used
        self._index: bm25s.BM25 | None = None
        if vocabulary:
            self._index = bm25s.BM25(method="lucene", k1=k1, b=b)
            self._index.index((rows, vocabulary), create_empty_token=False, show_progress=False)

    def __len__(self) -> int:
        return self._size

    @property
    def wordless(self) -> bool:
        """Whether no text has a word: every score is 0, and there is nothing to save."""
        return self._index is None

    def scores(self, question: str) -> np.ndarray:
        """(N,) scores of all texts; 0 where no word is shared.

        Raises:
            InputError: the index was saved, and is damaged where this question needs it.
        """
        words = [word for word in _words(question) if self._index is not None and word in self._index.vocab_dict]
        if self._index is None or not words:
            return np.zeros(self._size, dtype=np.float32)
        if self._folder is not None:
            self._check_texts(self._index, words, self._folder)
        scores: np.ndarray = self._index.get_scores(words)
        if self._folder is not None and not np.isfinite(scores).all():
            raise _damaged(self._folder, "scores that are no numbers")
        return scores

    def _check_texts(self, index: bm25s.BM25, words: Iterable[str], folder: Path) -> None:
        """A text that is not there would be an error at best, and another text's score at worst."""
        starts, texts = index.scores["indptr"], index.scores["indices"]
        for word in words:
            row = index.vocab_dict[word]
            found = texts[starts[row] : starts[row + 1]]
            if len(found) and not 0 <= found.min() <= found.max() < self._size:
                raise _damaged(folder, f"texts {found.min()} to {found.max()} of {self._size}")

    def save(self, folder: Path) -> None:
        """Write the index, which must have words, into a folder as plain arrays and JSON."""
        assert self._index is not None
        self._index.save(folder, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> BM25:
        """Map a saved index into memory: only the parts that questions need are ever read.

        Raises:
            InputError: a file is missing or damaged.
        """
        try:
            # What this class always asks for, whatever the file says.
            fixed = {"method": "lucene", "idf_method": "lucene", "dtype": "float32", "int_dtype": "int32"}
            index = bm25s.BM25.load(folder, mmap=True, allow_pickle=False, backend="numpy", **fixed)
            size = index.scores["num_docs"]
            _check(index, size)
        except Exception as error:  # the library, numpy and zipfile each have their own for a damaged file
            raise _damaged(folder, f"{type(error).__name__}: {error}") from error
        loaded = cls(())
        loaded._index, loaded._size, loaded._folder = index, size, folder
        return loaded


def _check(index: bm25s.BM25, size: object) -> None:
    """What can be seen without reading the scores of each word, which are many times as large."""
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"{size!r} texts")
    data, texts, starts = (index.scores[name] for name in ("data", "indices", "indptr"))
    if any(array.ndim != 1 or array.dtype.kind != kind for array, kind in ((data, "f"), (texts, "i"), (starts, "i"))):
        raise ValueError(f"arrays of {data.dtype}, {texts.dtype} and {starts.dtype}")
    words = list(index.vocab_dict.values())
    if not len(data) == len(texts) == starts[-1] or len(starts) != len(words) + 1:
        raise ValueError(f"{len(data)}, {len(texts)}, {len(starts)} and {len(words)} entries")
    if starts[0] != 0 or (np.diff(starts) < 0).any() or words != list(range(len(words))):
        raise ValueError("words in another order")


def _damaged(folder: Path, found: str) -> InputError:
    return InputError(
        f"{folder}: expected a saved BM25 index, found a damaged one ({one_line(found, 200)}). Delete the folder "
        f"{folder}; the next query builds the index again."
    )


def _words(text: str) -> list[str]:
    return [word for word in split_words(text) if any(map(str.isalnum, word))]
