"""BM25 as in Lucene: it fetches candidates and is the baseline of every table."""

from __future__ import annotations

import logging
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache, cached_property, partial
from itertools import chain
from math import log
from numbers import Real
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ap_ranker.errors import InputError
from ap_ranker.kept_results import keep
from ap_ranker.text.guessed_words import Consonants, pieces_of
from ap_ranker.text.languages import THAI, check_language
from ap_ranker.text.reading import Form, Word, joined_words, read_words, surface_words, without_repetition
from ap_ranker.text.synonyms import SearchedForm

if TYPE_CHECKING:
    import bm25s

_loading = Lock()

# The defaults of Lucene and Elasticsearch, which the published benchmark numbers also use.
K1 = 1.2
B = 0.75

MOST_TIMES = 3
"""Maximum number of times that a word of a question counts. Lucene has no limit, but a word repeated a hundred times
would outweigh everything. Of the 2,777 questions of the example FAQ, 4 have a word more than three times."""

BM25_SCORE = "bm25_score"
BM25_RANK = "bm25_rank"
BM25_LANGUAGE = "bm25_language"
"""Meta fields of a document for BM25's score, its rank, from 1, and the language of its stemmer.

Other components overwrite `score`, and a ranker must not add scores of another stemmer than its checkpoint's.
"""

TIE_BREAKER = np.float32(0.3)
"""Share of the scores of a word broken in other ways that is added to the best one's, as Lucene's disjunction maximum
has it: a text that has a word whole and in parts ("e-mail") comes before one that happens to have its parts."""

LONGEST = 30
"""Number of words up to which BM25 is the sum over the words of a question, as in Lucene; above, so many times their
mean. A sum grows with any text: on the example FAQ, with a weight of 0.02, it gave pages about other matters a median
probability of 0.40, and single sentences 0.16. The longest question of that FAQ, WikiQA and TREC-QA has 28 words."""


COMPOUNDING = frozenset({"german", "dutch", "danish", "norwegian", "swedish", "finnish", "hungarian"})
"""Languages that write compounds as one word, of which a FAQ rarely has the one that is asked for."""

SHORTEST_PART = 4
"""Minimum number of letters of a known word that a compound begins or ends with."""

LONGEST_COMPOUND = 100
"""Maximum number of letters of a compound: all its beginnings are looked up. The longest ones of German have 80."""


_DOTTED = str.maketrans("ıI", "ii")
"""Letters of Turkish -> what is typed for them where a keyboard has no ı."""


def bm25_name(language: str | None) -> str:
    """BM25 in a table: with a stemmer, or with words of a language without spaces, it is another baseline."""
    if language is None:
        return "BM25"
    return f"BM25, {language} {'words' if language == THAI else 'stemmer'}"


