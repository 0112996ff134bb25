"""Unknown and contradictory labels, questions of no use for training, and unbalanced classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ap_ranker.data.audit.original_files import Asked, Data, judgements
from ap_ranker.data.audit.report import Fault, quote, where
from ap_ranker.data.reader import Layout
from ap_ranker.data.tables import Table
from ap_ranker.text.keys import normalized

RARE, FREQUENT = 0.02, 0.8
"""The classes are unbalanced if the share of right candidates lies outside; public benchmarks lie inside."""

FAVOURITE, ENOUGH = 0.2, 50
"""Maximum share of the questions that one answer should be right for, and the minimum number of questions to say so."""


def check(data: Data) -> Iterator[Fault]:
    """Check the labels of judged candidates, and the balance of the classes."""
    for source in data.sources:
        asked = [question for question in data.asked if question.split == source.split]
        if source.layout == Layout.judged:
            yield from _contradictions(source.table)
            yield from _useless(asked)
            yield from _balance(source.table)
        else:
            yield from _favourite(source.table, asked)


def _contradictions(table: Table) -> Iterator[Fault]:
    labelled = judgements(table)
    places = {row.place for row, _, _ in labelled}
    for row in table.rows:
        if row.place not in places:
            yield Fault("bad-label", row.place, quote(row.get("label")))
    first: dict[tuple[str, str], tuple[int, str]] = {}
    reported = set()
    for row, label, _ in labelled:
        key = normalized(row.get("question")), normalized(row.get("answer"))
        first_label, first_place = first.setdefault(key, (label, row.place))
        if first_label != label and key not in reported and all(key):
            reported.add(key)
            details = f"otherwise at {where(first_place, row.place)}: {quote(row.get('answer'))}"
            yield Fault("judged-both-ways", row.place, details)


def _useless(asked: list[Asked]) -> Iterator[Fault]:
    for question in asked:
        if not question.right:
            yield Fault("no-right-answer", question.place, quote(question.text))
        elif not question.wrong - question.right:
            yield Fault("only-right-answers", question.place, quote(question.text))


def _balance(table: Table) -> Iterator[Fault]:
    labelled = judgements(table)
    share = sum(label == best for _, label, best in labelled) / len(labelled) if labelled else 0.0
    if len(labelled) >= ENOUGH and not RARE <= share <= FREQUENT:
        yield Fault("unbalanced", str(table.path), f"{share:.1%} of {len(labelled):,} candidates are right")


def _favourite(table: Table, asked: list[Asked]) -> Iterator[Fault]:
    counts = Counter(answer for question in asked for answer in question.right)
    if len(asked) < ENOUGH or not counts:
        return
    answer, count = counts.most_common(1)[0]
    if count > FAVOURITE * len(asked):
        yield Fault("unbalanced", str(table.path), f"{quote(answer)} is right for {count / len(asked):.0%}")
