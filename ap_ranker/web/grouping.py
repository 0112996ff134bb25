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
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from ap_ranker.text.near_copies import near_groups
from ap_ranker.text.reading import Form, read_words

BOUND = -0.2
"""Minimum similarity of every two questions of a group; chosen on the dev planting of examples/gaps."""

SURE = 0.5
"""Minimum cosine of a question and the most typical one of its group to propose it, too. Of what is proposed on the dev
planting, 16 of 17 are right, and 14 of 18 of a real search; of all questions of its groups, 41 of 45 and 33 of 100."""

WORDS = 0.1
"""Weight of the words that two questions share."""

SAMPLE = 2000
"""Maximum number of known questions that are looked at."""

NEAREST = 20
"""Maximum number of known questions that count as near a question: one of a hundred."""

FEW = 100
"""Number of known questions below which they do not show where it is crowded."""

USUAL = 0.8
"""known(a) of so few known questions. It is high: many small groups cost an owner less than one that joins "i lost my
card" with "forgot my pin" (a cosine of 0.56)."""

MOST = 2000
"""Maximum number of different questions that are grouped, those asked most often and latest: each pair takes time."""

SWEEPS = 3
"""Maximum number of times that all of them may move."""

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
    asked: int = 1  # number of times; or how many said that the answer did not help


@dataclass(frozen=True)
class GroupedQuestion:
    """A question of a group, and the entry that it is most like, if that was looked up."""

    text: str
    asked: int = 1  # number of times, in nearly equal words
    is_sure: bool = True  # similar enough to the most typical one to be taken with it unasked
    entry: str = ""  # id of the entry
    nearest: str = ""  # its stored question, or the beginning of its text
    score: float | None = None  # the entry's score for the question
    probability: float | None = None  # the same if it is one, as of a calibrated search

    @property
    def is_likely(self) -> bool:
        """Whether the question may be about this entry; also where nobody knows the probability."""
        return self.probability is None or self.probability >= LIKELY


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
        """How often the questions were asked."""
        return sum(question.asked for question in self.questions)

    @property
    def is_near(self) -> bool:
        """Whether the entry nearest to the most typical question is likely enough to be offered first."""
        return (self.first.probability or 0.0) >= NEAR

    def is_elsewhere(self, question: GroupedQuestion) -> bool:
        """Whether a question's nearest entry is another than that of the most typical question.

        It counts only if one of the two entries is likely enough.
        """
        if not question.entry or question.entry == self.first.entry:
            return False
        return question.is_likely or self.first.is_likely

    def takes(self, question: GroupedQuestion) -> bool:
        """Whether a question goes with the most typical one unless somebody objects."""
        return question is self.first or (question.is_sure and not self.is_elsewhere(question))


def only_with(gaps: Iterable[Gap], texts: Container[str]) -> list[Gap]:
    """The groups with only those of their questions that are among these texts; none that would be empty."""
    remaining_gaps = []
    for gap in gaps:
        questions = tuple(question for question in gap.questions if question.text in texts)
        if questions:
            remaining_gaps.append(Gap(questions))
    return remaining_gaps


def count(questions: Sequence[Unanswered]) -> dict[str, int]:
    """Question -> how often it was asked: the `MOST` asked most often, of equals the latest first.

    The questions come oldest first. Whoever says that an answer did not help has asked already, and counts once.
    """
    times: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    for question in reversed(questions):
        if question.answer:
            refusals[question.text] = max(refusals[question.text], question.asked)
            times.setdefault(question.text, 0)  # in its place, among those asked as often
        else:
            times[question.text] += question.asked
    for text, n_refusals in refusals.items():
        times[text] = max(times[text], n_refusals)
    return dict(times.most_common(MOST))


def group(
    questions: Sequence[Unanswered],
    embed: Embed | None,
    faq_questions: Sequence[str] = (),
    bound: float = BOUND,
    *,
    language: str | None = None,
) -> list[Gap]:
    """Group questions, oldest first, by meaning: the group that was asked most often first.

    Of questions that are nearly equal, one stands for all; without `embed`, nothing else is grouped. `faq_questions`
    are those that the FAQ knows; `language` is that of a stemmer, as for `read_words`.
    """
    distinct = _count_copies_together(count(questions))
    texts = list(distinct)
    counts = np.array(list(distinct.values()))
    groups: Iterable[list[tuple[int, bool]]] = [[(row, True)] for row in range(len(texts))]
    if embed is not None and len(texts) > 1:
        similar, cosines = similarities(texts, embed, faq_questions=faq_questions, language=language)
        groups = _groups(similar, cosines, counts=counts, bound=bound)
    gaps = []
    for members in groups:
        grouped = [GroupedQuestion(texts[row], int(counts[row]), is_sure=is_sure) for row, is_sure in members]
        gaps.append(Gap(tuple(grouped)))
    return sorted(gaps, key=lambda gap: (-gap.asked, -len(gap.questions)))


