"""What honest clicks gain with `ap-ranker serve --learn-from-clicks`, and what hostile ones change.

python examples/clicks/run.py --split dev                          # where the constants of web/evidence.py were chosen
python examples/clicks/run.py --output examples/clicks/results.md  # the test questions
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

import typer
from rich.console import Console

from ap_ranker.cli.errors import report_user_errors
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.tables import read_table
from ap_ranker.documents import read_entries
from ap_ranker.files import write_text_atomically
from ap_ranker.search.setup import set_up
from ap_ranker.training.calibrate import calibrate
from ap_ranker.training.untrained import write_untrained
from ap_ranker.web.evidence import Vote, agreement, risen_order
from ap_ranker.web.judgements import MOST_OF_NETWORK

HERE = Path(__file__).resolve().parent
FAQ = HERE.parent / "faq"

QUESTIONS, DRAWS = 200, 20
"""Number of questions that all visitors ask, and of repetitions with others."""

ERROR = 0.1
"""Probability that an honest visitor clicks at another answer than the right one."""

QUORUMS = (3, 5)
HONEST = ((100, 20), (100, 10), (30, 20), (10, 20))
"""Numbers of honest visitors, and of questions that each of them asks."""

HOSTILE = (5, 10, 20)

console = Console(soft_wrap=True)


@dataclass(frozen=True)
class Asked:
    """A question, the ids of its right answers, and those of the answers shown, best first, with probabilities."""

    right: frozenset[str]
    shown: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def helpful(self) -> str | None:
        """The right answer, if it is shown."""
        return next((answer for answer in self.shown if answer in self.right), None)

    @property
    def wrong(self) -> str | None:
        """The best wrong answer."""
        return next((answer for answer in self.shown if answer not in self.right), None)

    @property
    def lead(self) -> float:
        """How much more probable the right answer is than the best wrong one."""
        known = dict(zip(self.shown, self.probabilities, strict=True))
        return known.get(self.helpful or "", 0.0) - known.get(self.wrong or "", 0.0)


Clicks = dict[int, Vote]  # of one visitor: the question's number -> what was said of it, in order
Plan = Callable[[Sequence[Asked], random.Random], Clicks]


def ask(split: str, model: str) -> list[Asked]:
    """What the page shows for each question of a split that the FAQ answers."""
    ids = {row.need("question"): row.need("aid") for row in read_table(FAQ / "answers.csv").rows}
    rows = [row for row in read_table(FAQ / f"{split}.csv").rows if row.get("answerable") != "no"]
    with set_up(FAQ / "answers.csv", model=model) as setup:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        found = [search.run(row.need("question")) for row in rows]
    return [
        Asked(
            frozenset(row.need("answer_ids").split()),
            tuple(ids[document.meta["question"]] for document in documents),
            tuple(document.score or 0.0 for document in documents),
        )
        for row, documents in zip(rows, found, strict=True)
    ]


def questions_of(split: str, model: str | None = None) -> list[Asked]:
    """As `ask`, by default with an untrained checkpoint, calibrated on dev."""
    if model is not None:
        return ask(split, model)
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint = Path(temporary) / "untrained"
        entries = read_entries(FAQ / "answers.csv")
        write_untrained(checkpoint, [entry.text(DEFAULT_MATCH) for entry in entries], "english")
        calibrate(checkpoint, FAQ)
        return ask(split, str(checkpoint))


def honest(asked: Sequence[Asked], drawing: random.Random, questions: int) -> Clicks:
    """The clicks of somebody who asks some questions, and mostly clicks at the right answer, if it is shown."""
    clicks: Clicks = {}
    for number in drawing.sample(range(len(asked)), questions):
        one = asked[number]
        answer = one.helpful
        if drawing.random() < ERROR:
            answer = drawing.choice([other for other in one.shown if other != answer] or [None])
        if answer is not None:
            clicks[number] = Vote(answer, True)
    return clicks


def _wrong_at(numbers: Sequence[int], asked: Sequence[Asked]) -> Clicks:
    return {number: Vote(wrong, True) for number in numbers if (wrong := asked[number].wrong) is not None}


def everywhere(asked: Sequence[Asked], drawing: random.Random) -> Clicks:
    """Wrong answers to all questions, each hostile visitor in another order."""
    return _wrong_at(drawing.sample(range(len(asked)), len(asked)), asked)


def weakest(asked: Sequence[Asked], _: random.Random) -> Clicks:
    """Wrong answers to the questions whose right answer is first by the least lead: the page shows all scores."""
    first = [number for number, one in enumerate(asked) if one.lead > 0]
    return _wrong_at(sorted(first, key=lambda number: asked[number].lead)[:MOST_OF_NETWORK], asked)


def one_target(asked: Sequence[Asked], drawing: random.Random) -> Clicks:
    """The wrong answer to one question."""
    return dict(list(weakest(asked, drawing).items())[:1])


def contradict(asked: Sequence[Asked], _: random.Random) -> Clicks:
    """The right answer did not help, where honest clicks would bring it to the front most easily."""
    behind = [number for number, one in enumerate(asked) if one.helpful is not None and one.lead < 0]
    nearest = sorted(behind, key=lambda number: -asked[number].lead)[:MOST_OF_NETWORK]
    return {number: Vote(asked[number].helpful or "", False) for number in nearest}


PLANS: dict[str, Plan] = {
    "wrong answers everywhere": everywhere,
    "wrong answers where the lead is least": weakest,
    "one question": one_target,
    "against right answers": contradict,
}


def votes_on(visitors: Sequence[Clicks]) -> dict[int, list[Vote]]:
    """The votes on each question that count, as `Judgements` counts them: each visitor has a network alone."""
    votes: dict[int, list[Vote]] = {}
    for clicks in visitors:
        for number, vote in list(clicks.items())[-MOST_OF_NETWORK:]:
            votes.setdefault(number, []).append(vote)
    return votes


def learnt(asked: Sequence[Asked], visitors: Sequence[Clicks], quorum: int) -> list[tuple[str, ...]]:
    """The answers to each question in the order that the page shows them."""
    votes, orders = votes_on(visitors), []
    for number, one in enumerate(asked):
        parts = agreement(votes.get(number, ()), quorum)
        order = risen_order(one.probabilities, [parts.get(answer, 0.0) for answer in one.shown], calibrated=True)
        orders.append(tuple(one.shown[row] for row in order))
    return orders


def accepted(asked: Sequence[Asked], visitors: Sequence[Clicks]) -> list[tuple[str, ...]]:
    """The same once the owner has made wordings of all clicked questions: the answer that was clicked most is first."""
    votes = votes_on(visitors)
    counts = [Counter(vote.answer for vote in votes.get(number, ())) for number in range(len(asked))]
    return [
        tuple(sorted(one.shown, key=lambda answer: -count[answer])) for one, count in zip(asked, counts, strict=True)
    ]


def mrr(asked: Sequence[Asked], orders: Sequence[Sequence[str]]) -> float:
    """The mean reciprocal rank of the first right answer shown."""
    ranks = [
        next((place for place, answer in enumerate(order, 1) if answer in one.right), None)
        for one, order in zip(asked, orders, strict=True)
    ]
    return fmean(0.0 if rank is None else 1 / rank for rank in ranks)


@dataclass(frozen=True)
class Harm:
    """What hostile visitors did to first answers, beside the honest ones' clicks alone.

    Attributes:
        misled: questions with another first answer, which is wrong, and is not the model's first either.
        undone: other questions with another first answer: mostly the model's again.
        mrr: with both.
    """

    misled: int
    undone: int
    mrr: float


def harm(asked: Sequence[Asked], before: Sequence[Sequence[str]], after: Sequence[Sequence[str]]) -> Harm:
    """Compare the answers in the orders without and with hostile visitors."""
    changed = [
        (new[0], one) for one, old, new in zip(asked, before, after, strict=True) if old[:1] != new[:1] and len(new)
    ]
    misled = sum(first not in one.right and first != one.shown[0] for first, one in changed)
    return Harm(misled, len(changed) - misled, mrr(asked, after))


@dataclass(frozen=True)
class Result:
    """Of one number of honest visitors, means over draws.

    Attributes:
        without: MRR without clicks.
        owner: MRR once the owner has accepted all honest clicks.
        learnt: quorum -> MRR.
        harms: (quorum, plan, number of hostile visitors) -> what these did in each draw.
    """

    without: float
    owner: float
    learnt: dict[int, float]
    harms: dict[tuple[int, str, int], list[Harm]]

    def kept(self, quorum: int) -> float:
        """The share of the owner's gain that clicks gain alone."""
        return (self.learnt[quorum] - self.without) / (self.owner - self.without)


