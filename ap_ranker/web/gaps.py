"""What is missing in a FAQ: the questions that nobody could answer, grouped, with the entry that each is most like."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ap_ranker.data.faq import Entry, Match
from ap_ranker.data.html_cells import as_cell
from ap_ranker.data.wordings import NO_WORDINGS, WordingFiles, Wordings, wordings_of
from ap_ranker.files import csv_text, write_text_atomically
from ap_ranker.kept_results import Latest
from ap_ranker.progress import Progress, untold
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.text.question_keys import question_keys
from ap_ranker.text.reading import bare, normalized
from ap_ranker.web.database import Database
from ap_ranker.web.grouping import MOST, Embed, Gap, GroupedQuestion, Unanswered, group
from ap_ranker.web.judgements import Judgements, Votes
from ap_ranker.web.question_log import clean_question, unanswered_questions

logger = logging.getLogger(__name__)

BATCH = 16
"""Number of questions encoded between two pauses: some 50 ms."""

FIRST = 100
"""Number of questions that are grouped at first; then all."""

PATIENCE = 0.5
"""Seconds that a request waits for new groups before it gets the earlier ones."""

LONGEST_PAUSE = 0.5
"""Maximum seconds between two pieces of work."""

COLUMNS_WRITTEN = ("question", "answer", "wordings", "similar", "asked", "nearest_question", "nearest_score")


def find_unanswered(database: Database) -> list[Unanswered]:
    """The logged questions without an answer, and then those that none helped, seldom and oldest ones first."""
    refused = [Unanswered(text, asked=times) for text, times in unanswered_questions(database, MOST)]
    unhelpful = [_unhelpful(votes) for votes in Judgements(database).unhelpful(MOST)]
    questions = [*reversed(refused), *reversed(unhelpful)]
    return [question for question in questions if bare(question.text)]


def _unhelpful(votes: Votes) -> Unanswered:
    question = clean_question(votes.question)
    return Unanswered(question, normalized(votes.answer), asked=votes.did_not_help)


def still_open(
    unanswered: Iterable[Unanswered], entries: Sequence[Entry], match: Match, wordings: Wordings = NO_WORDINGS
) -> list[Unanswered]:
    """Without the questions that an entry knows by now, word for word.

    A question whose answer did not help stays until this answer is changed or another entry knows the question.
    """
    answers_by_question: defaultdict[str, set[str]] = defaultdict(set)
    answers = [normalized(entry.text(match)) for entry in entries]
    for answer, entry_wordings in zip(answers, wordings_of(entries, answers, wordings), strict=True):
        for wording in entry_wordings:
            for key in question_keys(wording):
                answers_by_question[key].add(answer)
    current_answers = {"", *answers}  # empty: no answer was shown
    open_ = []
    for question in unanswered:
        answers_of_question: set[str] = set()
        for key in question_keys(question.text):
            answers_of_question |= answers_by_question[key]
        other_answers = answers_of_question - {question.answer}
        if not other_answers and question.answer in current_answers:
            open_.append(question)
    return open_


class QuestionVectors:
    """The vectors of questions by the model of a search, each computed once; `pause` is as of `GapFinder`.

    They begin anew when another checkpoint is served: vectors of two models cannot be compared.
    """

    def __init__(
        self,
        search: DeclaredPipeline,
        pause: Callable[[float], None] = lambda seconds: None,
        on_progress: Progress = untold,
    ) -> None:
        self._search = search
        self._pause = pause
        self._on_progress = on_progress
        self._vectors: dict[str, np.ndarray] = {}
        self._model: Latest[tuple[Embed | None, str | None]] = Latest()

    def model(self) -> tuple[Embed | None, str | None]:
        """What embeds questions as the search does now, `None` if it has no vectors; the language of its stemmer."""
        return self._model.get(self._search.version, self._read_model)

    def _read_model(self) -> tuple[Embed | None, str | None]:
        self._vectors = {}
        embed, language = embedding_of(self._search)
        return None if embed is None else partial(self._of, embed), language

    def keep_only(self, texts: Collection[str]) -> None:
        """Forget those of all other texts: of what was deleted, nothing stays in memory either."""
        for text in self._vectors.keys() - texts:
            del self._vectors[text]

    def _of(self, embed: Embed, texts: Sequence[str]) -> np.ndarray:
        """(N, C) the vectors of N texts, computed where there is none yet."""
        new_texts = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        for start in range(0, len(new_texts), BATCH):
            self._on_progress("encoding the questions", start, len(new_texts))
            begun = time.monotonic()
            batch = new_texts[start : start + BATCH]
            self._vectors.update(zip(batch, embed(batch), strict=True))
            self._pause(time.monotonic() - begun)
        self._on_progress("encoding the questions", len(new_texts), len(new_texts))
        return np.stack([self._vectors[text] for text in texts])


Nearest = dict[tuple[str, frozenset[str]], GroupedQuestion]
"""A question, and the answers that did not help it -> the same with the entry that it is most like."""


class GapFinder:
    """Finds groups again and again: a question's vector, and the entry that it is most like, are computed once.

    `pause` is called between two pieces of work with the seconds that the last one took, `on_progress` with the step in
    words, how many questions or groups are done, and their number.
    """

    def __init__(
        self,
        search: DeclaredPipeline,
        pause: Callable[[float], None] = lambda seconds: None,
        on_progress: Progress = untold,
    ) -> None:
        self._search = search
        self._pause = pause
        self._on_progress = on_progress
        self._vectors = QuestionVectors(search, pause, on_progress)
        self._nearest: Nearest = {}
        self._latest_nearest: Latest[Nearest] = Latest()

    def find(
        self,
        unanswered: Sequence[Unanswered],
        faq_questions: Sequence[str],
        most: int | None = None,
        version: object = None,
    ) -> Iterator[list[Gap]]:
        """Yield the `most` first groups of the latest questions, then of all; the questions come oldest first.

        If the `version` of what is searched is another one, the nearest entries are looked up again. An entry whose
        answer did not help any question of a group is not the nearest one of that group.
        """
        self._nearest = self._latest_nearest.get(version, dict)
        self._forget_all_but({question.text for question in unanswered}.union(faq_questions))
        unhelpful: defaultdict[str, set[str]] = defaultdict(set)
        for question in unanswered:
            if question.answer:
                unhelpful[question.text].add(question.answer)
        embed, language = self._vectors.model()
        parts = [unanswered]
        if len(unanswered) > FIRST:
            parts = [unanswered[-FIRST:], unanswered]
        for part in parts:
            gaps = group(part, embed, faq_questions=faq_questions, language=language)
            complete: list[Gap] = []
            for gap in gaps[:most]:
                self._on_progress("looking up groups", len(complete), len(gaps[:most]))
                complete.append(self._with_nearest(gap, unhelpful))
            self._on_progress("looking up groups", len(complete), len(complete))
            yield complete

    def _forget_all_but(self, texts: Collection[str]) -> None:
        self._vectors.keep_only(texts)
        for key in [key for key in self._nearest if key[0] not in texts]:
            del self._nearest[key]

    def _with_nearest(self, gap: Gap, unhelpful: Mapping[str, set[str]]) -> Gap:
        """The group with the nearest entry of each question, looked up where it is not there yet."""
        answers: set[str] = set()
        for question in gap.questions:
            answers |= unhelpful.get(question.text, set())
        questions = []
        for question in gap.questions:
            key = (question.text, frozenset(answers))
            if key not in self._nearest:
                begun = time.monotonic()
                self._nearest[key] = with_nearest(question, self._search, unhelpful=answers)
                self._pause(time.monotonic() - begun)
            nearest = self._nearest[key]
            questions.append(replace(nearest, asked=question.asked, is_sure=question.is_sure))
        return Gap(tuple(questions))


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
        """The groups so far, and whether better ones are on their way.

        For a new `version` of the questions, `work` begins in the thread: it yields groups that become more complete.
        Only one runs at a time: a version that is new meanwhile waits for the next call. What `work` raises is raised
        here, once.
        """
        with self._changed:
            if not self._is_working and version != self._version:
                self._is_working = True
                threading.Thread(target=self._work, args=(version, work), name="gaps", daemon=True).start()
            self._changed.wait_for(lambda: not self._is_working, PATIENCE)
            error = self._error
            self._error = None
            if error is not None:
                raise error
            is_outdated = version != self._version
            return self._groups, is_outdated

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
            self._version = None if error else version
            self._error = error
            self._is_working = False
            self._changed.notify_all()


def with_nearest(
    question: GroupedQuestion, search: DeclaredPipeline, unhelpful: Collection[str] = ()
) -> GroupedQuestion:
    """A question with the entry that it is most like, however low its score, whose text is none of the `unhelpful`."""
    documents, decision = search.answer(question.text)
    for best in documents:
        if unhelpful and normalized(best.content or "") in unhelpful:
            continue
        nearest = str(best.meta.get("question") or best.content or "")
        probability = decision.probability if best is documents[0] else None  # that of the first is decided alone
        return replace(question, entry=best.id, nearest=nearest, score=best.score, probability=probability)
    return question


def embedding_of(search: DeclaredPipeline) -> tuple[Embed | None, str | None]:
    """The vectors of questions by the model of a search, `None` if it has none, and the language of its stemmer."""
    from ap_ranker.ranking.ranker import Ranker

    component = search.ranker()
    if component is None:
        return None, None
    ranker = Ranker.from_pretrained(component.model)  # its weights are those of the pipeline
    if not ranker.has_vectors:
        return None, ranker.bm25_language

    def embed(texts: Sequence[str]) -> np.ndarray:
        return ranker.embed_questions(texts).numpy()

    return embed, ranker.bm25_language


def known_questions(entries: Iterable[Entry], wordings: Wordings = NO_WORDINGS) -> list[str]:
    """The stored questions and wordings of entries, and those of files."""
    questions: dict[str, None] = {}
    for entry in entries:
        questions.update(dict.fromkeys(entry.questions))
    questions.update(dict.fromkeys(wordings.texts()))
    return list(questions)


def open_questions(
    unanswered: Sequence[Unanswered], entries: Sequence[Entry] | None, match: Match, wordings: Iterable[Path] = ()
) -> tuple[list[Unanswered], list[str]]:
    """The questions that are still open, and those that the FAQ and files of further wordings know.

    Without `entries`, nobody knows what is searched now, and all questions are open.
    """
    files = WordingFiles().now(wordings)
    remaining = list(unanswered) if entries is None else still_open(unanswered, entries, match=match, wordings=files)
    return remaining, known_questions(entries or (), files)


def write_gaps(gaps: Collection[Gap], path: Path) -> None:
    """Write groups as rows of a FAQ whose answers are still empty, into a CSV file that only its user can read.

    Of the questions of a group, those that go with the first one (`Gap.takes`) are wordings, all others are `similar`.
    """
    rows = []
    for gap in gaps:
        first = gap.first
        wordings: list[str] = []
        similar: list[str] = []
        for question in gap.questions[1:]:
            column = wordings if gap.takes(question) else similar
            column.append(as_cell(question.text))
        score = "" if first.score is None else f"{first.score:.3f}"
        texts = (as_cell(first.text), "", "\n".join(wordings), "\n".join(similar))
        rows.append((*texts, gap.asked, first.nearest, score))
    write_text_atomically(path, csv_text(COLUMNS_WRITTEN, rows), private=True)
