"""BM25, the baseline that every table shows: Lucene's variant with its usual parameters."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import bm25s
import numpy as np

from ap_ranker.text.tokenizer import split_words

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets itself to DEBUG

# What Lucene and Elasticsearch ship with (and the benchmark numbers we compare with use).
K1, B = 1.2, 0.75


class BM25:
    """An index of N answers.

    Words are those of the neural models' tokeniser without its punctuation marks, so both see the same text.
    """

    def __init__(self, answers: Sequence[str]) -> None:
        self._index = bm25s.BM25(method="lucene", k1=K1, b=B)
        self._size = len(answers)
        words = [_words(text) for text in answers]
        self._empty = not any(words)
        if not self._empty:
            self._index.index(words, show_progress=False)

    def scores(self, question: str) -> np.ndarray:
        """(N,) scores of all answers; 0 where no word is shared."""
        words = [word for word in _words(question) if not self._empty and word in self._index.vocab_dict]
        if not words:
            return np.zeros(self._size, dtype=np.float32)
        scores: np.ndarray = self._index.get_scores(words)
        return scores


def _words(text: str) -> list[str]:
    return [word for word in split_words(text) if any(map(str.isalnum, word))]
