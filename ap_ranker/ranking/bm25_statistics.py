"""BM25 of texts that another engine holds: as `BM25`, by the statistics that the engine counts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ap_ranker.ranking.bm25 import K1, TIE_BREAKER, B, asked_words, length_factor, ways_of
from ap_ranker.text.reading import Form, Word

Ways = tuple[tuple[Form, ...], ...]
"""The forms of a word, in groups of those that are spellings of each other."""


class Everything:
    """The terms of an index whose terms are not at hand: any may be one of them."""

    def __contains__(self, term: object) -> bool:
        return True


@dataclass(frozen=True)
class AskedWords:
    """The words of a question as BM25 counts them: `times` says how often each of its `ways`; `factor` as of a text."""

    times: Mapping[Ways, int]
    factor: float

    @classmethod
    def of(cls, question: str, language: str | None, ends: Mapping[Word, Sequence[str]]) -> AskedWords:
        """
        Those of a question. `ends` are words that no text has, with the known terms of which they are compounds.

        BM25 leaves out terms that no text has. They need not be left out here: they add nothing to a text's score.
        """
        asked = asked_words(question, language)
        times: Counter[Ways] = Counter()
        for word in asked:
            vocabulary = frozenset(ends[word]) if word in ends else Everything()
            ways = ways_of(word, language, vocabulary)
            if ways:
                times[tuple(map(tuple, ways))] += 1
        return cls(times, length_factor(asked))

    @property
    def terms(self) -> list[str]:
        """All terms that may add to a score, each once."""
        forms = chain.from_iterable(chain.from_iterable(self.times))
        return list(dict.fromkeys(chain.from_iterable(forms)))


@dataclass(frozen=True)
class CountedTerms:
    """How often a text has each of its terms, and the number of all of them."""

    counts: Mapping[str, int]
    length: int

    @classmethod
    def of(cls, terms: Iterable[str]) -> CountedTerms:
        """Those of a text's terms; texts share the memory of equal ones."""
        counts = Counter(map(sys.intern, terms))
        return cls(counts, counts.total())


@dataclass(frozen=True)
class Statistics:
    """The number of texts, their mean number of terms, and how many of them have each of the terms asked for."""

    texts: int
    mean_length: float
    frequencies: Mapping[str, int]

    def scores(self, asked: AskedWords, texts: Sequence[CountedTerms], *, k1: float = K1, b: float = B) -> list[float]:
        """BM25's scores of N texts, as of Lucene: each the sum over the words asked for."""
        terms = [term for term in asked.terms if self.frequencies[term]]
        if not terms or not texts:
            return [0.0] * len(texts)
        counts_of_texts: list[list[int]] = []
        for text in texts:
            counts_of_texts.append([text.counts.get(term, 0) for term in terms])
        counts = np.array(counts_of_texts, dtype=np.float64)
        lengths = np.array([text.length for text in texts], dtype=np.float64)
        factors = k1 * (1 - b + b * lengths / (self.mean_length or 1))
        frequencies = np.array([self.frequencies[term] for term in terms], dtype=np.float64)
        weights = np.log(1 + (self.texts - frequencies + 0.5) / (frequencies + 0.5))
        shares = weights * counts / (counts + factors[:, np.newaxis])  # (N, terms)
        columns = {term: shares[:, column] for column, term in enumerate(terms)}
        scores = np.zeros(len(texts))
        for ways, times in asked.times.items():
            scores += times * _word_scores(ways, columns, len(texts))
        return [float(score) for score in asked.factor * scores]


def _word_scores(ways: Ways, shares: Mapping[str, np.ndarray], n_texts: int) -> np.ndarray:
    """(N,) A word counts by its best way, with `TIE_BREAKER` of the others; a way by its best form."""
    scores = np.array([_best_form(way, shares, n_texts) for way in ways])
    best: np.ndarray = scores.max(axis=0)
    return best + TIE_BREAKER.item() * (scores.sum(axis=0) - best)


def _best_form(way: Sequence[Form], shares: Mapping[str, np.ndarray], n_texts: int) -> np.ndarray:
    """(N,) that of the best of some forms, each the sum of its terms."""
    best = np.zeros(n_texts)
    for form in way:
        shares_of_form = [shares[term] for term in form if term in shares]
        if shares_of_form:
            best = np.maximum(best, sum(shares_of_form[1:], start=shares_of_form[0]))
    return best
