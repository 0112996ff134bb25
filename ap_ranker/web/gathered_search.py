"""Questions that arrive while others are searched are searched together next, which takes less time for each.

Nobody waits for others to come: a question that is alone is searched at once, by the thread that brings it. The others
wait for the questions before them, as they would wait for the processor.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from haystack import Document

from ap_ranker.ranking.cache import TOGETHER
from ap_ranker.ranking.decision import Decision
from ap_ranker.search.declared_pipeline import NO_LIMITS, DeclaredPipeline, Limits

AT_ONCE = 2
"""Number of batches that are searched at once: while one is in Python, another one may multiply."""

Answer: TypeAlias = tuple[list[Document], Decision]


@dataclass(eq=False)
class _Waiting:
    """A question whose thread sleeps until it is answered, or until it is this thread's turn to search."""

    question: str
    limits: Limits
    woken: threading.Event = field(default_factory=threading.Event)
    answer: Answer | Exception | None = None


class GatheredSearch:
    """A search that many threads ask at once; each gets the answer, or the error, that it would get alone."""

    def __init__(self, search: DeclaredPipeline) -> None:
        self._search = search
        self._waiting: deque[_Waiting] = deque()
        self._searching = 0  # threads that search, or are about to
        self._lock = threading.Lock()

    def answer(self, question: str, limits: Limits = NO_LIMITS) -> Answer:
        """As `DeclaredPipeline.answer`."""
        if not self._search.searches_in_memory:
            return self._search.answer(question, limits)
        own = _Waiting(question, limits)
        with self._lock:
            is_turn = self._searching < AT_ONCE
            if is_turn:
                self._searching += 1
            else:
                self._waiting.append(own)
        if not is_turn:
            own.woken.wait()
        if own.answer is None:
            self._answer_together(own)
        assert own.answer is not None
        if isinstance(own.answer, Exception):
            raise own.answer
        return own.answer

    def _answer_together(self, own: _Waiting) -> None:
        """Answer this thread's own question and those that wait; then it is the turn of the next one that came."""
        together = [own]
        with self._lock:
            while self._waiting and self._waiting[0].limits == own.limits and len(together) < TOGETHER:
                together.append(self._waiting.popleft())
        answers: Sequence[Answer | Exception] = [RuntimeError("the search was interrupted")] * len(together)
        try:
            answers = answers_or_errors(self._search, [waiting.question for waiting in together], own.limits)
        finally:
            for waiting, answer in zip(together, answers, strict=True):
                waiting.answer = answer
                waiting.woken.set()
            with self._lock:
                following = self._waiting.popleft() if self._waiting else None
                if following is None:
                    self._searching -= 1
            if following is not None:
                following.woken.set()


def answers_or_errors(search: DeclaredPipeline, questions: Sequence[str], limits: Limits) -> list[Answer | Exception]:
    """The answer to each question, or what is raised of it; that of one question does not reach the others."""
    try:
        return [*search.answer_each(questions, limits)]
    except Exception as error:
        if len(questions) == 1:
            return [error]
    answers: list[Answer | Exception] = []
    for question in questions:
        answers += answers_or_errors(search, [question], limits)
    return answers
