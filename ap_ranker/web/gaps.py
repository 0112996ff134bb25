"""Finds what is missing in a FAQ: the questions that nobody could answer, grouped by meaning.

Questions that are nearly equal count as one that was asked several times. The others are joined by agglomerative
clustering with average linkage of the cosine distances of their vectors, up to a mean distance of `DISTANCE`. All
questions to a shop for bicycles are about bicycles: what the questions that the FAQ knows have in common, the mean of
their vectors, is subtracted before.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ap_ranker.data.faq import Entry, Match
from ap_ranker.data.wordings import Wordings, read_wordings
from ap_ranker.files import csv_text, write_text_atomically
from ap_ranker.search.declared_pipeline import NO_THRESHOLD
from ap_ranker.text.reading import normalized, question_key
from ap_ranker.web.database import Database
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.question_log import clean_question, unanswered_questions
from ap_ranker.web.suggestions import texts_of

if TYPE_CHECKING:
    from ap_ranker.search.declared_pipeline import DeclaredPipeline

DISTANCE = 0.7
"""Maximum mean cosine distance of two groups that become one; chosen on the dev planting of examples/gaps."""

SAMPLE = 300
"""Number of known questions whose vectors' mean is subtracted."""

MOST = 5000
"""Maximum number of different questions that are grouped, the latest: each pair takes time and memory."""

COLUMNS_WRITTEN = ("question", "answer", "wordings", "asked", "nearest_question", "nearest_score")

Embed = Callable[[Sequence[str]], np.ndarray]
"""B questions -> (B, C) their vectors, of length 1."""

_FORMULA = re.compile(r"^[=+\-@\s]+")
"""What begins a formula in a spreadsheet; a visitor's question must not become one."""


@dataclass(frozen=True)
class Unanswered:
    """A question that was not answered, and the text of an answer that did not help, if one was shown."""

    text: str
    answer: str = ""


@dataclass(frozen=True)
class Gap:
    """A group of questions that mean about the same, and that nobody could answer."""

    questions: tuple[str, ...]  # the most typical one first
    asked: int  # how often they were, or an answer to them did not help
    entry: str = ""  # id of the entry that the first question is most like
    nearest: str = ""  # the stored question of this entry, or the beginning of its text
    score: float | None = None  # its score for the first question


def find_unanswered(database: Database) -> list[Unanswered]:
    """The logged questions without an answer, and then those that none helped, each as often as asked, oldest first."""
    refused = [Unanswered(_plain(text)) for text, asked in unanswered_questions(database, MOST) for _ in range(asked)]
    unhelpful = [
        Unanswered(_plain(clean_question(votes.question)), normalized(votes.answer))
        for votes in Judgements(database).unhelpful(MOST)
        for _ in range(votes.did_not_help)
    ]
    return [one for one in [*reversed(refused), *reversed(unhelpful)] if one.text]


def _plain(question: str) -> str:
    return _FORMULA.sub("", question)


def still_open(
    unanswered: Iterable[Unanswered], entries: Iterable[Entry], match: Match, wordings: Iterable[Wordings] = ()
) -> list[Unanswered]:
    """Without the questions that an entry knows by now, word for word.

    A question whose answer did not help stays until this answer is changed or another entry knows the question.
    """
    knowing: defaultdict[str, set[str]] = defaultdict(set)
    texts, known = set(), list(wordings)
    for entry in entries:
        text = normalized(entry.text(match))
        texts.add(text)
        further = (one for file in known for one in file.of(entry.other.get("aid", ""), text, entry.answer))
        for wording in (entry.question, *entry.wordings, *further):
            knowing[question_key(wording)].add(text)
    return [
        one
        for one in unanswered
        if not knowing[question_key(one.text)] - {one.answer} and (not one.answer or one.answer in texts)
    ]


