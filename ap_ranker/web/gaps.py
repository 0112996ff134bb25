"""What is missing in a FAQ: the questions that nobody could answer, grouped, with the entry that each is most like."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import numpy as np

from ap_ranker.data.faq import Entry, Match
from ap_ranker.data.html_cells import as_cell
from ap_ranker.data.wordings import Wordings, read_wordings, wordings_of
from ap_ranker.files import csv_text, write_text_atomically
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.text.reading import bare, normalized, question_key
from ap_ranker.web.database import Database
from ap_ranker.web.grouping import MOST, Embed, Gap, GroupedQuestion, Unanswered, group
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.question_log import clean_question, unanswered_questions
from ap_ranker.web.suggestions import texts_of

logger = logging.getLogger(__name__)

BATCH = 16
"""Number of questions encoded between two pauses: some 50 ms."""

FIRST = 100
"""Number of questions that are grouped at first; then all."""

PATIENCE, LONGEST_PAUSE = 0.5, 0.5
"""Seconds that a request waits for new groups before it gets those that are there; and between two pieces of work."""

COLUMNS_WRITTEN = ("question", "answer", "wordings", "similar", "asked", "nearest_question", "nearest_score")


def find_unanswered(database: Database) -> list[Unanswered]:
    """The logged questions without an answer, and then those that none helped, seldom and oldest ones first."""
    refused = [Unanswered(text, asked=asked) for text, asked in unanswered_questions(database, MOST)]
    unhelpful = [
        Unanswered(clean_question(votes.question), normalized(votes.answer), votes.did_not_help)
        for votes in Judgements(database).unhelpful(MOST)
    ]
    return [one for one in [*reversed(refused), *reversed(unhelpful)] if bare(one.text)]


def still_open(
    unanswered: Iterable[Unanswered], entries: Sequence[Entry], match: Match, wordings: Sequence[Wordings] = ()
) -> list[Unanswered]:
    """Without the questions that an entry knows by now, word for word.

    A question whose answer did not help stays until this answer is changed or another entry knows the question.
    """
    knowing: defaultdict[str, set[str]] = defaultdict(set)
    texts = [normalized(entry.text(match)) for entry in entries]
    for text, known in zip(texts, wordings_of(entries, texts, wordings), strict=True):
        for wording in known:
            knowing[question_key(wording)].add(text)
    answers = set(texts)
    return [
        one
        for one in unanswered
        if not knowing[question_key(one.text)] - {one.answer} and (not one.answer or one.answer in answers)
    ]


class GapFinder:
    """Finds groups again and again: a question's vector, and the entry that it is most like, are computed once.

    `pause` is called between two pieces of work with the seconds that the last one took.
    """

    def __init__(self, search: DeclaredPipeline, pause: Callable[[float], None] = lambda seconds: None) -> None:
        self._search, self._pause = search, pause
        self._vectors: dict[str, np.ndarray] = {}
        self._nearest: dict[str, GroupedQuestion] = {}
        self._version: object = None

    def find(
        self, unanswered: Sequence[Unanswered], known: Sequence[str], most: int | None = None, version: object = None
    ) -> Iterator[list[Gap]]:
        """The `most` first groups of questions, oldest first: of the latest ones, then of all.

        Of another `version` of what is searched, the nearest entries are looked up again.
        """
        if version is None or version != self._version or len(self._nearest) > 2 * MOST:
            self._nearest, self._version = {}, version
        self._forget_all_but({question.text for question in unanswered}.union(known))
        embed, language = self._model
        kept = partial(self._kept_vectors, embed) if embed else None
        for part in [unanswered[-FIRST:], unanswered] if len(unanswered) > FIRST else [unanswered]:
            yield [
                Gap(tuple(map(self._with_nearest, gap.questions)))
                for gap in group(part, kept, known, language=language)[:most]
            ]

    def _forget_all_but(self, texts: Collection[str]) -> None:
        """Keep nothing of what was deleted, in memory either."""
        self._vectors = {text: vector for text, vector in self._vectors.items() if text in texts}
        self._nearest = {text: nearest for text, nearest in self._nearest.items() if text in texts}

    @cached_property
    def _model(self) -> tuple[Embed | None, str | None]:
        return embedding_of(self._search)

    def _kept_vectors(self, embed: Embed, texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        for start in range(0, len(new), BATCH):
            begun, batch = time.monotonic(), new[start : start + BATCH]
            self._vectors.update(zip(batch, embed(batch), strict=True))
            self._pause(time.monotonic() - begun)
        return np.stack([self._vectors[text] for text in texts])

    def _with_nearest(self, one: GroupedQuestion) -> GroupedQuestion:
        if one.text not in self._nearest:
            begun = time.monotonic()
            self._nearest[one.text] = with_nearest(one, self._search)
            self._pause(time.monotonic() - begun)
        return replace(self._nearest[one.text], asked=one.asked, is_sure=one.is_sure)


def pause(seconds: float) -> None:
    """Leave the processor to the search for as long as the last piece of work took."""
    time.sleep(min(seconds, LONGEST_PAUSE))


class BackgroundGroups:
    """The latest groups of a thread that works while there is something new. Threads may share it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._groups: list[Gap] = []
        self._version: object = None  # of the questions that are grouped
        self._error: Exception | None = None
        self._is_working = False

    def latest(self, version: object, work: Callable[[], Iterable[list[Gap]]]) -> tuple[list[Gap], bool]:
        """The groups that are there, and whether better ones are on their way.

        For a new `version` of the questions, `work` begins in the thread: it yields groups that become more complete.
        One at a time; a version that is new meanwhile waits for the next call. What `work` raises is raised here, once.
        """
        with self._changed:
            if not self._is_working and version != self._version:
                self._is_working = True
                threading.Thread(target=self._work, args=(version, work), name="gaps", daemon=True).start()
            self._changed.wait_for(lambda: not self._is_working, PATIENCE)
            error, self._error = self._error, None
            if error is not None:
                raise error
            return self._groups, version != self._version

    def _work(self, version: object, work: Callable[[], Iterable[list[Gap]]]) -> None:
        error = None
        try:
            for groups in work():
                with self._changed:
                    self._groups = groups
        except Exception as raised:
            logger.debug("Questions were not grouped.", exc_info=True)
            error = raised
        with self._changed:
            self._version, self._error = None if error else version, error
            self._is_working = False
            self._changed.notify_all()


