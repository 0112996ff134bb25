"""Make the tables of FAQs that others wrote from clones of their repositories.

python examples/every_step/prepare_tables.py CLONES DATA

CLONES has a clone of each repository in `public_sources.py`, as CLONES/OWNER/NAME (git clone https://github.com/OWNER/NAME).
DATA gets a folder for each FAQ, with `answers.csv` and, where users' questions are known, `questions.csv`, which are
divided by the rule of `ap-ranker split`: no test question is a near copy of a training question.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer
from public_sources import SOURCES, Pairs, Repository
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.data.split import split_questions
from ap_ranker.files import csv_text, write_text_atomically
from ap_ranker.text.question_keys import question_key

SEED = 1

PER_ANSWER = 25
"""Maximum number of users' questions for an answer: makers of bots write hundreds that hardly differ."""

TEST, TEST_SHARE = 150, 0.3
"""Number of test questions, and the largest share of all that become test questions."""

console = Console(soft_wrap=True)


def command(
    clones: Annotated[Path, typer.Argument(help="A folder with clones of the repositories, as OWNER/NAME.")],
    data: Annotated[Path, typer.Argument(help="A folder for the tables.")],
) -> None:
    """Write the tables of each FAQ."""
    for source in SOURCES:
        pairs = source.read(Repository(clones / source.repository, source.commit))
        answers, questions = entries_of(pairs)
        folder = data / source.name
        folder.mkdir(parents=True, exist_ok=True)
        write_text_atomically(
            folder / "answers.csv",
            csv_text(("aid", "question", "answer"), ((each.id, each.wordings[0], each.answer) for each in answers)),
        )
        counts = ""
        if source.has_questions:
            training, test = divided(Dataset(source.name, answers, questions))
            rows = [("test", question) for question in test] + [("train", question) for question in training]
            write_text_atomically(
                folder / "questions.csv",
                csv_text(
                    ("split", "question", "answer_ids"),
                    (
                        (split, question.text, " ".join(answers[row].id for row in question.positives))
                        for split, question in rows
                    ),
                ),
            )
            counts = f", {len(training)} training and {len(test)} test questions"
        console.print(f"{source.name}: {len(answers)} entries{counts}")


def entries_of(pairs: Pairs) -> tuple[list[Answer], list[Question]]:
    """The entries with their stored question, and users' questions in an order drawn by the seed.

    The stored question is the first that is a question in its form, or else the first; no user asks it word for word.
    """
    asked: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for question, answer in pairs:
        asked[answer].setdefault(question_key(question), question.strip())
    answers = []
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    text_of: dict[str, str] = {}
    draw = random.Random(SEED)
    for row, (answer, questions) in enumerate(asked.items()):
        texts = list(questions.values())
        stored = next((text for text in texts if text.endswith("?")), texts[0])
        answers.append(Answer(str(row), f"{stored}\n{answer}", (stored,), answer))
        keys = [key for key in questions if key != question_key(stored)]
        for key in draw.sample(keys, min(PER_ANSWER, len(keys))):
            rows_of[key].append(row)
            text_of[key] = questions[key]
    keys = list(rows_of)
    draw.shuffle(keys)
    return answers, [Question(key, text_of[key], tuple(rows_of[key])) for key in keys]


def divided(data: Dataset) -> tuple[list[Question], list[Question]]:
    """Training and test questions: none of one is a near copy of one of the other."""
    share = min(TEST / len(data.questions), TEST_SHARE)
    training, test = split_questions(data, share, SEED)
    return list(training.questions), list(test.questions)


if __name__ == "__main__":
    with report_user_errors():
        typer.run(command)
