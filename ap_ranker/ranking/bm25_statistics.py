"""BM25 of texts that another engine holds: as `BM25`, by the statistics that the engine counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

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
            known = frozenset(ends[word]) if word in ends else Everything()
            ways = ways_of(word, language, known)
            if ways:
                times[tuple(map(tuple, ways))] += 1
        return cls(times, length_factor(asked))

    @property
    def terms(self) -> list[str]:
        """All terms that may add to a score, each once."""
        return list(dict.fromkeys(term for ways in self.times for way in ways for form in way for term in form))


@dataclass(frozen=True)
class Statistics:
    """The number of texts, their mean number of terms, and how many of them have each of the terms asked for."""

    texts: int
    mean_length: float
    frequencies: Mapping[str, int]

    def score(self, asked: AskedWords, terms: Sequence[str], *, k1: float = K1, b: float = B) -> float:
        """BM25's score of a text with these terms, as of Lucene: the sum over the words asked for."""
        length = k1 * (1 - b + b * len(terms) / (self.mean_length or 1))
        shares: dict[str, float] = {}
        counts = Counter(terms)
        for term, frequency in self.frequencies.items():
            if term in counts and frequency:
                weight = log(1 + (self.texts - frequency + 0.5) / (frequency + 0.5))
                shares[term] = weight * counts[term] / (counts[term] + length)
        if not shares:
            return 0.0
        return asked.factor * sum(times * _word_score(ways, shares) for ways, times in asked.times.items())


def _word_score(ways: Ways, shares: Mapping[str, float]) -> float:
    """A word counts by its best way, with `TIE_BREAKER` of the others; a way by its best form."""
    scores = [max(_sum(form, shares) for form in way) for way in ways]
    best = max(scores)
    return best + TIE_BREAKER.item() * (sum(scores) - best)


def _sum(form: Iterable[str], shares: Mapping[str, float]) -> float:
    return sum(shares.get(term, 0.0) for term in form)
