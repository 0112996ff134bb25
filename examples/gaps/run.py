"""Does `ap-ranker gaps` find what a FAQ lacks? Questions on topics that the example FAQ does not have, among others.

python examples/gaps/run.py            # writes results.md; about five minutes on two cores
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.documents import read_entries
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.question_log import LoggedQuestion, Outcome, read_question_log
from ap_ranker.data.tables import read_table
from ap_ranker.data.wordings import read_wordings
from ap_ranker.files import write_text_atomically
from ap_ranker.serving.gaps import DISTANCE, Gap, embedding_of, find_unanswered, group, known_questions
from ap_ranker.serving.question_log import QuestionLog
from ap_ranker.serving.setup import set_up
from ap_ranker.training.calibrate import calibrate
from ap_ranker.training.untrained import write_untrained

HERE = Path(__file__).resolve().parent
FAQ = HERE.parent / "faq"

QUESTIONS = 300
"""Number of logged questions, of which 60 are planted."""

PRECISION = 0.9
"""That the search is calibrated for: what it refuses is decided by this."""

DISTANCES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85)
FIRST = 5

console = Console(soft_wrap=True)


@dataclass(frozen=True)
class Found:
    """What was found of the planted topics.

    Attributes:
        topics: number of planted topics of which one group holds more than half, and little else.
        planted: number of planted topics.
        strangers: questions in the first `FIRST` groups that the FAQ answers.
        groups: number of groups.
        refused: number of planted questions that the search refused.
        wrongly: number of other questions that it refused.
    """

    topics: int
    planted: int
    strangers: int
    groups: int
    refused: int
    wrongly: int


def read_planted(split: str) -> dict[str, str]:
    """Question -> topic, of the planted questions of `dev` or `test`."""
    return {row.need("question"): row.need("topic") for row in read_table(HERE / f"planted_{split}.csv").rows}


def draw_questions(split: str, planted: Collection[str], seed: int = 1) -> list[str]:
    """The planted questions among others of the example FAQ that it answers, in random order."""
    rows = read_table(FAQ / f"{split}.csv").rows
    answered = [row.need("question") for row in rows if row.get("answerable") != "no"]
    drawing = random.Random(seed)
    questions = [*planted, *drawing.sample(answered, QUESTIONS - len(planted))]
    drawing.shuffle(questions)
    return questions


def log_questions(questions: Sequence[str], model: str, log: Path) -> list[LoggedQuestion]:
    """Put questions to a calibrated search, which logs them as `ap-ranker serve` does."""
    limits = {"precision": PRECISION}
    with set_up(FAQ / "answers.csv", model=model, wordings=[FAQ / "train.csv"], limits=limits) as setup:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        written = QuestionLog(log, search.run)
        for question in questions:
            written.add(question, search.run(question, limits))
        written.close()
    return read_question_log(log)


def measure(gaps: Sequence[Gap], topics: Mapping[str, str], logged: Sequence[LoggedQuestion]) -> Found:
    """Compare the groups with the planted topics.

    A topic is found if one group holds more than half of its questions, and these are more than half of the group.
    """
    found = set()
    for gap in gaps:
        inside = [topics.get(question) for question in gap.questions]
        for topic in {topic for topic in inside if topic is not None}:
            size = sum(other == topic for other in topics.values())
            if 2 * inside.count(topic) > max(size, len(inside)):
                found.add(topic)
    refused = [one.question for one in logged if one.outcome != Outcome.answered]
    return Found(
        topics=len(found),
        planted=len(set(topics.values())),
        strangers=sum(question not in topics for gap in gaps[:FIRST] for question in gap.questions),
        groups=len(gaps),
        refused=sum(question in topics for question in refused),
        wrongly=sum(question not in topics for question in refused),
    )


def run_split(split: str, model: str, distances: Sequence[float], folder: Path) -> dict[float, Found]:
    """Log the questions of a split once, and group them up to each distance."""
    topics = read_planted(split)
    logged = log_questions(draw_questions(split, topics), model, folder / f"{split}.jsonl")
    with set_up(FAQ / "answers.csv", model=model) as setup:
        embed = embedding_of(setup.load()[0])
        assert embed is not None
        entries = setup.documents.entries if setup.documents else []
    known = known_questions(entries, [read_wordings(FAQ / "train.csv")])

    @cache
    def vectors(texts: tuple[str, ...]) -> np.ndarray:
        return embed(texts)

    unanswered = find_unanswered(logged)
    found = {}
    for each in distances:
        gaps = group(unanswered, lambda texts: vectors(tuple(texts)), known, each)
        found[each] = measure(gaps, topics, logged)
    return found


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


def render(dev: Mapping[float, Found], test: Found) -> str:
    """The table of results in Markdown."""
    head = (
        "questions",
        "maximum distance",
        "topics found",
        f"answered questions in the first {FIRST} groups",
        "groups",
    )
    text = _row(head) + _row(["---", *["--:"] * (len(head) - 1)])
    for name, distance, found in (*(("dev", *pair) for pair in dev.items()), ("**test**", DISTANCE, test)):
        text += _row([name, distance, f"{found.topics} of {found.planted}", found.strangers, found.groups])
    return text + (
        f"\nAt precision {PRECISION} the search refused {test.refused} of the 60 planted test questions, and "
        f"{test.wrongly} of the {QUESTIONS - 60} others.\n"
    )


def command(
    model: Annotated[
        str | None, typer.Option(help="A calibrated checkpoint; by default an untrained one, calibrated on dev.csv.")
    ] = None,
    output: Annotated[Path, typer.Option(help="The table, in Markdown.")] = HERE / "results.md",
) -> None:
    """Choose the distance on the dev questions, measure on the test questions."""
    with report_user_errors(), tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if model is None:
            checkpoint = folder / "untrained"
            entries = read_entries(FAQ / "answers.csv")
            write_untrained(checkpoint, [entry.text(DEFAULT_MATCH) for entry in entries], "english")
            calibrate(checkpoint, FAQ, precisions=[PRECISION])
            model = str(checkpoint)
        dev = run_split("dev", model, DISTANCES, folder)
        test = run_split("test", model, [DISTANCE], folder)[DISTANCE]
        text = render(dev, test)
        write_text_atomically(output, text)
        console.print(text, markup=False)


if __name__ == "__main__":
    typer.run(command)
