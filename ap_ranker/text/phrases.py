"""Joins frequent bigrams and trigrams into one token, as word2phrase does (Mikolov et al. 2013, section 4).

Neighbours x y are joined to x_y if (count(xy) - δ) · V / (count(x) · count(y)) is above a threshold (eq. 6; V is the
size of the vocabulary). A second pass over the joined texts finds phrases of three and four words.

gensim learns the phrases; the vocabulary stores them. In it, "_" can only mark a phrase, because in texts it is a
punctuation mark, a token of its own. The phrases of the first pass precede all words, those of the second follow them,
so that any text can be joined in the same two passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from ap_ranker.errors import extra_for

NONE = -1  # no token's id

MIN_COUNT, THRESHOLD = 5, 10.0
"""δ and the threshold: gensim's defaults; the threshold of word2phrase, 100, is meant for billions of words."""

Pairs = dict[tuple[int, int], int]  # two neighbouring token ids -> the id of their phrase


def phrase_words(token: str) -> list[str]:
    """The words of a phrase; an empty list for other tokens."""
    words = token.split("_")
    return words if len(words) > 1 and all(words) else []


def learn_phrases(texts: Iterable[Sequence[str]]) -> tuple[list[str], list[str]]:
    """The phrases of the first and of the second pass, from texts that are split into words; needs gensim."""
    with extra_for("Phrases need", "phrases"):
        from gensim.models.phrases import Phrases as Pass
    # A phrase never contains a punctuation mark.
    runs = [list(run) for words in texts for is_word, run in groupby(words, _is_word) if is_word]
    phrases: list[list[str]] = []
    for _ in range(2):
        model = Pass(runs, min_count=MIN_COUNT, threshold=THRESHOLD, delimiter="_")
        # All neighbours, not only those joined: in these texts x_y may always be part of a longer phrase.
        neighbours = dict.fromkeys(pair for run in runs for pair in pairwise(run))
        phrases.append([p for x, y in neighbours if (p := model.score_candidate(x, y, [])[0]) is not None])
        runs = [model[run] for run in runs]
    return phrases[0], phrases[1]


class Phrases:
    """Joins the phrases of a vocabulary in texts of token ids."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        row_of = {word: row for row, word in enumerate(vocabulary)}
        self._first: Pairs = {}
        self._second: Pairs = {}
        phrases = [
            (row, [row_of[word] for word in words])
            for row, token in enumerate(vocabulary)
            if (words := phrase_words(token)) and all(word in row_of for word in words)
        ]
        for row, ids in phrases:
            if row < min(ids):
                self._first[ids[0], ids[1]] = row
        for row, ids in phrases:
            # The second pass sees the phrase's words as the first pass has joined them.
            if row > min(ids) and len(parts := _joined(ids, self._first)) == 2:
                self._second[parts[0], parts[1]] = row

    def join(self, ids: list[int]) -> list[int]:
        """The token ids of a text with its phrases joined, from left to right, in two passes."""
        return _joined(_joined(ids, self._first), self._second)


def _joined(ids: Sequence[int], pairs: Pairs) -> list[int]:
    if not pairs:
        return list(ids)
    result: list[int] = []
    previous = NONE  # the token that the next one may be joined to; none after a phrase, which is final in this pass
    for token in ids:
        phrase = pairs.get((previous, token))
        if phrase is None:
            result.append(token)
            previous = token
        else:
            result[-1] = phrase
            previous = NONE
    return result


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token))