class BM25:
    """A BM25 index of N texts, which are read once and not kept; it takes about 30 bytes of memory per word.

    A word of a question counts by the form of it that gives a text the highest score (and `TIE_BREAKER`). `k1` says how
    much a word's repetitions in a text add (0 counts each word once), `b` how much longer texts are penalised, from 0
    (not at all) to 1. The language is that of Snowball's stemmer, such as `english`, or `thai`, by its extra.
    """

    def __init__(self, texts: Iterable[str], *, k1: float = K1, b: float = B, language: str | None = None) -> None:
        check_language(language)
        self.language = language
        vocabulary: dict[str, int] = {}
        rows: list[array[int]] = []
        for text in texts:
            numbers = [vocabulary.setdefault(term, len(vocabulary)) for term in text_terms(text, language)]
            rows.append(array("i", numbers))
        self._size = len(rows)
        self._index: bm25s.BM25 | None = None
        if vocabulary:
            self._index = _load_bm25s().BM25(method="lucene", k1=k1, b=b)
            self._index.index((rows, vocabulary), create_empty_token=False, show_progress=False)

    def __len__(self) -> int:
        return self._size

    @property
    def is_empty(self) -> bool:
        """Whether no text contains a word: all scores are 0, and there is nothing to save."""
        return self._index is None

    def best_scores(self, forms: Iterable[SearchedForm]) -> np.ndarray:
        """(N,) the best score of each text for a question and its forms with synonyms.

        Words searched in place of others count no more than these would: a rare synonym would put its texts before
        those that have the word that was asked for.
        """
        return np.maximum.reduce([self.scores(form.text, self._factors(form)) for form in forms])

    def _factors(self, form: SearchedForm) -> dict[str, float]:
        """What the terms of synonyms are multiplied by, so that they weigh no more than those that they stand for."""
        factors: dict[str, float] = {}
        for asked, searched in form.replaced:
            most = self._weight(asked)
            weight = self._weight(searched)
            if 0 < most < weight:
                ways = chain.from_iterable(read_words(searched, self.language))
                terms = set(chain.from_iterable(ways))
                factors |= dict.fromkeys(terms, most / weight)
        return factors

    def _weight(self, words: str) -> float:
        """The sum of the weights (IDF) of words, each by the form with the largest one; 0 if no text has any."""
        if self._index is None:
            return 0.0
        total = 0.0
        for word in read_words(words, self.language):
            ways = ways_of(word, self.language, self._index.vocab_dict)
            weights_of_forms = [sum(map(self._idf, form)) for form in chain.from_iterable(ways)]
            total += max(weights_of_forms, default=0.0)
        return total

    def _idf(self, term: str) -> float:
        assert self._index is not None
        row = self._index.vocab_dict[term]
        starts = self._index.scores["indptr"]
        frequency = int(starts[row + 1]) - int(starts[row])
        return log(1 + (self._size - frequency + 0.5) / (frequency + 0.5))

    def scores(self, question: str, factors: Mapping[str, float] | None = None) -> np.ndarray:
        """(N,) scores of all texts; 0 for texts that share no word with the question.

        Repetition and length do not raise them beyond those of ordinary questions, to which fusion and calibration
        are fitted: a question that repeats itself counts once (`without_repetition`), a word `MOST_TIMES` at most, and
        all scores of a question of more than `LONGEST` words are scaled down to so many. `factors` multiply terms.
        """
        asked = asked_words(question, self.language)
        vocabulary = {}
        if self._index is not None:
            vocabulary = self._index.vocab_dict
        known_words: list[list[list[Form]]] = []  # the ways of each
        for word in asked:
            ways = ways_of(word, self.language, vocabulary)
            if ways:
                known_words.append(ways)
        n_unknown = len(asked) - len(known_words)
        if n_unknown:
            known_words += self._guessed(question, vocabulary, is_run=n_unknown >= len(known_words))
        if self._index is None or not known_words:
            return np.zeros(self._size, dtype=np.float32)
        single_terms: list[str] = []  # of the words with one form, whose scores are added up together
        several: list[list[list[Form]]] = []
        for ways in known_words:
            if len(ways) == len(ways[0]) == 1:
                single_terms += ways[0][0]
            else:
                several.append(ways)
        scores = self._sum(single_terms, factors)
        for ways in several:
            scores_of_ways: list[np.ndarray] = []
            for way in ways:
                scores_of_forms = [self._sum(form, factors) for form in way]
                scores_of_ways.append(np.maximum.reduce(scores_of_forms))
            best = np.stack(scores_of_ways)
            scores = scores + (1 - TIE_BREAKER) * best.max(axis=0) + TIE_BREAKER * best.sum(axis=0)
        return scores * np.float32(length_factor(asked))

    def _guessed(self, question: str, vocabulary: Mapping[str, int], *, is_run: bool) -> list[list[list[Form]]]:
        """The ways of the known words that words of a question which no text has are read as.

        `is_run` says whether these may be several words: a single one among others, such as "flatmate", is a word.
        """
        guessed: list[list[list[Form]]] = []
        for written in dict.fromkeys(surface_words(question)):
            if self._is_known(written, vocabulary):
                continue
            meant = self._consonants.meant(written)
            if meant:
                guessed.append([[(term,) for term in meant]])
            if not is_run:
                continue
            for piece in pieces_of(written, partial(self._is_known, vocabulary=vocabulary), _function_words()):
                for word in read_words(piece, self.language):
                    ways = ways_of(word, self.language, vocabulary)
                    if ways:
                        guessed.append(ways)
        return guessed

    def _is_known(self, written: str, vocabulary: Mapping[str, int]) -> bool:
        forms = chain.from_iterable(read_words(written, self.language))
        return any(term in vocabulary for term in chain.from_iterable(forms))

    @cached_property
    def _consonants(self) -> Consonants:
        return Consonants(self._index.vocab_dict if self._index is not None else ())

    def _sum(self, terms: Iterable[str], factors: Mapping[str, float] | None = None) -> np.ndarray:
        """(N,) the sum of the scores of known terms, some of them multiplied by factors."""
        summed = list(terms)
        if self._index is None or not summed:
            return np.zeros(self._size, dtype=np.float32)
        if not factors:
            return self._index.get_scores(summed)
        whole = [term for term in summed if term not in factors]
        scores = self._sum(whole)
        for term in filter(factors.__contains__, summed):
            scores = scores + np.float32(factors[term]) * self._index.get_scores([term])
        return scores

    def save(self, folder: Path) -> None:
        """Write an index with at least one word into a folder, as arrays and JSON."""
        assert self._index is not None
        self._index.save(folder, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path, language: str | None = None) -> BM25:
        """Map a saved index of this language into memory; an exception of almost any class if it cannot be read."""
        # These settings override those in the file.
        fixed = {"method": "lucene", "idf_method": "lucene", "dtype": "float32", "int_dtype": "int32"}
        index = _load_bm25s().BM25.load(folder, mmap=True, allow_pickle=False, backend="numpy", **fixed)
        loaded = cls((), language=language)
        loaded._index = index
        loaded._size = index.scores["num_docs"]
        return loaded