def group(
    unanswered: Sequence[Unanswered], embed: Embed | None, known: Sequence[str] = (), distance: float = DISTANCE
) -> list[Gap]:
    """Group questions, oldest first, by meaning: the group that was asked most often first.

    Without `embed`, only questions that are nearly equal are grouped; `known` are questions that the FAQ knows.
    """
    from ap_ranker.text.near_copies import near_groups  # takes a second to load

    asked = Counter(one.text for one in reversed(unanswered))
    texts = list(asked)[:MOST]
    if not texts:
        return []
    copies: defaultdict[int, list[str]] = defaultdict(list)
    for text, number in zip(texts, near_groups(texts).tolist(), strict=True):
        copies[number].append(text)
    distinct = [max(same, key=lambda text: asked[text]) for same in copies.values()]
    counts = np.array([sum(asked[text] for text in same) for same in copies.values()])
    if embed is None or len(distinct) == 1:
        groups: Iterable[tuple[list[int], list[int]]] = [([row], [row]) for row in range(len(distinct))]
    else:
        groups = _clusters(_centred(distinct, known, embed), counts, distance)
    gaps = [Gap(tuple(distinct[row] for row in order), int(counts[rows].sum())) for rows, order in groups]
    return sorted(gaps, key=lambda gap: (-gap.asked, -len(gap.questions)))


def _centred(texts: Sequence[str], known: Sequence[str], embed: Embed) -> np.ndarray:
    """(N, C) vectors of N texts without what all known questions have in common, of length 1."""
    vectors = np.asarray(embed(texts), dtype=np.float64)
    if known:
        rows = np.random.default_rng(0).permutation(len(known))[:SAMPLE]
        vectors -= np.asarray(embed([known[row] for row in rows]), dtype=np.float64).mean(axis=0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def _clusters(vectors: np.ndarray, counts: np.ndarray, distance: float) -> Iterator[tuple[list[int], list[int]]]:
    """The rows of each group of (N, C) vectors, and the same with the most typical one of (N,) counts first."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    cosines = np.clip(vectors @ vectors.T, -1, 1)
    distances = 1 - (cosines + cosines.T) / 2
    np.fill_diagonal(distances, 0)
    numbers = fcluster(linkage(squareform(distances, checks=False), "average"), distance, "distance")
    for number in np.unique(numbers):
        rows = np.flatnonzero(numbers == number)
        typical = cosines[np.ix_(rows, rows)] @ counts[rows]
        yield rows.tolist(), rows[np.argsort(-typical, kind="stable")].tolist()


def with_nearest(gap: Gap, search: DeclaredPipeline) -> Gap:
    """A group with the entry that its first question is most like, however low its score."""
    try:
        documents = search.run(gap.questions[0], NO_THRESHOLD, 1)
    except Exception:  # a pipeline of the user's own may have no threshold; components raise any type
        documents = search.run(gap.questions[0], top_k=1)
    if not documents:
        return gap
    best = documents[0]
    return replace(gap, entry=best.id, nearest=str(best.meta.get("question") or best.content or ""), score=best.score)


def embedding_of(search: DeclaredPipeline) -> Embed | None:
    """The vectors of questions by the model of a search; `None` if it has none."""
    from ap_ranker.ranking.ranker import Ranker

    component = search.ranker()
    if component is None:
        return None
    ranker = Ranker.from_pretrained(component.model)  # its weights are those of the pipeline
    return (lambda texts: ranker.embed_questions(texts).numpy()) if ranker.has_vectors else None


def known_questions(entries: Iterable[Entry], wordings: Iterable[Wordings] = ()) -> list[str]:
    """The stored questions and wordings of entries, and those of files."""
    texts = [text for entry in entries for text in (entry.question, *entry.wordings) if text]
    return list(dict.fromkeys([*texts, *(text for file in wordings for text in texts_of(file))]))


def find_gaps(
    unanswered: Sequence[Unanswered],
    search: DeclaredPipeline,
    entries: Sequence[Entry] | None,  # what is searched now; `None` if nobody knows, so that all questions are open
    match: Match,
    wordings: Iterable[Path] = (),  # files of further wordings of the entries
    most: int | None = None,
) -> tuple[int, list[Gap]]:
    """The number of questions that are still open, and groups of them, each with the entry that it is most like."""
    known = [read_wordings(file) for file in wordings]
    remaining = list(unanswered) if entries is None else still_open(unanswered, entries, match, known)
    groups = group(remaining, embedding_of(search), known_questions(entries or (), known))[:most]
    return len(remaining), [with_nearest(gap, search) for gap in groups]


def write_gaps(gaps: Collection[Gap], path: Path) -> None:
    """Write groups as rows of a FAQ whose answers are still empty, into a CSV file."""
    rows = []
    for gap in gaps:
        first, *others = gap.questions
        score = "" if gap.score is None else f"{gap.score:.3f}"
        rows.append((first, "", "\n".join(others), gap.asked, gap.nearest, score))
    write_text_atomically(path, csv_text(COLUMNS_WRITTEN, rows))
