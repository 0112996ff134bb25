"""What is left out, and what is ranked, as the papers do."""

from __future__ import annotations

from collections import Counter

from protocols import clean as leave_out
from protocols import without_pools

from ap_ranker.data.dataset import Answer, Dataset, Question

ANSWERS = [Answer(str(number), f"answer {number}") for number in range(3)]


def test_clean_leaves_out_what_no_order_ranks_wrongly() -> None:
    kept = [
        Question("one wrong candidate", "q", (0,), (0, 1)),
        Question("no right one", "q", (), (0, 1)),
        Question("all answers are candidates", "q", (0, 1)),
        Question("the right one is not among them", "q", (0,), (1, 2)),
    ]
    foregone = [
        Question("one, right", "q", (1,), (1,)),
        Question("both right", "q", (2, 0), (0, 2)),
        Question("every answer right", "q", (0, 1, 2)),
    ]
    data = Dataset("d", ANSWERS, [foregone[0], *kept, *foregone[1:]], notes=Counter({"merged": 2}))
    clean = leave_out(data)
    assert clean.questions == kept
    assert clean.answers is data.answers
    assert clean.notes == {"merged": 2, "questions whose candidates are all right left out": 3}
    assert data.notes == {"merged": 2}, "the caller's data stays as it was"
    assert leave_out(clean) == clean


def test_without_pools_every_answer_is_a_candidate() -> None:
    data = Dataset("d", ANSWERS, [Question("1", "q", (0,), (0, 1)), Question("2", "r", (2,))])
    assert without_pools(data).questions == [Question("1", "q", (0,)), Question("2", "r", (2,))]
