"""Rules that let a network contradict less of what others agree on, beside the one that is kept.

python examples/clicks/tried.py   # dev questions, 100 honest visitors of 20 questions each, 20 hostile ones, N = 3
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from run import (
    DRAWS,
    PLANS,
    QUESTIONS,
    Asked,
    Clicks,
    accepted,
    console,
    harm,
    honest,
    mrr,
    questions_of,
)

from ap_ranker.web.evidence import LEAST_QUORUM, Vote, agreement, risen_order
from ap_ranker.web.judgements import MOST_OF_NETWORK

HONEST, OF_EACH, HOSTILE = 100, 20, 20
RULES = {"all contradictions count": MOST_OF_NETWORK, "the last two of a network": 2, "the last one": 1, "none": 0}
"""How many of a network's votes count that contradict what `LEAST_QUORUM` networks agreed on before."""

Votes = Mapping[int, Sequence[Vote]]


def votes_on(visitors: Sequence[Clicks], most: int) -> Votes:
    """The votes on each question that count by one of `RULES`, of visitors in the order of their clicks."""
    votes: defaultdict[int, list[Vote]] = defaultdict(list)
    for clicks in visitors:
        counted: list[tuple[int, Vote, bool]] = []
        for number, vote in list(clicks.items())[-MOST_OF_NETWORK:]:
            helped = Counter(one.answer for one in votes[number] if one.helped)
            known = {answer for answer, count in helped.most_common(1) if count >= LEAST_QUORUM}
            counted.append((number, vote, bool(known) and vote.helped != (vote.answer in known)))
        left = most
        for number, vote, contradicts in reversed(counted):
            if not contradicts or left > 0:
                votes[number].append(vote)
            left -= contradicts
    return votes


def first_of(one: Asked, votes: Sequence[Vote]) -> tuple[str, ...]:
    """The answers to a question, best first."""
    parts = agreement(votes, LEAST_QUORUM)
    order = risen_order(one.probabilities, [parts.get(answer, 0.0) for answer in one.shown], calibrated=True)
    return tuple(one.shown[row] for row in order)


def learnt(asked: Sequence[Asked], votes: Votes) -> list[tuple[str, ...]]:
    """The same for all questions."""
    return [first_of(one, votes.get(number, ())) for number, one in enumerate(asked)]


def undone_by_spreading(asked: Sequence[Asked], votes: Votes, total: int) -> int:
    """How many first answers hostile visitors undo who know all votes, and use each of `total` where it does most."""
    needed = []
    for number, one in enumerate(asked):
        said = list(votes.get(number, ()))
        first = first_of(one, said)[:1]
        for count in range(1, HOSTILE + 1) if first != one.shown[:1] else ():
            if first_of(one, said + count * [Vote(first[0], False)])[:1] != first:
                needed.append(count)
                break
    undone = 0
    for count in sorted(needed):
        total -= count
        undone += total >= 0
    return undone


def main() -> None:
    all_asked = questions_of("dev")
    console.print(
        "| what counts | of the owner's gain | hostile after honest: misled, undone | before: misled, undone | spread |"
    )
    console.print("| --- | --: | --: | --: | --: |")
    for name, most in RULES.items():
        gains, spread = [], []
        harms: dict[str, list[tuple[int, int]]] = {"after": [], "before": []}
        for draw in range(DRAWS):
            drawing = random.Random(draw)
            asked = drawing.sample(all_asked, min(QUESTIONS, len(all_asked)))
            people = [honest(asked, drawing, OF_EACH) for _ in range(HONEST)]
            votes = votes_on(people, most)
            alone, without = learnt(asked, votes), mrr(asked, [one.shown for one in asked])
            gains.append((mrr(asked, alone) - without) / (mrr(asked, accepted(asked, people)) - without))
            spread.append(undone_by_spreading(asked, votes, most * HOSTILE))
            for plan in PLANS.values():
                hostile = [plan(asked, drawing) for _ in range(HOSTILE)]
                for when, visitors in (("after", [*people, *hostile]), ("before", [*hostile, *people])):
                    found = harm(asked, alone, learnt(asked, votes_on(visitors, most)))
                    harms[when].append((found.misled, found.undone))
        cells = [f"{max(a for a, _ in each)}, {max(b for _, b in each)}" for each in harms.values()]
        console.print(f"| {name} | {fmean(gains):.0%} | {cells[0]} | {cells[1]} | {fmean(spread):.1f} |")


if __name__ == "__main__":
    main()