def simulate(asked: Sequence[Asked], visitors: int, questions: int, draws: int = DRAWS) -> Result:
    """Honest visitors who ask some questions each, without hostile ones and with some of each plan, who click last."""
    without, owner = [], []
    alone: dict[int, list[float]] = {quorum: [] for quorum in QUORUMS}
    harms: dict[tuple[int, str, int], list[Harm]] = {}
    for draw in range(draws):
        drawing = random.Random(draw)
        drawn = drawing.sample(list(asked), min(QUESTIONS, len(asked)))
        people = [honest(drawn, drawing, questions) for _ in range(visitors)]
        without.append(mrr(drawn, [one.shown for one in drawn]))
        owner.append(mrr(drawn, accepted(drawn, people)))
        for quorum in QUORUMS:
            before = learnt(drawn, people, quorum)
            alone[quorum].append(mrr(drawn, before))
            for name, plan in PLANS.items():
                for count in HOSTILE:
                    after = learnt(drawn, [*people, *(plan(drawn, drawing) for _ in range(count))], quorum)
                    harms.setdefault((quorum, name, count), []).append(harm(drawn, before, after))
    return Result(fmean(without), fmean(owner), {key: fmean(values) for key, values in alone.items()}, harms)


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |\n"


def render(results: Mapping[tuple[int, int], Result]) -> str:
    """The tables in Markdown: (honest visitors, questions of each) -> result."""
    quorums = [f"N = {quorum}" for quorum in QUORUMS]
    text = _row(["honest visitors", "questions of each", "no clicks", "owner accepts all", *quorums])
    text += _row(["--:"] * (4 + len(QUORUMS)))
    for who, result in results.items():
        learnt = [f"{result.learnt[quorum]:.3f} ({result.kept(quorum):.0%} of the gain)" for quorum in QUORUMS]
        text += _row([*who, f"{result.without:.3f}", f"{result.owner:.3f}", *learnt])
    text += "\n" + _row(["honest", "N", "hostile visitors click", *(f"{count} of them" for count in HOSTILE)])
    text += _row(["---", "--:", "---", *["---"] * len(HOSTILE)])
    for (visitors, questions), result in results.items():
        for quorum in QUORUMS:
            for plan in PLANS:
                cells = [_harm_cell(result.harms[quorum, plan, count]) for count in HOSTILE]
                text += _row([f"{visitors} x {questions}", quorum, plan, *cells])
    return text


def _harm_cell(harms: Sequence[Harm]) -> str:
    misled, undone = [one.misled for one in harms], [one.undone for one in harms]
    return (
        f"**{fmean(misled):.1f}** (at most {max(misled)}); {fmean(undone):.1f}; {fmean(one.mrr for one in harms):.3f}"
    )


def command(
    model: Annotated[str | None, typer.Option(help="A calibrated checkpoint; by default an untrained one.")] = None,
    split: Annotated[Literal["dev", "test"], typer.Option(help="Whose questions are asked.")] = "test",
    output: Annotated[Path | None, typer.Option(help="The tables, in Markdown.")] = None,
) -> None:
    """Simulate honest and hostile visitors on the example FAQ's questions."""
    with report_user_errors():
        asked = questions_of(split, model)
        text = render({who: simulate(asked, *who) for who in HONEST})
        if output is not None:
            write_text_atomically(output, text)
        console.print(text, markup=False)


if __name__ == "__main__":
    typer.run(command)
