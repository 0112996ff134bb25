"""Sets users' questions aside as dev questions, so that training sees neither them nor near copies of them."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ap_ranker.data.dataset import Dataset, Question
from ap_ranker.errors import InputError
from ap_ranker.text.near import near_groups


def split_questions(dataset: Dataset, share: float, seed: int, *, by_answer: bool = False) -> tuple[Dataset, Dataset]:
    """Set a share of the users' questions aside; equal and near texts stay together.

    Stored questions near one that was set aside are left out of both parts: they would reveal its answer.

    Args:
        dataset: training data.
        share: of the distinct texts of the users' answerable questions, between 0 and 1. Groups of near copies are not
            split, so the result may miss the share by the size of a group.
        seed: same seed, same split.
        by_answer: keep all questions of an answer together, too.

    Returns:
        The remaining questions, and those set aside; both keep all answers.

    Raises:
        InputError: all of the users' answerable questions are near to each other, or there are none.
    """
    groups = near_groups([question.text for question in dataset.questions])
    if by_answer:
        groups = _joined_by_answers(groups, dataset.questions)
    texts: defaultdict[int, set[str]] = defaultdict(set)
    for question, group in zip(dataset.questions, groups, strict=True):
        if question.positives and not question.stored:
            texts[group].add(question.text.casefold())
    if len(texts) < 2:
        raise InputError(
            f"{dataset.name}: expected at least two different questions of users, so that one can be set aside to "
            f"choose the epoch, found {len(texts)} (near copies count as one, stored questions do not count). Add "
            "some, or name a file of dev questions with --dev."
        )
    group_of = {text: group for group, members in texts.items() for text in members}
    order = sorted(group_of)
    random.Random(seed).shuffle(order)
    aside = _fill([group_of[text] for text in order], share)
    kept: list[Question] = []
    held_out: list[Question] = []
    for question, group in zip(dataset.questions, groups, strict=True):
        (held_out if group in aside else kept).append(question)
    users = [question for question in held_out if not question.stored]
    notes = Counter(dataset.notes)
    if len(held_out) > len(users):
        notes["stored questions equal or near to a dev question left out"] = len(held_out) - len(users)
    withheld = dataset.withheld | {question.text for question in held_out}
    return (
        replace(dataset, questions=kept, notes=notes, withheld=withheld),
        replace(dataset, questions=users, notes=Counter()),
    )


def _joined_by_answers(groups: np.ndarray, questions: Sequence[Question]) -> np.ndarray:
    """(N,) the group of each of N questions, once those that share a right answer are joined."""
    links = [(group, row) for group, question in zip(groups, questions, strict=True) for row in question.positives]
    if not links:
        return groups
    left, right = np.array(links).T
    first = groups.max() + 1  # the answers follow the groups
    size = first + right.max() + 1
    graph = sparse.coo_matrix((np.ones(len(links)), (left, first + right)), shape=(size, size))
    return connected_components(graph, directed=False)[1][groups]


def _fill(order: Sequence[int], share: float) -> set[int]:
    """The first groups that fit into the share; the smallest group if none fits."""
    sizes = Counter(order)
    left = min(max(1, round(share * len(order))), len(order) - 1)
    taken: set[int] = set()
    for group in order:
        if group not in taken and sizes[group] <= left:
            taken.add(group)
            left -= sizes[group]
    return taken or {min(order, key=sizes.__getitem__)}
