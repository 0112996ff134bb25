"""Questions, the answers they choose from, and which of them are right."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ap_ranker.errors import InputError


@dataclass(frozen=True)
class Answer:
    """A text that can be ranked.

    Attributes:
        id: its name in the data.
        text: what is matched with a question.
    """

    id: str
    text: str


@dataclass(frozen=True)
class Question:
    """A question and what is known of its answers; answers are positions in `Dataset.answers`.

    Attributes:
        id: its name in the data.
        text: as the user typed it.
        positives: the right answers; none where the data says that there is none.
        candidates: the answers to rank (a pool or the judged answers); `None` means all answers of the data set.
        labels: the class of each candidate, a position in `Dataset.classes`; empty where candidates were not judged.
        stored: an answer's own question, which is learnt from, but which no user asked.
    """

    id: str
    text: str
    positives: tuple[int, ...]
    candidates: tuple[int, ...] | None = None
    labels: tuple[int, ...] = ()
    stored: bool = False

    @property
    def negatives(self) -> tuple[int, ...]:
        """The candidates that are not right."""
        right = set(self.positives)
        return tuple(row for row in self.candidates or () if row not in right)


@dataclass(frozen=True)
class Dataset:
    """Questions and answers of one file or folder.

    Attributes:
        name: where it was read from.
        answers: every answer that a question may be ranked against.
        questions: in the order of the data.
        judged: candidates were judged one by one (their negatives are known to be wrong), not drawn into a pool.
        classes: what candidates were judged to be, from worst to best; only the best counts as a right answer.
        notes: what was left out or merged, and how often.
        withheld: texts of questions that were set aside: nothing near to them may be learnt from as a question.
    """

    name: str
    answers: Sequence[Answer]
    questions: Sequence[Question]
    judged: bool = False
    classes: tuple[str, ...] = ("wrong", "right")
    notes: Counter[str] = field(default_factory=Counter)
    withheld: frozenset[str] = frozenset()

    @property
    def answerable(self) -> list[Question]:
        """The questions that have a right answer."""
        return [question for question in self.questions if question.positives]

    @property
    def pairs(self) -> int:
        """How many (question, right answer) pairs there are."""
        return sum(len(question.positives) for question in self.questions)

    def clean(self) -> Dataset:
        """Without the questions whose candidates are all right, which no order ranks wrongly.

        Their `answerable` ones are the "clean" questions of TREC-QA (Rao, He & Lin 2016). The answers stay, so BM25
        counts the same words; `notes` says how many questions went.
        """
        everything = range(len(self.answers))
        kept = [
            question
            for question in self.questions
            if not question.positives
            or set(everything if question.candidates is None else question.candidates) - set(question.positives)
        ]
        left_out = len(self.questions) - len(kept)
        notes = self.notes + Counter({"questions whose candidates are all right left out": left_out})
        return replace(self, questions=kept, notes=notes)

    def without_pools(self) -> Dataset:
        """Every answer a candidate of every question, as in a search, though the data names pools.

        Raises:
            InputError: candidates were judged one by one, so that other answers are unknown rather than wrong.
        """
        if self.judged:
            raise InputError(
                f"{self.name}: expected questions with pools of shared answers, found candidates judged for each "
                "question: nobody knows which other answers are right, so they cannot be ranked. Leave out --no-pools."
            )
        return replace(self, questions=[replace(question, candidates=None) for question in self.questions])


def sample_questions(dataset: Dataset, size: int, seed: int) -> Dataset:
    """At most `size` of the answerable questions, drawn at random."""
    questions = dataset.answerable
    if len(questions) <= size:
        return replace(dataset, questions=questions)
    return replace(dataset, questions=random.Random(seed).sample(questions, size))
