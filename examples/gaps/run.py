"""Does `ap-ranker owner gaps` find what a FAQ lacks? Questions on topics that the example FAQ has not, among others.

python examples/gaps/run.py            # writes results.md
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console
from sqlalchemy import select

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.tables import read_table
from ap_ranker.data.wordings import read_wordings
from ap_ranker.documents import read_entries
from ap_ranker.files import write_text_atomically
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search.setup import set_up
from ap_ranker.training.calibrate import calibrate
from ap_ranker.training.untrained import write_untrained
from ap_ranker.web.database import open_database
from ap_ranker.web.database import questions as table
from ap_ranker.web.gaps import embedding_of, known_questions, with_nearest
from ap_ranker.web.grouping import BOUND, Gap, GroupedQuestion, Unanswered, group
from ap_ranker.web.question_log import QuestionLog
from haystack_integrations.common.ap_ranker.entries import to_document

HERE = Path(__file__).resolve().parent
FAQ = HERE.parent / "faq"

QUESTIONS = 300
"""Number of logged questions, of which 60 are planted."""

PRECISION = 0.9
"""That the search is calibrated for: what it refuses is decided by this."""

BOUNDS = (-0.35, -0.3, -0.25, -0.2, -0.15, -0.1, -0.05, 0.0)
FIRST = 5

console = Console(soft_wrap=True)


class Logged(NamedTuple):
    """A question that was put to the search, and what came of it."""

    question: str
    outcome: Outcome


@dataclass(frozen=True)
class Found:
    """What was found of the planted topics.

    Attributes:
        topics: number of topics of which one group holds more than half of the refused questions, and little else.
        planted: number of planted topics of which questions were refused.
        strangers: questions in the first `FIRST` groups that the FAQ answers.
        groups: number of groups.
        purity: share of the questions of groups of several whose topic is that of most of their group; the topic of a
            question that the FAQ answers is its entry.
        ticked: share of the questions proposed beside the first one of their group that have its topic.
        proposed: number of these questions.
        offered: number of groups of which the nearest entry is offered before a new one.
        rightly: number of these whose nearest entry answers the first question.
        refused: number of planted questions that were refused.
        wrongly: number of other questions that were refused.
    """

    topics: int
    planted: int
    strangers: int
    groups: int
    purity: float
    ticked: float
    proposed: int
    offered: int
    rightly: int
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


def log_questions(questions: Sequence[str], model: str, place: Path) -> list[Logged]:
    """Put questions to a calibrated search, which logs them as `ap-ranker serve` does."""
    limits = {"precision": PRECISION}
    with set_up(FAQ / "answers.csv", model=model, wordings=[FAQ / "train.csv"], limits=limits) as setup:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        database = open_database(place)
        written = QuestionLog(database)
        for question in questions:
            found, decision = search.answer(question, limits)
            written.add(question, question, decision.outcome, found)
        written.close()
    with database.reading() as connection:
        rows = connection.execute(select(table.c.question, table.c.outcome).order_by(table.c.id))
        return [Logged(question, Outcome(outcome)) for question, outcome in rows]


def log_right_outcomes(questions: Sequence[str], topics: Mapping[str, str]) -> list[Logged]:
    """The log of a search that has no answer to the planted questions, and one to all others."""
    return [Logged(question, Outcome.NONE if question in topics else Outcome.ANSWER) for question in questions]


def read_answered(split: str) -> dict[str, str]:
    """Question -> ids of the entries that answer it, of the questions of a split of the example FAQ."""
    return {row.need("question"): row.get("answer_ids") for row in read_table(FAQ / f"{split}.csv").rows}


def measure(
    gaps: Sequence[Gap],
    topics: Mapping[str, str],
    logged: Sequence[Logged],
    answered: Mapping[str, str] = MappingProxyType({}),
) -> Found:
    """Compare the groups with the planted topics; `answered` are the entries of other questions, as of the groups.

    A topic is found if one group holds more than half of its refused questions, two at least, and these are more than
    half of the group.
    """

    def topic_of(one: GroupedQuestion) -> str:
        return topics.get(one.text) or answered.get(one.text) or one.text

    refused = [one.question for one in logged if one.outcome != Outcome.ANSWER]
    sizes = Counter(topics[question] for question in refused if question in topics)
    found = set()
    for gap in gaps:
        inside = Counter(topics[one.text] for one in gap.questions if one.text in topics)
        found |= {
            topic for topic, count in inside.items() if count > 1 and 2 * count > max(sizes[topic], len(gap.questions))
        }
    several = [gap for gap in gaps if len(gap.questions) > 1]
    most = sum(max(Counter(map(topic_of, gap.questions)).values()) for gap in several)
    proposed = [topic_of(one) == topic_of(gap.first) for gap in gaps for one in gap.questions[1:] if gap.takes(one)]
    offered = [gap.first.entry in answered.get(gap.first.text, "").split() for gap in gaps if gap.is_near]
    return Found(
        topics=len(found),
        planted=len(sizes),
        strangers=sum(one.text not in topics for gap in gaps[:FIRST] for one in gap.questions),
        groups=len(gaps),
        purity=most / max(1, sum(len(gap.questions) for gap in several)),
        ticked=sum(proposed) / max(1, len(proposed)),
        proposed=len(proposed),
        offered=len(offered),
        rightly=sum(offered),
        refused=sum(sizes.values()),
        wrongly=len(refused) - sum(sizes.values()),
    )


def run_split(split: str, model: str, bounds: Sequence[float], folder: Path | None = None) -> dict[float, Found]:
    """Group the refused questions of a split by each bound.

    Args:
        split: `dev` or `test`.
        model: a checkpoint, calibrated if it searches.
        bounds: minimum similarities of two questions of a group.
        folder: where the search's own log goes; `None` for the log of a search that makes no mistakes.
    """
    topics = read_planted(split)
    questions = draw_questions(split, topics)
    if folder is None:
        logged = log_right_outcomes(questions, topics)
    else:
        logged = log_questions(questions, model, folder / f"{split}.db")
    with set_up(FAQ / "answers.csv", model=model, wordings=[FAQ / "train.csv"]) as setup:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        embed, language = embedding_of(search)
        assert embed is not None
        entries = setup.documents.entries if setup.documents else []
        known = known_questions(entries, read_wordings(FAQ / "train.csv"))
        aid = {to_document(entry, setup.match).id: entry.other["aid"] for entry in entries}

        @cache
        def vectors(texts: tuple[str, ...]) -> np.ndarray:
            return embed(texts)

        @cache
        def nearest(text: str) -> GroupedQuestion:
            found = with_nearest(GroupedQuestion(text), search)
            return replace(found, entry=aid.get(found.entry, ""))

        def placed(one: GroupedQuestion) -> GroupedQuestion:
            return replace(nearest(one.text), asked=one.asked, is_sure=one.is_sure)

        unanswered = [Unanswered(one.question) for one in logged if one.outcome != Outcome.ANSWER]
        answered = read_answered(split)
        found = {}
        for each in bounds:
            gaps = group(unanswered, lambda texts: vectors(tuple(texts)), known, each, language=language)
            gaps = [Gap(tuple(map(placed, gap.questions))) for gap in gaps]
            found[each] = measure(gaps, topics, logged, answered)
    return found


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


def render(results: Mapping[str, Mapping[str, Mapping[float, Found]]]) -> str:
    """The table of results in Markdown: log -> split -> bound -> what was found."""
    head = ["log", "questions", "bound", "refused", "topics found", f"strangers in the first {FIRST} groups"]
    head += ["purity", "rightly ticked", "rightly near"]
    text = _row(head) + _row(["---", "---", *["--:"] * (len(head) - 2)])
    for log, splits in results.items():
        for split, by_bound in splits.items():
            for bound, found in by_bound.items():
                refused = f"{found.refused} planted, {found.wrongly} others"
                name = f"**{split}**" if split == "test" else split
                ticked = f"{found.ticked:.2f} of {found.proposed}"
                cells = [refused, f"{found.topics} of {found.planted}", found.strangers, f"{found.purity:.2f}", ticked]
                text += _row([log, name, bound, *cells, f"{found.rightly} of {found.offered}"])
    return text


def command(
    model: Annotated[
        str | None, typer.Option(help="A checkpoint, calibrated for --search; by default an untrained one.")
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Measure with the log of a real search, too, which takes minutes.")
    ] = False,
    output: Annotated[Path, typer.Option(help="The table, in Markdown.")] = HERE / "results.md",
) -> None:
    """Choose the bound on the dev questions, measure on the test questions."""
    with report_user_errors(), tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if model is None:
            checkpoint = folder / "untrained"
            entries = read_entries(FAQ / "answers.csv")
            write_untrained(checkpoint, [entry.text(DEFAULT_MATCH) for entry in entries], "english")
            if search:
                calibrate(checkpoint, FAQ, precisions=[PRECISION])
            model = str(checkpoint)
        results = {
            log: {
                "dev": run_split("dev", model, BOUNDS, place),
                "test": run_split("test", model, [BOUND], place),
            }
            for log, place in (("without mistakes", None), *((("of the search", folder),) if search else ()))
        }
        text = render(results)
        write_text_atomically(output, text)
        console.print(text, markup=False)


if __name__ == "__main__":
    typer.run(command)
