"""BM25 of texts that another engine holds, such as Elasticsearch: the scores of `BM25`, from counts of the engine."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ap_ranker.ranking.bm25 import K1, TIE_BREAKER, B, asked_words, length_factor, ways_of
from ap_ranker.text.reading import Form, Word

Ways = tuple[tuple[Form, ...], ...]
"""The forms of a word, each of one or several terms, in groups of as many terms: those of a group are spellings of each
other, another group breaks the word in another way. "E-mail" has the ways ((("e", "mail"),), (("email",),))."""


class Everything:
    """Stands for the terms of an index that are not at hand: whatever is looked up is taken for one of them.

    A term that no text has need not be left out: it adds nothing to a text's score.
    """

    def __contains__(self, term: object) -> bool:
        return True


@dataclass(frozen=True)
class AskedWords:
    """The words of a question as BM25 counts them.

    `times` says how often each word counts, by its ways; `factor` is what scores are multiplied by (`length_factor`).
    """

    times: Mapping[Ways, int]
    factor: float

    @classmethod
    def of(cls, question: str, language: str | None, known_parts: Mapping[Word, Sequence[str]]) -> AskedWords:
        """The words of a question.

        `known_parts` has words that no text has -> the terms of the index that such a compound begins and ends with.
        """
        asked = asked_words(question, language)
        times: Counter[Ways] = Counter()
        for word in asked:
            vocabulary = frozenset(known_parts[word]) if word in known_parts else Everything()
            ways = ways_of(word, language, vocabulary)
            if ways:
                times[tuple(map(tuple, ways))] += 1
        return cls(times, length_factor(asked))

    @property
    def terms(self) -> list[str]:
        """All terms that may add to a score, each once."""
        terms: dict[str, None] = {}
        for ways in self.times:
            for forms in ways:
                for form in forms:
                    terms.update(dict.fromkeys(form))
        return list(terms)


@dataclass(frozen=True)
class CountedTerms:
    """How often a text has each of its terms, and its length, which is the sum of these counts."""

    counts: Mapping[str, int]
    length: int

    @classmethod
    def of(cls, terms: Iterable[str]) -> CountedTerms:
        """The counts of a text's terms; texts share the memory of equal terms."""
        counts = Counter(map(sys.intern, terms))
        return cls(counts, counts.total())


@dataclass(frozen=True)
class Statistics:
    """The number of texts, their mean number of terms, and how many texts have each of the terms asked for."""

    texts: int
    mean_length: float
    frequencies: Mapping[str, int]

    def scores(self, asked: AskedWords, texts: Sequence[CountedTerms]) -> list[float]:
        """BM25's scores of N texts, as of Lucene: each the sum over the words asked for."""
        terms = [term for term in asked.terms if self.frequencies[term]]
        if not terms or not texts:
            return [0.0] * len(texts)
        counts_of_texts: list[list[int]] = []
        for text in texts:
            counts_of_texts.append([text.counts.get(term, 0) for term in terms])
        counts = np.array(counts_of_texts, dtype=np.float64)
        lengths = np.array([text.length for text in texts], dtype=np.float64)
        factors = K1 * (1 - B + B * lengths / (self.mean_length or 1))
        frequencies = np.array([self.frequencies[term] for term in terms], dtype=np.float64)
        weights = np.log(1 + (self.texts - frequencies + 0.5) / (frequencies + 0.5))
        shares = weights * counts / (counts + factors[:, np.newaxis])  # (N, terms)
        columns = {term: shares[:, column] for column, term in enumerate(terms)}
        scores = np.zeros(len(texts))
        for ways, times in asked.times.items():
            scores += times * _word_scores(ways, columns, len(texts))
        return [float(score) for score in asked.factor * scores]


def _word_scores(ways: Ways, shares: Mapping[str, np.ndarray], n_texts: int) -> np.ndarray:
    """(N,) scores of a word: those of its best way in each text, with `TIE_BREAKER` of the other ways."""
    scores = np.array([_best_form(way, shares, n_texts) for way in ways])
    best: np.ndarray = scores.max(axis=0)
    return best + TIE_BREAKER * (scores.sum(axis=0) - best)


def _best_form(way: Sequence[Form], shares: Mapping[str, np.ndarray], n_texts: int) -> np.ndarray:
    """(N,) scores of a way: those of its best form in each text; a form has the sum of its terms' shares."""
    best = np.zeros(n_texts)
    for form in way:
        score_of_form = np.zeros(n_texts)
        for term in form:
            if term in shares:
                score_of_form += shares[term]
        best = np.maximum(best, score_of_form)
    return best
