"""Groups questions by meaning: functions of texts, of how often each was asked, and of vectors; no files, no search.

How similar two questions are (Conneau et al. 2018 correct cosines in this way, CSLS):

    s(a, b) = cos(a, b) - (known(a) + known(b)) / 2 + WORDS * words(a, b)

The mean of the questions that the FAQ knows is subtracted from all vectors: what all questions to one shop have in
common says nothing. known(a) is the mean cosine of a and the known questions that are nearest: in a crowded place
questions must be nearer to each other to be the same. words(a, b) is the cosine of their words, weighted by idf.

Every two questions of a group are similar (complete linkage): no chain leads from one matter to the next. Then each
question moves to the group that it is most like, as linkage never takes a step back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from ap_ranker.text.near_copies import near_groups
from ap_ranker.text.reading import read_words

BOUND = -0.2
"""Minimum similarity of every two questions of a group; chosen on the dev planting of examples/gaps."""

SURE = 0.5
"""Minimum cosine of a question and the most typical one of its group to propose it, too. Of what is proposed on the dev
planting, 16 of 17 are right, and 14 of 18 of a real search; of all questions of its groups, 41 of 45 and 33 of 100."""

WORDS = 0.1
"""Weight of the words that two questions share."""

SAMPLE, NEAREST = 2000, 20
"""Maximum number of known questions that are looked at, and of those that are near a question: one of a hundred."""

FEW, USUAL = 100, 0.8
"""Number of known questions below which they do not show where it is crowded; known(a) is then this high number: many
small groups cost an owner less than one that joins "i lost my card" with "forgot my pin" (a cosine of 0.56)."""

MOST, SWEEPS = 2000, 3
"""Maximum number of different questions that are grouped, those asked most often and latest, since each pair takes
time; and of times that all of them may move."""

NEAR = 0.75
"""Minimum probability of the nearest entry to offer it before a new one. On the dev planting the search that was
calibrated for precision 0.9 refused what had less than 0.70: of these questions half were right at 0.5 and more, and 9
of 16 at 0.6 and more, which is too few to lead an owner there."""

LIKELY = 0.5
"""Probability from which an entry counts as what a question may be about."""

Embed = Callable[[Sequence[str]], np.ndarray]
"""B questions -> (B, C) their vectors, of length 1."""


@dataclass(frozen=True)
class Unanswered:
    """A question that was not answered, and the text of an answer that did not help, if one was shown."""

    text: str
    answer: str = ""
    asked: int = 1  # number of times


@dataclass(frozen=True)
class GroupedQuestion:
    """A question of a group, and the entry that it is most like, if that was looked up."""

    text: str
    asked: int = 1  # number of times, in nearly equal words, or an answer did not help
    is_sure: bool = True  # similar enough to the most typical one to be taken with it unasked
    entry: str = ""  # id of the entry
    nearest: str = ""  # its stored question, or the beginning of its text
    score: float | None = None  # the entry's score for the question
    probability: float | None = None  # the same if it is one, as of a calibrated search


@dataclass(frozen=True)
class Gap:
    """A group of questions that mean about the same, and that nobody could answer."""

    questions: tuple[GroupedQuestion, ...]  # the most typical one first

    @property
    def first(self) -> GroupedQuestion:
        """The most typical question."""
        return self.questions[0]

    @property
    def asked(self) -> int:
        """How often the questions were asked, or an answer to them did not help."""
        return sum(each.asked for each in self.questions)

    @property
    def is_near(self) -> bool:
        """Whether the entry nearest to the most typical question is likely enough to be offered first."""
        return (self.first.probability or 0.0) >= NEAR

    def is_elsewhere(self, one: GroupedQuestion) -> bool:
        """Whether a question is more like another entry than the most typical one is, as far as that means anything."""
        likely = [each.probability is None or each.probability >= LIKELY for each in (one, self.first)]
        return bool(one.entry) and one.entry != self.first.entry and any(likely)

    def takes(self, one: GroupedQuestion) -> bool:
        """Whether a question goes with the most typical one unless somebody objects."""
        return one is self.first or (one.is_sure and not self.is_elsewhere(one))


def count(questions: Sequence[Unanswered]) -> dict[str, int]:
    """How often each question was asked, of questions oldest first; at most `MOST`, most often and latest first."""
    asked: Counter[str] = Counter()
    for one in reversed(questions):
        asked[one.text] += one.asked
    return dict(sorted(asked.items(), key=lambda item: -item[1])[:MOST])


def group(
    questions: Sequence[Unanswered],
    embed: Embed | None,
    known: Sequence[str] = (),
    bound: float = BOUND,
    *,
    language: str | None = None,
) -> list[Gap]:
    """Group questions, oldest first, by meaning: the group that was asked most often first.

    Of questions that are nearly equal, one stands for all; without `embed`, nothing else is grouped. `known` are those
    that the FAQ knows; `language` is that of a stemmer, as for `read_words`.
    """
    asked = count(questions)
    copies: defaultdict[int, list[str]] = defaultdict(list)
    for text, number in zip(asked, near_groups(list(asked)).tolist() if asked else (), strict=True):
        copies[number].append(text)
    texts = [max(same, key=lambda text: asked[text]) for same in copies.values()]
    counts = np.array([sum(asked[text] for text in same) for same in copies.values()])
    groups: Iterable[list[tuple[int, bool]]] = ([(row, True)] for row in range(len(texts)))
    if embed is not None and len(texts) > 1:
        groups = _groups(*similarities(texts, embed, known, language), counts, bound)
    gaps = [Gap(tuple(GroupedQuestion(texts[row], int(counts[row]), sure) for row, sure in one)) for one in groups]
    return sorted(gaps, key=lambda gap: (-gap.asked, -len(gap.questions)))


def similarities(
    texts: Sequence[str], embed: Embed, known: Sequence[str], language: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(N, N) how similar each two of N texts are, as the module's equation says, and (N, N) the cosines in it."""
    known = sorted(known, key=lambda text: crc32(text.encode()))[:SAMPLE]  # which hardly changes when the FAQ does
    vectors, nearest = np.array(embed(texts), dtype=np.float32), np.full(len(texts), USUAL, dtype=np.float32)
    if known:
        others = np.array(embed(known), dtype=np.float32)
        middle = others.mean(axis=0)
        vectors, others = _unit(vectors - middle), _unit(others - middle)
        if len(known) >= FEW:
            kept = min(NEAREST, len(known) // 100)
            nearest = np.partition(vectors @ others.T, -kept, axis=1)[:, -kept:].mean(axis=1)
    cosines = vectors @ vectors.T
    cosines = (cosines + cosines.T) / 2
    return cosines - (nearest[:, None] + nearest) / 2 + WORDS * _shared_words(texts, known, language), cosines


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def _shared_words(texts: Sequence[str], known: Sequence[str], language: str | None) -> np.ndarray:
    """(N, N) cosines of the words of N texts, weighted by how rare they are in these and the known ones."""
    from scipy.sparse import csr_array

    bags = [{word[-1] for word in read_words(text, language)} for text in (*texts, *known)]
    frequency = Counter(word for bag in bags for word in bag)
    column = {word: number for number, word in enumerate(frequency)}
    rarity = np.log((len(bags) + 1) / (np.array(list(frequency.values())) + 0.5), dtype=np.float32)
    rows = [number for number, bag in enumerate(bags[: len(texts)]) for _ in bag]
    columns = [column[word] for bag in bags[: len(texts)] for word in bag]
    weights = csr_array((rarity[columns], (rows, columns)), shape=(len(texts), len(column)))
    unit = weights.multiply(1 / np.maximum(np.sqrt(weights.power(2).sum(axis=1)), 1e-9)[:, None]).tocsr()
    return np.asarray((unit @ unit.T).toarray())


def _groups(
    similar: np.ndarray, cosines: np.ndarray, counts: np.ndarray, bound: float
) -> Iterator[list[tuple[int, bool]]]:
    """The members of each group, the most typical one of (N,) counts first, and whether they are surely like it."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    top = float(similar.max())
    distances = top - similar
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "complete")
    numbers = _moved(similar, fcluster(tree, top - bound, "distance"), bound)
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        typical = rows[np.argsort(-(similar[np.ix_(rows, rows)] @ counts[rows]), kind="stable")]
        sure = cosines[typical[0], typical] >= SURE
        sure[0] = True
        yield list(zip(typical.tolist(), sure.tolist(), strict=True))


def _moved(similar: np.ndarray, numbers: np.ndarray, bound: float) -> np.ndarray:
    """(N,) group numbers after each question went where it fits best, of the groups whose members are all like it."""
    from scipy.sparse import csr_array

    rows, unlike, similar = np.arange(len(numbers)), similar < bound, similar.copy()
    np.fill_diagonal(unlike, False)
    np.fill_diagonal(similar, 0)  # nobody is compared with itself
    for _ in range(SWEEPS):
        members = csr_array((np.ones(len(rows), dtype=np.float32), (rows, numbers)))  # (N, groups), of zeros and ones
        others = members.sum(axis=0) - members.toarray()
        fits = (others > 0) & (unlike @ members == 0)
        means = np.divide(similar @ members, others, out=np.full(others.shape, -np.inf), where=fits)
        best = means.argmax(axis=1)
        for row in np.flatnonzero(means[rows, best] > means[rows, numbers]):
            there = numbers == best[row]  # after the moves before
            if there.any() and not unlike[row, there].any():
                numbers[row] = best[row]
    return numbers
