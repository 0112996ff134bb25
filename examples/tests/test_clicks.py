"""The simulation of honest and hostile visitors, on a few made-up questions."""

from __future__ import annotations

import random
import sys
from types import ModuleType

import pytest
from conftest import ROOT, imported

pytest.importorskip("itsdangerous", reason="the extra serve is not installed")

HERE = ROOT / "examples" / "clicks"


def test_honest_clicks_help_and_hostile_ones_hardly_mislead() -> None:
    with imported(HERE / "run.py") as run:
        drawing = random.Random(0)
        asked = []
        for _ in range(60):
            probabilities = sorted((drawing.random() for _ in range(4)), reverse=True)
            asked.append(
                run.Asked(frozenset({"abcd"[drawing.choice((0, 0, 0, 1, 2))]}), tuple("abcd"), tuple(probabilities))
            )
        found = run.simulate(asked, visitors=60, questions=15, draws=2)
        assert found.without < found.learnt[5] <= found.learnt[3] < found.owner
        assert 0.5 < found.kept(3) < 1
        for (_, plan, _), harms in found.harms.items():
            assert max(harm.misled for harm in harms) <= 2, plan
            assert all(harm.mrr > found.without - 0.01 for harm in harms)
        assert "60 x 15" in run.render({(60, 15): found})


def test_what_visitors_click() -> None:
    with imported(HERE / "run.py") as run:
        asked = [
            run.Asked(frozenset(right), tuple("abc"), (0.9, second, 0.1)) for right in "abz" for second in (0.8, 0.2)
        ]
        assert run.mrr(asked, [one.shown for one in asked]) == pytest.approx((1 + 1 + 0.5 + 0.5) / 6)
        assert {number: vote.answer for number, vote in run.weakest(asked, random.Random(0)).items()} == {
            0: "b",
            1: "b",
        }
        assert next(iter(run.weakest(asked, random.Random(0)))) == 0
        assert {vote.helped for vote in run.contradict(asked, random.Random(0)).values()} == {False}
        clicks = run.honest(asked, random.Random(1), 6)
        assert {number for number, vote in clicks.items() if vote.answer in asked[number].right} <= {0, 1, 2, 3}
        votes = run.votes_on([{number: run.Vote("a", True) for number in range(30)}])
        assert list(votes) == list(range(10, 30))  # the latest of one network


def test_rules_that_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what contradicts three who agreed, so many votes of a network count; all, as `Judgements` counts them."""
    with imported(HERE / "run.py") as run:
        monkeypatch.setitem(sys.modules, "run", run)  # the script beside it, as if it had been started there
        with imported(HERE / "tried.py") as tried:
            check_rules(tried)


def check_rules(tried: ModuleType) -> None:
    right, wrong, no = tried.Vote("a", True), tried.Vote("b", True), tried.Vote("a", False)
    people = [dict.fromkeys(range(4), right) for _ in range(3)]
    hostile = {0: wrong, 1: no, 2: no, 9: wrong}
    assert tried.votes_on([*people, hostile], 20) == {
        0: [right] * 3 + [wrong],
        1: [right] * 3 + [no],
        2: [right] * 3 + [no],
        3: [right] * 3,
        9: [wrong],
    }
    for most in (0, 1, 2):
        found = tried.votes_on([*people, hostile], most)
        assert [len(found[number]) for number in range(4)] == [3, 3 + (most > 1), 3 + (most > 0), 3]
        assert found[9] == [wrong]  # nobody had agreed there
    asked = [tried.Asked(frozenset("a"), ("b", "a"), (0.6, 0.5)) for _ in range(4)]
    votes = tried.votes_on(people, 20)
    assert {order[0] for order in tried.learnt(asked, votes)} == {"a"}
    undone = [tried.undone_by_spreading(asked, votes, total) for total in (0, 2, 4, 8, 80)]
    assert undone[0] == 0
    assert undone[-1] == 4
    assert undone == sorted(undone)
