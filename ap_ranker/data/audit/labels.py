"""Unknown and contradictory labels, questions of no use for training, and unbalanced classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ap_ranker.data.audit.audited_files import Data, firsts, repeats
from ap_ranker.data.audit.report import ERROR, NOTE, WARNING, Checks, Fault, quote, where
from ap_ranker.data.reader import Layout
from ap_ranker.text.keys import normalized

check = Checks()

RARE, FREQUENT = 0.02, 0.8
"""The classes are unbalanced if the share of right candidates lies outside; public benchmarks lie inside."""

FAVOURITE, ENOUGH = 0.2, 50
"""Maximum share of the questions that one answer should be right for, and the minimum number of questions to say so."""


@check(ERROR, "bad-label", "rows with an unknown label", "correct it")
def _unknown(data: Data) -> Iterator[Fault]:
    for file in data.files:
        known = {row.place for row, _ in file.judgements}
        for row in file.table.rows if file.layout == Layout.judged else ():
            if row.place not in known:
                yield row.place, quote(row.get("label"))


@check(ERROR, "judged-both-ways", "answers judged differently for the same question", "decide which is right")
def _both_ways(data: Data) -> Iterator[Fault]:
    for file in data.files:
        keyed = [
            (f"{normalized(row.get('question'))}\n{normalized(row.get('answer'))}", row, label)
            for row, label in file.judgements
            if row.get("question") and row.get("answer")
        ]
        differing = [pair for pair in repeats(keyed, lambda one: one[0]) if pair[0][2] != pair[1][2]]
        for (_, first, _), (_, row, _) in firsts(differing, lambda pair: pair[0][0]).values():
            yield row.place, f"otherwise at {where(first.place, row.place)}: {quote(row.get('answer'))}"


@check(
    WARNING, "no-right-answer", "questions without a right answer, of no use in training", "add one, unless intended"
)
def _none_right(data: Data) -> Iterator[Fault]:
    for asked in data.asked:
        if asked.layout == Layout.judged and not asked.right:
            yield asked.place, quote(asked.text)


@check(NOTE, "only-right-answers", "questions whose candidates are all right", "add wrong ones")
def _all_right(data: Data) -> Iterator[Fault]:
    for asked in data.asked:
        if asked.layout == Layout.judged and asked.right and not asked.wrong - asked.right:
            yield asked.place, quote(asked.text)


@check(NOTE, "unbalanced", "classes far from balanced", "collect more of what is rare")
def _unbalanced(data: Data) -> Iterator[Fault]:
    for file in data.files:
        place = str(file.table.path)
        asked = [one for one in data.asked if one.split == file.split]
        if file.layout == Layout.judged:
            n = len(file.judgements)
            share = sum(label == file.best for _, label in file.judgements) / max(1, n)
            if n >= ENOUGH and not RARE <= share <= FREQUENT:
                yield place, f"{share:.1%} of {n:,} candidates are right"
        elif len(asked) >= ENOUGH:
            for answer, count in Counter(answer for one in asked for answer in one.right).most_common(1):
                if count > FAVOURITE * len(asked):
                    yield place, f"{quote(answer)} is right for {count / len(asked):.0%}"
