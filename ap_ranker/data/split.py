"""Questions set aside to choose the epoch by: users' own, of which training sees neither the text nor a near copy."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ap_ranker.data.audit.near import near_groups
from ap_ranker.data.dataset import Dataset
from ap_ranker.errors import InputError


def split_questions(dataset: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """Set a share of the users' questions aside, so that texts that are the same or nearly so stand on one side.

    A stored question that is near to one that was set aside goes, too: it would tell the answer.

    Args:
        dataset: what was read for training.
        share: of the different texts of the users' answerable questions, between 0 and 1. A group of near copies is
            not parted, so it may be missed by as many.
        seed: same seed, same split.

    Returns:
        What remains, and what was set aside (both keep all the answers).

    Raises:
        InputError: all of the users' answerable questions are near to each other, or there are none.
    """
    groups = near_groups([question.text for question in dataset.questions])
    texts: defaultdict[int, set[str]] = defaultdict(set)
    for question, group in zip(dataset.questions, groups, strict=True):
        if question.positives and not question.stored:
            texts[group].add(question.text.casefold())
    if len(texts) < 2:
        raise InputError(
            f"{dataset.name}: expected at least two different questions of users, so that one can be set aside to "
            f"choose the epoch, found {len(texts)} (near copies count as one, stored questions do not count). Add "
            "some, or name a file of other questions with --dev."
        )
    group_of = {text: group for group, each in texts.items() for text in each}
    order = sorted(group_of)
    random.Random(seed).shuffle(order)
    aside = _fill([group_of[text] for text in order], share)
    kept = [question for question, group in zip(dataset.questions, groups, strict=True) if group not in aside]
    held = [question for question, group in zip(dataset.questions, groups, strict=True) if group in aside]
    users = [question for question in held if not question.stored]
    notes = Counter(dataset.notes)
    if len(held) > len(users):
        notes["stored questions that are, or nearly, a dev question left out"] = len(held) - len(users)
    withheld = dataset.withheld | {question.text for question in held}
    return (
        replace(dataset, questions=kept, notes=notes, withheld=withheld),
        replace(dataset, questions=users, notes=Counter()),
    )


def _fill(order: Sequence[int], share: float) -> set[int]:
    """The first groups of texts that fit into the share; the smallest group if none does."""
    sizes = Counter(order)
    left = min(max(1, round(share * len(order))), len(order) - 1)
    taken: set[int] = set()
    for group in order:
        if group not in taken and sizes[group] <= left:
            taken.add(group)
            left -= sizes[group]
    return taken or {min(order, key=sizes.__getitem__)}
