"""Questions, their candidate answers, and which of these are right."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ap_ranker.errors import InputError


@dataclass(frozen=True)
class Answer:
    """A text to rank, with `wordings`: other questions that are known to ask for it, each of which finds it, too.

    `answer` is the answer alone, where the text is another; empty where the wordings tell it from the text.
    """

    id: str
    text: str
    wordings: tuple[str, ...] = ()
    answer: str = field(default="", compare=False)

    @property
    def parts(self) -> tuple[str, str]:
        """The text and the answer alone: answers that are equal in both are copies."""
        return self.text, self.answer or without_question(self.text, self.wordings)


def without_question(text: str, wordings: Sequence[str]) -> str:
    """A text to match without the stored question above its answer, the first of the wordings."""
    if wordings:
        return text.removeprefix(f"{wordings[0]}\n")
    return text


@dataclass(frozen=True)
class Question:
    """A question and its known answers; answers are positions in `Dataset.answers`."""

    id: str
    text: str
    positives: tuple[int, ...]  # the right answers; empty if the data says that there is none
    candidates: tuple[int, ...] | None = None  # the answers to rank (a pool or the judged answers); `None` for all
    labels: tuple[int, ...] = ()  # the class of each candidate, a position in `Dataset.classes`; empty if not judged
    stored: bool = False  # whether it is an answer's stored question, which is learnt from, but no user has asked it

    @property
    def negatives(self) -> tuple[int, ...]:
        """The candidates that are not right."""
        return tuple(row for row in self.candidates or () if row not in self.positives)


@dataclass(frozen=True)
class Dataset:
    """Questions and answers of one file or folder.

    Attributes:
        name: where it was read from.
        answers: every answer that a question may be ranked against.
        questions: in the order of the data.
        judged: whether candidates were judged one by one (so negatives are known to be wrong), not drawn into a pool.
        classes: the labels of judged candidates, from worst to best; only the best counts as a right answer.
        notes: reason -> number of rows left out or merged.
        withheld: texts of questions that were set aside; no question near them may be learnt from.
        answers_file: the file of all answers, the FAQ; empty for judged candidates.
        has_feedback: whether some questions are visitors' feedback, of which nothing may be kept beyond a run.
    """

    name: str
    answers: Sequence[Answer]
    questions: Sequence[Question]
    judged: bool = False
    classes: tuple[str, ...] = ("wrong", "right")
    notes: Counter[str] = field(default_factory=Counter)
    withheld: frozenset[str] = frozenset()
    answers_file: str = ""
    has_feedback: bool = False

    @property
    def digest(self) -> str:
        """A hash of all that a run learns from or is measured on."""
        texts = repr((self.answers, self.questions, self.judged, self.classes))
        return hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def own_answers(self) -> bool:
        """Whether the answers are only those of the questions' own file: a search may have more to choose from."""
        return self.answers_file != "" and self.answers_file == self.name

    @property
    def question_texts(self) -> list[str]:
        """The texts of all questions."""
        return [question.text for question in self.questions]

    @property
    def answer_texts(self) -> list[str]:
        """The texts of all answers."""
        return [answer.text for answer in self.answers]

    @property
    def wordings(self) -> set[str]:
        """The known wordings of all answers."""
        wordings: set[str] = set()
        for answer in self.answers:
            wordings.update(answer.wordings)
        return wordings

    @property
    def answerable(self) -> list[Question]:
        """The questions that have a right answer."""
        return [question for question in self.questions if question.positives]

    @property
    def pairs(self) -> int:
        """Number of (question, right answer) pairs."""
        return sum(len(question.positives) for question in self.questions)

    @property
    def questions_per_answer(self) -> float:
        """Mean number of questions of an answer, over the answers that are right for any; 0 without questions."""
        right_rows: set[int] = set()
        for question in self.questions:
            right_rows.update(question.positives)
        return self.pairs / max(1, len(right_rows))

    def require_shared_answers(self, advice: str) -> None:
        """Refuse (InputError) candidates that were judged for each question: other answers are unknown, not wrong."""
        if self.judged:
            raise judged_for_each_question(self.name, advice)


def judged_for_each_question(name: str, advice: str) -> InputError:
    """The error for judged candidates where all questions must share their answers."""
    return InputError(
        f"{name}: expected answers that all questions share, found candidates judged for each question; "
        f"others are unknown, not wrong. {advice}"
    )


def answerable(dataset: Dataset) -> list[Question]:
    """The questions that have a right answer; raises `InputError` if there are none."""
    questions = dataset.answerable
    if questions:
        return questions
    best = "1"
    if len(dataset.classes) > 2:
        best = dataset.classes[-1]
    advice = "as none names an answer. Name right ones in answer_ids, without answerable: no."
    if dataset.judged:
        advice = f"as no label is {best}. Label the right answers {best}, or check which column holds the labels."
    total = f"{len(dataset.questions):,}"
    raise InputError(f"{dataset.name}: expected questions with a right answer, found none among {total}, {advice}")


def sample_questions(dataset: Dataset, size: int, seed: int) -> Dataset:
    """Draw at most `size` of the answerable questions at random."""
    questions = dataset.answerable
    drawn = questions if len(questions) <= size else random.Random(seed).sample(questions, size)
    return replace(dataset, questions=drawn)


MOST_QUESTIONS = 200
"""Number of wordings that are asked: with more, a calibration and the weight of wordings hardly change."""


def leave_one_out(data: Dataset) -> Dataset:
    """The data with a sample of its wordings as questions, those of entries that have another wording left.

    Evaluation takes each question as a new one, so an entry is found by its others. An entry's first wording, its
    stored question, is part of the text that is matched, and is never asked. All entries with a wording are right.
    """
    import numpy as np  # the command line imports this module before it knows what to do

    stored: set[str] = set()
    further: dict[str, None] = {}
    for answer in data.answers:
        stored.update(answer.wordings[:1])
        further.update(dict.fromkeys(answer.wordings[1:]))
    askable = [text for text in further if text not in stored]
    places = np.random.default_rng(0).permutation(len(askable))[:MOST_QUESTIONS]
    rows: dict[str, list[int]] = {}
    for place in np.sort(places):
        rows[askable[place]] = []
    for row, answer in enumerate(data.answers):
        for text in rows.keys() & set(answer.wordings):
            rows[text].append(row)
    questions: list[Question] = []
    for number, (text, right) in enumerate(rows.items()):
        questions.append(Question(str(number), text, tuple(right)))
    return replace(data, questions=questions)


QUESTION_MARKS = ("?", "\uff1f", "\u061f")
"""What ends a question: also in full width and in Arabic."""
