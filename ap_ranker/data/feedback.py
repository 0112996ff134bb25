"""Users' feedback on the answers of a search, as additional questions to learn from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.data.html_cells import shown_text
from ap_ranker.data.reader import read_label
from ap_ranker.data.rows import Row
from ap_ranker.data.tables import read_table
from ap_ranker.text.near_copies import near_any


def add_feedback(training: Dataset, dev: Dataset, path: Path) -> Dataset:
    """Add each question for which users said that one of the training data's answers helped.

    An answer that did not help adds nothing: if another one helped, all others count as wrong anyway. If users
    disagree, the majority decides, and a tie counts as not helped. Dev questions and near copies of them are left out.
    InputError if the file cannot be read, or the data's candidates were judged one by one.
    """
    rows = read_feedback(path)
    training.require_shared_answers(f"Append the lines of {path}, which has the same columns, instead.")
    row_of = {answer.text: i for i, answer in enumerate(training.answers)}
    held_out = near_any({shown_text(row.need("question")) for row in rows}, set(dev.question_texts))
    votes: Counter[tuple[str, int]] = Counter()
    notes: Counter[str] = Counter()
    for row in rows:
        question = shown_text(row.need("question"))
        answer = _judged_answer(row, row_of)
        if answer is None:
            notes["judgements of answers that the data does not have left out"] += 1
        elif question in held_out:
            notes["judgements for dev questions left out"] += 1
        else:
            votes[question, answer] += 1 if read_label(row, training.classes) == 1 else -1
    right: defaultdict[str, list[int]] = defaultdict(list)
    for text, answer in +votes:
        right[text].append(answer)
    notes["questions that users' feedback answers"] = len(right)
    questions: list[Question] = []
    for training_question in training.questions:
        helped = right.pop(training_question.text, [])
        positives = dict.fromkeys((*training_question.positives, *helped))
        questions.append(replace(training_question, positives=tuple(positives)))
    for i, (text, answers) in enumerate(right.items()):  # the questions that are left are new
        questions.append(Question(f"feedback-{i}", text, tuple(answers)))
    return replace(training, questions=questions, notes=training.notes + notes, has_feedback=True)


def _judged_answer(row: Row, row_of: Mapping[str, int]) -> int | None:
    """Which of the answers, by their texts, users judged; `None` if it is none of these."""
    forms = [
        *_forms(shown_text(row.need("answer")), shown_text(row.get("stored_question"))),
        *_forms(row.need("answer"), row.get("stored_question")),  # earlier releases kept texts that look like HTML
    ]
    for text in forms:
        if text in row_of:
            return row_of[text]
    return None


def _forms(answer: str, stored_question: str) -> tuple[str, str]:
    """A judged answer as it was shown, and without its stored question, as data in the layout of pairs has it."""
    return answer, answer.removeprefix(f"{stored_question}\n")


def read_feedback(path: Path) -> list[Row]:
    """The judgements of a feedback file, oldest first; none of a new one, which is empty; errors as `read_table`."""
    if path.is_file() and not path.stat().st_size:
        return []
    table = read_table(path)
    table.require("question", "answer", "label")
    return table.rows
