"""Faults of labels: unknown ones, contradictions, questions that teach nothing, classes far from balanced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ap_ranker.data.audit.report import Fault, quote, where
from ap_ranker.data.audit.rows import Asked, Data, judgements, same
from ap_ranker.data.reader import Layout
from ap_ranker.data.tables import Table

RARE, FREQUENT = 0.02, 0.8
"""Shares of right candidates beyond which classes are unbalanced; the public benchmarks lie between."""

FAVOURITE, ENOUGH = 0.2, 50
"""A share of the questions that no single answer should be right for, where there are enough questions to tell."""


def check(data: Data) -> Iterator[Fault]:
    """Look at what was judged, and how often each class."""
    for source in data.sources:
        asked = [each for each in data.asked if each.split == source.split]
        if source.layout == Layout.judged:
            yield from _contradictions(source.table)
            yield from _useless(asked)
            yield from _balance(source.table)
        else:
            yield from _favourite(source.table, asked)


def _contradictions(table: Table) -> Iterator[Fault]:
    known = judgements(table)
    places = {row.place for row, _, _ in known}
    for row in table.rows:
        if row.place not in places:
            yield Fault("bad-label", row.place, quote(row.get("label")))
    first: dict[tuple[str, str], tuple[int, str]] = {}
    told = set()
    for row, label, _ in known:
        key = same(row.get("question")), same(row.get("answer"))
        before, place = first.setdefault(key, (label, row.place))
        if before != label and key not in told and all(key):
            told.add(key)
            yield Fault(
                "judged-both-ways", row.place, f"otherwise at {where(place, row.place)}: {quote(row.get('answer'))}"
            )


def _useless(asked: list[Asked]) -> Iterator[Fault]:
    for each in asked:
        if not each.right:
            yield Fault("no-right-answer", each.place, quote(each.text))
        elif not each.wrong - each.right:
            yield Fault("only-right-answers", each.place, quote(each.text))


def _balance(table: Table) -> Iterator[Fault]:
    known = judgements(table)
    share = sum(label == best for _, label, best in known) / len(known) if known else 0.0
    if len(known) >= ENOUGH and not RARE <= share <= FREQUENT:
        yield Fault("unbalanced", str(table.path), f"{share:.1%} of {len(known):,} candidates are right")


def _favourite(table: Table, asked: list[Asked]) -> Iterator[Fault]:
    counts = Counter(answer for each in asked for answer in each.right)
    if len(asked) < ENOUGH or not counts:
        return
    answer, count = counts.most_common(1)[0]
    if count > FAVOURITE * len(asked):
        yield Fault("unbalanced", str(table.path), f"{quote(answer)} is right for {count / len(asked):.0%}")