def asked_words(question: str, language: str | None) -> list[Word]:
    """The words of a question, each as often as it counts; a question that repeats itself is read once."""
    words = read_words(without_repetition(question), language)
    return list(_counted(words))


def length_factor(asked: Iterable[Word]) -> float:
    """What the scores of a question with these words are multiplied by: 1, and less above `LONGEST` words."""
    length = sum(len(word[0]) for word in asked)
    return 1.0 if length <= LONGEST else LONGEST / length


def ways_of(word: Word, language: str | None, vocabulary: Container[str]) -> list[list[Form]]:
    """The forms of a word with the terms that are known, in groups of those that are spellings of each other.

    These have as many terms; the others break the word in another way. A form without any term is left out. A word
    without any, of a language that writes compounds as one, is read as the known words that it begins and ends
    with. A text's score for the word is the best of each group's, joined by `TIE_BREAKER`.
    """
    ways: defaultdict[int, dict[Form, None]] = defaultdict(dict)
    for form in word:
        known_terms = tuple(term for term in form if term in vocabulary)
        if known_terms:
            ways[len(form)][known_terms] = None
    if not ways and language in COMPOUNDING:
        ends: dict[Form, None] = {}
        for compound in compounds_of(word):
            ends_of_compound = tuple(_ends_of(compound, vocabulary))
            if ends_of_compound:
                ends[ends_of_compound] = None
        return [[*ends]] if ends else []
    return [list(forms) for forms in ways.values()]


def compounds_of(word: Word) -> list[str]:
    """The forms of a word that are one term of letters, of which known words may be a part."""
    compounds: list[str] = []
    for form in word:
        if len(form) == 1 and len(form[0]) <= LONGEST_COMPOUND and form[0].isalpha():
            compounds.append(form[0])
    return compounds


def parts_of(compound: str) -> list[str]:
    """Whatever a compound may begin or end with, if it is known."""
    lengths = range(SHORTEST_PART, len(compound))
    beginnings = [compound[:length] for length in lengths]
    ends = [compound[-length:] for length in lengths]
    return beginnings + ends


def text_terms(text: str, language: str | None) -> list[str]:
    """What an index holds of a text, in order; their number is the text's length."""
    return list(_terms(_text_words(text, language)))


