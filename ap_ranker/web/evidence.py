"""What visitors' clicks may change of a ranking, if the owner of a website wants that: a little, where many agree.

For one question, word for word, n networks judged that an answer helped, and m others contradict: that it did not help,
or that another one did. With the quorum N of `--learn-from-clicks N`, the answer's logit rises by r,

    t = max(min(n / 2, FEW), SHARE n)       the contradiction that is too much
    r = RISE min(1, 2 (1 - m / t))          if n >= N and m < t

and answers are shown in the order of the risen logits. Nothing else changes: the decision, which answers are shown,
their scores and what is said of them, and an answer whose logit is higher by RISE stays before. A network has one vote
for a question, and few at a time (`judgements.MOST_OF_NETWORK`). The constants are chosen in
examples/clicks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from haystack import Document
from sqlalchemy import and_, select

from ap_ranker.errors import InputError
from ap_ranker.web.database import Database, Dispensable, judgements, wordings
from ap_ranker.web.judgements import key_of_answer, key_of_question
from ap_ranker.web.presentation import are_known

LEAST_QUORUM = 3
"""Minimum number of networks that must agree: fewer are easily one person."""

RISE = 3.0
"""Maximum rise of an answer, in logits of its probability: from .3 it may pass one of .89."""

SPREAD = 0.5
"""Maximum rise if scores are no probabilities, as a share of the difference between the highest and the lowest one."""

FEW = 3
"""So many networks that contradict are too many, unless they are less than `SHARE` of those that agree: else many
hostile networks would outweigh the few honest ones that most questions have."""

SHARE = 1 / 6
"""Of many networks that agree, so large a share must contradict to be too many."""

MOST_VOTES = 200
"""Number of votes on a question, the latest ones, that are looked at."""


class Vote(NamedTuple):
    """What one network said of an answer to a question."""

    answer: str
    helped: bool


def agreement(votes: Sequence[Vote], quorum: int) -> dict[str, float]:
    """Answer -> the part of the maximum rise, 0 to 1, that the votes on a question give it; others have none."""
    helped = Counter(vote.answer for vote in votes if vote.helped)
    did_not = Counter(vote.answer for vote in votes if not vote.helped)
    parts = {}
    for answer, agree in helped.items():
        contradict = helped.total() - agree + did_not[answer]
        too_many = max(min(agree / 2, FEW), SHARE * agree)
        if agree >= quorum and contradict < too_many:
            parts[answer] = min(1.0, 2 * (1 - contradict / too_many))
    return parts


def risen_order(scores: Sequence[float], parts: Sequence[float], *, calibrated: bool) -> list[int]:
    """The positions of N answers, best first, once each has risen by its part, 0 to 1, of the maximum rise.

    The scores are probabilities if they are `calibrated`. Equal answers keep their order.
    """
    values = np.asarray(scores, dtype=np.float64)
    if calibrated:
        values = np.clip(values, 1e-9, 1 - 1e-9)
        values = np.log(values / (1 - values))
    most = RISE if calibrated else SPREAD * float(np.ptp(values))
    return np.argsort(-(values + most * np.asarray(parts)), kind="stable").tolist()


class Evidence:
    """Orders found answers by what visitors of a website agree on. Threads may share it."""

    def __init__(self, database: Database, quorum: int) -> None:
        if quorum < LEAST_QUORUM:
            raise InputError(f"Expected --learn-from-clicks with 0 or at least {LEAST_QUORUM}, found {quorum}.")
        self._database = database
        self._quorum = quorum
        self._clicks = Dispensable("Answers are not ordered by clicks.")

    def ordered(self, question: str, documents: list[Document], *, calibrated: bool) -> list[Document]:
        """The documents, best first; as they are if the first one has this question, or if there is no evidence."""
        if len(documents) < 2 or any(are_known(question, documents[:1])):
            return documents
        parts = self._clicks.ask(self._agreement, question) or {}
        scores = [document.score for document in documents if document.score is not None]
        if not parts or len(scores) < len(documents):
            return documents
        answer_keys = [key_of_answer(document.content or "") for document in documents]
        document_parts = [parts.get(answer_key, 0.0) for answer_key in answer_keys]
        order = risen_order(scores, document_parts, calibrated=calibrated)
        return [documents[row] for row in order]

    def _agreement(self, question: str) -> Mapping[str, float]:
        """As `agreement`, of the answers' keys, without those that the owner has rejected."""
        is_decided = and_(
            judgements.c.question_key == wordings.c.question_key, judgements.c.answer_key == wordings.c.answer_key
        )
        query = (
            select(judgements.c.answer_key, judgements.c.helped, wordings.c.state)
            .select_from(judgements.outerjoin(wordings, is_decided))
            .where(judgements.c.question_key == key_of_question(question), judgements.c.counts)
            .order_by(judgements.c.id.desc())
            .limit(MOST_VOTES)
        )
        votes = []
        rejected = set()
        with self._database.reading() as connection:
            for answer_key, helped, state in connection.execute(query):
                votes.append(Vote(answer_key, helped))
                if state == "rejected":
                    rejected.add(answer_key)
        parts = agreement(votes, self._quorum)
        return {answer_key: part for answer_key, part in parts.items() if answer_key not in rejected}
