"""Questions that leak from one split into another, so that a model is evaluated on what it was trained on."""

from __future__ import annotations

from collections.abc import Iterator

from ap_ranker.data.audit.original_files import Asked, Data
from ap_ranker.data.audit.report import Fault, quote
from ap_ranker.data.reader import SPLITS
from ap_ranker.text.keys import normalized
from ap_ranker.text.near import near_pairs


def check(data: Data) -> Iterator[Fault]:
    """Compare the questions of each split with those of the splits before it: train, dev, test."""
    first: dict[str, dict[str, Asked]] = {}
    for asked in data.asked:
        first.setdefault(normalized(asked.text), {}).setdefault(asked.split, asked)
    order = {split: i for i, split in enumerate(SPLITS)}
    reported = set()
    for key, by_split in first.items():
        source, *rest = sorted(by_split.values(), key=lambda asked: order[asked.split])
        for asked in rest:
            reported.add((key, asked.split))
            yield Fault("leaked-question", asked.place, f"{quote(asked.text)}, {source.split}: {source.place}")
    if len({asked.split for asked in data.asked}) < 2:
        return
    keys = list(first)
    for i, j in near_pairs(keys):
        for key, near in ((keys[i], keys[j]), (keys[j], keys[i])):
            for asked in first[near].values():
                earlier = [source for source in first[key].values() if order[source.split] < order[asked.split]]
                if earlier and (near, asked.split) not in reported:
                    reported.add((near, asked.split))
                    source = earlier[0]
                    details = f"{quote(asked.text)}, {source.split}: {quote(source.text)} ({source.place})"
                    yield Fault("near-leaked-question", asked.place, details)