def _ends_of(compound: str, vocabulary: Container[str]) -> Iterator[str]:
    """The longest known words that a compound begins and ends with, if any; they do not overlap."""
    length = len(compound)
    start = 0
    for end in range(length - 1, SHORTEST_PART - 1, -1):
        if compound[:end] in vocabulary:
            yield compound[:end]
            start = end
            break
    for place in range(start or 1, length - SHORTEST_PART + 1):
        if compound[place:] in vocabulary:
            yield compound[place:]
            return


def _load_bm25s() -> Any:
    """The library, on first use: where numba and SciPy are installed, it loads them, too.

    Without JAX, which it would start where that is installed: it is not needed, and takes most of a GPU's memory.
    """
    modules: dict[str, Any] = sys.modules
    with _loading:
        jax = modules.get("jax")
        modules["jax"] = None
        try:
            import bm25s
        finally:
            del modules["jax"]
            if jax is not None:
                modules["jax"] = jax
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # the library sets it to DEBUG
    return bm25s


def shared_words(question: str, text: str, language: str | None = None) -> list[str]:
    """The words of a text, in lower case as they are written, that count for a question; but no function words."""
    words = _by_form(text, language)
    matching: set[tuple[int, str]] = set()
    for form in set(chain.from_iterable(read_words(question, language))):
        matching.update(words.get(form, ()))
    return [word for _, word in sorted(matching)]


@keep(1_000_000)  # characters, as answers are found again and again; the forms of each take some 200 bytes
def _by_form(text: str, language: str | None) -> Mapping[Form, list[tuple[int, str]]]:
    """The different words of a text, each with its number, that have each form."""
    words: defaultdict[Form, list[tuple[int, str]]] = defaultdict(list)
    for number, word in enumerate(dict.fromkeys([*surface_words(text), *joined_words(text)])):
        # Of Chinese, these are single characters, of which most are parts of other words, too.
        if word not in _function_words() or "\u3000" < word < "\ua000":
            for form in chain.from_iterable(_text_words(word, language)):
                words[form].append((number, word))
    return words


@cache
def _function_words() -> frozenset[str]:
    """Of all languages that the library has a list of."""
    function_words: set[str] = set()
    for name, words in vars(_load_bm25s().stopwords).items():
        if name.startswith("STOPWORDS_"):
            function_words.update(words)
    return frozenset(function_words)


def check_parameters(k1: float, b: float = B) -> None:
    """Check parameters of BM25; an `InputError` if one is out of range."""
    if not (isinstance(k1, Real) and 0 <= k1 < float("inf")):
        raise InputError(f"Expected k1 as a number of 0 or more, found {k1!r}.")
    if not (isinstance(b, Real) and 0 <= b <= 1):
        raise InputError(f"Expected b as a number from 0 to 1, found {b!r}.")


def _text_words(text: str, language: str | None) -> list[Word]:
    """The words of a text to be searched: a Turkish ı also as i, as it is asked for on keyboards that lack it."""
    words = read_words(text, language)
    if language != "turkish":
        return words
    dotted_words = read_words(text.translate(_DOTTED), language)
    return [as_written + dotted for as_written, dotted in zip(words, dotted_words, strict=True)]


def _terms(words: list[Word]) -> Iterator[str]:
    """What an index of texts with these words holds: the terms of all forms, those of one word once."""
    for word in words:
        yield from word[0] if len(word) == 1 else dict.fromkeys(chain.from_iterable(word))


def _counted(words: Iterable[Word]) -> Iterator[Word]:
    """The words, each as often as it counts."""
    times: Counter[Word] = Counter()
    for word in words:
        times[word] += 1
        if times[word] <= MOST_TIMES:
            yield word


def best_rows(scores: np.ndarray, most: int | None, *, above: float = 0.0) -> np.ndarray:
    """The positions of the highest of (N,) scores above a limit, best first, ties in order; `most` of them at most."""
    rows = np.flatnonzero(scores > above)
    if most and len(rows) > most:  # sorting all of a large collection would take ten times as long as scoring it
        rows = rows[scores[rows] >= np.partition(scores[rows], -most)[-most]]
    return rows[np.argsort(-scores[rows], kind="stable")][:most]
