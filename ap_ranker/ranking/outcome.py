"""What a question gets. It stands alone, so that whoever counts outcomes loads no model."""

from enum import StrEnum


class Outcome(StrEnum):
    """What a question gets: `ap_ranker.ranking.decision` says when."""

    ANSWER = "answer"
    MAYBE = "maybe"
    NONE = "none"