def with_nearest(one: GroupedQuestion, search: DeclaredPipeline) -> GroupedQuestion:
    """A question with the entry that it is most like, however low its score."""
    documents, decision = search.answer(one.text)
    if not documents:
        return one
    best = documents[0]
    nearest = str(best.meta.get("question") or best.content or "")
    return replace(one, entry=best.id, nearest=nearest, score=best.score, probability=decision.probability)


def embedding_of(search: DeclaredPipeline) -> tuple[Embed | None, str | None]:
    """The vectors of questions by the model of a search, `None` if it has none, and the language of its stemmer."""
    from ap_ranker.ranking.ranker import Ranker

    if (component := search.ranker()) is None:
        return None, None
    ranker = Ranker.from_pretrained(component.model)  # its weights are those of the pipeline
    embed = (lambda texts: ranker.embed_questions(texts).numpy()) if ranker.has_vectors else None
    return embed, ranker.bm25_language


def known_questions(entries: Iterable[Entry], wordings: Iterable[Wordings] = ()) -> list[str]:
    """The stored questions and wordings of entries, and those of files."""
    texts = (text for entry in entries for text in entry.questions)
    return list(dict.fromkeys(chain(texts, *map(texts_of, wordings))))


def open_questions(
    unanswered: Sequence[Unanswered], entries: Sequence[Entry] | None, match: Match, wordings: Iterable[Path] = ()
) -> tuple[list[Unanswered], list[str]]:
    """The questions that are still open, and those that the FAQ and files of further wordings know.

    Without `entries`, nobody knows what is searched now, and all questions are open.
    """
    files = [read_wordings(file) for file in wordings]
    remaining = list(unanswered) if entries is None else still_open(unanswered, entries, match, files)
    return remaining, known_questions(entries or (), files)


def write_gaps(gaps: Collection[Gap], path: Path) -> None:
    """Write groups as rows of a FAQ whose answers are still empty, into a CSV file that only its user can read.

    Questions that are not surely like the first one, or more like another entry than it is, are `similar`, no wordings.
    """
    rows = []
    for gap in gaps:
        first, *others = gap.questions
        wordings = [as_cell(asked.text) for asked in others if gap.takes(asked)]
        similar = [as_cell(asked.text) for asked in others if not gap.takes(asked)]
        score = "" if first.score is None else f"{first.score:.3f}"
        texts = as_cell(first.text), "", "\n".join(wordings), "\n".join(similar)
        rows.append((*texts, gap.asked, first.nearest, score))
    write_text_atomically(path, csv_text(COLUMNS_WRITTEN, rows), private=True)
