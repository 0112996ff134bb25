"""Questions that leak from one split into another, so that a measure asks what training has seen."""

from __future__ import annotations

from collections.abc import Iterator

from ap_ranker.data.audit.near import near_pairs
from ap_ranker.data.audit.report import Fault, quote
from ap_ranker.data.audit.rows import Asked, Data, same
from ap_ranker.data.reader import SPLITS


def check(data: Data) -> Iterator[Fault]:
    """Compare the questions of each split with those of the splits before it: train, dev, test."""
    first: dict[str, dict[str, Asked]] = {}
    for asked in data.asked:
        first.setdefault(same(asked.text), {}).setdefault(asked.split, asked)
    order = {split: place for place, split in enumerate(SPLITS)}
    leaked = set()
    for key, by_split in first.items():
        source, *rest = sorted(by_split.values(), key=lambda asked: order[asked.split])
        for asked in rest:
            leaked.add((key, asked.split))
            yield Fault("leaked-question", asked.place, f"{quote(asked.text)}, {source.split}: {source.place}")
    if len({asked.split for asked in data.asked}) < 2:
        return
    keys = list(first)
    told: set[tuple[str, str]] = set()
    for pair in near_pairs(keys):
        for one, other in ((keys[pair[0]], keys[pair[1]]), (keys[pair[1]], keys[pair[0]])):
            for asked in first[other].values():
                earlier = [each for each in first[one].values() if order[each.split] < order[asked.split]]
                if earlier and (other, asked.split) not in told | leaked:
                    told.add((other, asked.split))
                    source = earlier[0]
                    found = f"{quote(asked.text)}, {source.split}: {quote(source.text)} ({source.place})"
                    yield Fault("near-leaked-question", asked.place, found)
