"""The wrong answers that peers learn from, against orders that are computed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.training import peer_lessons as module
from ap_ranker.training.peer_lessons import Lesson, lessons_of, with_hard_candidates
from ap_ranker.training.wrong_answers import HardAnswers

ANSWERS = [
    "You can return a parcel within thirty days.",
    "you can return a parcel within thirty days",  # a copy of the right one
    "A parcel needs five days to arrive.",
    "Our shop opens at nine.",
    "The battery is charged overnight.",
    "Send a message to our workshop.",
]
QUESTION = "how do I return a parcel"
DATA = Dataset("faq", [Answer(str(n), text) for n, text in enumerate(ANSWERS)], [Question("1", QUESTION, (0,))])


class Compass:
    """Vectors of two dimensions, in the order of the answers: the later ones are nearer to the question."""

    def answers(self, texts: Sequence[str]) -> np.ndarray:
        angles = np.linspace(1.5, 0, len(texts))
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def questions(self, texts: Sequence[str]) -> np.ndarray:
        return np.tile([1.0, 0.0], (len(texts), 1))


def test_words_and_vectors_find_hard_answers_in_turn() -> None:
    hard = HardAnswers(ANSWERS, Compass().answers(ANSWERS))
    # By words 0 and 1 share "return" and 2 "parcel"; by vectors the last ones are nearest.
    assert hard.hardest(QUESTION, np.array([1.0, 0.0])) in ([0, 5, 1, 4, 2, 3], [1, 5, 0, 4, 2, 3])
    assert hard.hardest(QUESTION, np.array([1.0, 0.0]), among=[3, 2, 4]) == [2, 4, 3]


def test_mined_answers_are_no_right_ones_and_no_copies_of_these() -> None:
    (lesson,) = lessons_of(DATA, Compass(), 3)
    assert (lesson.question, lesson.right) == (QUESTION, ANSWERS[0])
    assert lesson.wrong == (ANSWERS[5], ANSWERS[4], ANSWERS[2])
    equal = Question("2", QUESTION.upper(), (5,))  # the same question, whose answer is right, too
    first, second = lessons_of(replace(DATA, questions=[*DATA.questions, equal]), Compass(), 9)
    assert ANSWERS[5] not in first.wrong
    assert ANSWERS[0] not in second.wrong


def test_judged_answers_come_before_mined_ones() -> None:
    """They were judged wrong, however far they are from the question."""
    judged = replace(DATA.questions[0], candidates=(3, 0, 2))
    (lesson,) = lessons_of(replace(DATA, questions=[judged], judged=True), Compass(), 3)
    assert lesson.wrong == (ANSWERS[2], ANSWERS[3], ANSWERS[5])
    (pooled,) = lessons_of(replace(DATA, questions=[judged]), Compass(), 3)  # a pool was not judged
    assert pooled.wrong == (ANSWERS[5], ANSWERS[4], ANSWERS[2])


def test_all_lessons_have_as_many_wrong_answers() -> None:
    both = [Question("1", QUESTION, (0,)), Question("2", "which battery", (1, 2, 3, 4, 5)), Question("3", "none", ())]
    other = replace(DATA.answers[1], text="Lights have to be fixed by hand.")
    data = replace(DATA, answers=[DATA.answers[0], other, *DATA.answers[2:]])
    lessons = lessons_of(replace(data, questions=both), Compass(), 3)
    assert [len(lesson.wrong) for lesson in lessons] == [3] * 6
    assert {lesson.wrong for lesson in lessons[1:]} == {(data.answers[0].text,) * 3}
    assert lessons_of(DATA, Compass(), 0) == [Lesson(QUESTION, ANSWERS[0], ())]


def test_nothing_to_tell_apart() -> None:
    data = replace(DATA, answers=DATA.answers[:2])
    with refused("faq … wrong … right ones alone"):
        lessons_of(data, Compass(), 2)


@pytest.mark.parametrize("pool", [None, (0, 3, 4)])
def test_a_dev_question_keeps_its_hard_candidates(
    pool: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RERANKED", 2)
    question = Question("1", QUESTION, (3,), pool)
    asked = with_hard_candidates(EvaluationSet(replace(DATA, questions=[question])), Compass())
    expected = {(0, 3, 4): {3, 0, 4}, None: {3, 5, *asked.pools[0][1:2]}}[pool]
    assert set(asked.pools[0]) == expected
    assert asked.right[0].sum() == 1