def _count_copies_together(times: Mapping[str, int]) -> dict[str, int]:
    """Question -> how often it and its near copies were asked; of near copies the one asked most often stands for all.

    `times` has how often each question was asked.
    """
    if not times:
        return {}
    copies: defaultdict[int, list[str]] = defaultdict(list)
    for text, group_number in zip(times, near_groups(list(times)).tolist(), strict=True):
        copies[group_number].append(text)
    together = {}
    for texts in copies.values():
        most_frequent = max(texts, key=lambda text: times[text])
        together[most_frequent] = sum(times[text] for text in texts)
    return together


def similarities(
    texts: Sequence[str], embed: Embed, faq_questions: Sequence[str], language: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(N, N) how similar each two of N texts are, as the module's equation says, and (N, N) the cosines in it."""
    by_hash = sorted(faq_questions, key=lambda text: crc32(text.encode()))
    sample = by_hash[:SAMPLE]  # the order by hashes: so the sample hardly changes when the FAQ does
    vectors = np.array(embed(texts), dtype=np.float32)
    crowding = np.full(len(texts), USUAL, dtype=np.float32)  # known(a) of the equation
    if sample:
        faq_vectors = np.array(embed(sample), dtype=np.float32)
        mean = faq_vectors.mean(axis=0)
        vectors = _unit(vectors - mean)
        faq_vectors = _unit(faq_vectors - mean)
        if len(sample) >= FEW:
            n_nearest = min(NEAREST, len(sample) // 100)
            nearest = np.partition(vectors @ faq_vectors.T, -n_nearest, axis=1)[:, -n_nearest:]
            crowding = nearest.mean(axis=1)
    cosines = vectors @ vectors.T
    cosines = (cosines + cosines.T) / 2
    mean_crowding = (crowding[:, None] + crowding) / 2
    words = _shared_words(texts, sample, language=language)
    return cosines - mean_crowding + WORDS * words, cosines


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def _shared_words(texts: Sequence[str], faq_questions: Sequence[str], language: str | None) -> np.ndarray:
    """(N, N) cosines of the words of N texts, weighted by how rare they are in these and the FAQ's questions."""
    from scipy.sparse import csr_array

    bags = [_bag_of_words(text, language) for text in (*texts, *faq_questions)]
    frequency: Counter[Form] = Counter()
    for bag in bags:
        frequency.update(bag)
    column_of = {word: column for column, word in enumerate(frequency)}
    frequencies = np.array(list(frequency.values()))
    rarity = np.log((len(bags) + 1) / (frequencies + 0.5), dtype=np.float32)
    rows: list[int] = []
    columns: list[int] = []
    for row, bag in enumerate(bags[: len(texts)]):
        rows += [row] * len(bag)
        columns += [column_of[word] for word in bag]
    weights = csr_array((rarity[columns], (rows, columns)), shape=(len(texts), len(column_of)))
    lengths = np.sqrt(weights.power(2).sum(axis=1))
    unit = weights.multiply(1 / np.maximum(lengths, 1e-9)[:, None]).tocsr()
    return np.asarray((unit @ unit.T).toarray())


def _bag_of_words(text: str, language: str | None) -> set[Form]:
    return {word[-1] for word in read_words(text, language)}


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
    linked = fcluster(tree, top - bound, "distance")
    group_numbers = _moved(similar, linked, bound=bound)
    for group_number in np.unique(group_numbers):
        rows = np.flatnonzero(group_numbers == group_number)
        typicality = similar[np.ix_(rows, rows)] @ counts[rows]
        typical_first = rows[np.argsort(-typicality, kind="stable")]
        is_sure = cosines[typical_first[0], typical_first] >= SURE
        is_sure[0] = True
        yield list(zip(typical_first.tolist(), is_sure.tolist(), strict=True))


def _moved(similar: np.ndarray, group_numbers: np.ndarray, bound: float) -> np.ndarray:
    """(N,) group numbers after each question went where it fits best, of the groups whose members are all like it."""
    from scipy.sparse import csr_array

    rows = np.arange(len(group_numbers))
    unlike = similar < bound
    np.fill_diagonal(unlike, False)
    similar = similar.copy()
    np.fill_diagonal(similar, 0)  # nobody is compared with itself
    for _ in range(SWEEPS):
        ones = np.ones(len(rows), dtype=np.float32)
        members = csr_array((ones, (rows, group_numbers)))  # (N, groups), of zeros and ones
        n_others = members.sum(axis=0) - members.toarray()
        fits = (n_others > 0) & (unlike @ members == 0)
        means = np.divide(similar @ members, n_others, out=np.full(n_others.shape, -np.inf), where=fits)
        best = means.argmax(axis=1)
        is_better = means[rows, best] > means[rows, group_numbers]
        for row in np.flatnonzero(is_better):
            is_member = group_numbers == best[row]  # the moves before may have changed it
            if is_member.any() and not unlike[row, is_member].any():
                group_numbers[row] = best[row]
    return group_numbers
