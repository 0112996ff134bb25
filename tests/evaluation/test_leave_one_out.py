from __future__ import annotations

from ap_ranker.data.dataset import MOST_QUESTIONS, Answer, Dataset, leave_one_out


def test_each_further_wording_is_asked_for_its_entry() -> None:
    wordings = [("stored", "one", "two"), ("only",), (), ("s", "three")]
    answers = [Answer(str(row), f"text {row}", texts) for row, texts in enumerate(wordings)]
    found = leave_one_out(Dataset("faq", answers, []))
    asked = [(question.text, question.positives) for question in found.questions]
    assert asked == [("one", (0,)), ("two", (0,)), ("three", (3,))]
    assert found.answers is answers


def test_of_many_a_sample_is_asked() -> None:
    many = [Answer(str(n), f"text {n}", (f"stored {n}", f"wording {n}")) for n in range(3 * MOST_QUESTIONS)]
    found = leave_one_out(Dataset("faq", many, [])).questions
    assert len({question.text for question in found}) == MOST_QUESTIONS
    assert all(question.text == f"wording {question.positives[0]}" for question in found)


def test_a_wording_of_two_entries_asks_for_both() -> None:
    wordings = [("stored", "shared"), ("other", "shared", "more"), ("more", "own")]
    answers = [Answer(str(row), f"text {row}", texts) for row, texts in enumerate(wordings)]
    found = leave_one_out(Dataset("faq", answers, [])).questions
    assert [(question.text, question.positives) for question in found] == [("shared", (0, 1)), ("own", (2,))]
