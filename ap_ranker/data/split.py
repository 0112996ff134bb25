"""Sets users' questions aside as dev questions, so that training sees neither them nor near copies of them."""

from __future__ import annotations

import random
from collections import Counter
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
    grouped = list(zip(dataset.questions, groups.tolist(), strict=True))
    group_of = {q.text.casefold(): group for q, group in grouped if q.positives and not q.stored}
    if (found := len(set(group_of.values()))) < 2:
        raise InputError(
            f"{dataset.name}: expected at least two different questions of users, so that one can be set aside to "
            f"choose the epoch, found {found} (near copies count as one, stored questions do not count). Add "
            "some, or name a file of dev questions with --dev."
        )
    order = sorted(group_of)
    random.Random(seed).shuffle(order)
    aside = _fill([group_of[text] for text in order], share)
    kept = [question for question, group in grouped if group not in aside]
    held_out = [question for question, group in grouped if group in aside]
    users = [question for question in held_out if not question.stored]
    left_out = {"stored questions equal or near to a dev question left out": len(held_out) - len(users)}
    withheld = dataset.withheld | {question.text for question in held_out}
    return (
        replace(dataset, questions=kept, notes=dataset.notes + Counter(left_out), withheld=withheld),
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
    for group, size in sizes.items():
        if size <= left:
            taken.add(group)
            left -= size
    return taken or {min(sizes, key=sizes.__getitem__)}
