"""What clicks may change of a ranking: nothing unless the owner wants it, and then a little, where networks agree."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from sqlalchemy import Connection, insert
from starlette.testclient import TestClient

from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import database as database_module
from ap_ranker.web import evidence as module
from ap_ranker.web import judgements as judgements_module
from ap_ranker.web.app import build_app
from ap_ranker.web.database import Database, open_database, wordings
from ap_ranker.web.evidence import RISE, Evidence, Vote, agreement, risen_order
from ap_ranker.web.judgements import Judgements, key_of_answer, key_of_question

from .visiting import QUESTION, FixedSearch, answers, click, judgements_of, visit

votes_of = st.lists(st.builds(Vote, st.sampled_from("abc"), st.booleans()), max_size=40)
probabilities_of = st.lists(st.floats(0.001, 0.999), min_size=2, max_size=6)


@given(votes_of, st.integers(3, 6))
def test_agreement_is_of_many_and_little_contradicted(votes: list[Vote], quorum: int) -> None:
    for answer, part in agreement(votes, quorum).items():
        agree = sum(vote.helped and vote.answer == answer for vote in votes)
        contradict = sum(
            vote.helped != (vote.answer == answer) for vote in votes if vote.helped or vote.answer == answer
        )
        assert 0 < part <= 1
        assert agree >= quorum
        assert agree > 2 * contradict
        assert contradict < 3 or agree > 6 * contradict
    assert len(agreement(votes, quorum)) <= 1  # nobody agrees on two


@given(votes_of, st.sampled_from("abc"))
def test_each_contradiction_weakens_it(votes: list[Vote], answer: str) -> None:
    before = agreement(votes, 3).get(answer, 0.0)
    assert agreement([*votes, Vote(answer, False)], 3).get(answer, 0.0) <= before
    assert agreement([*votes, Vote("another", True)], 3).get(answer, 0.0) <= before
    assert agreement([*votes, Vote(answer, True)], 3).get(answer, 0.0) >= before
    assert agreement([*votes, Vote("another", False)], 3).get(answer, 0.0) == before


@pytest.mark.parametrize(
    ("agree", "contradict", "expected"),
    [(2, 0, 0), (3, 0, 1), (3, 1, 2 / 3), (3, 2, 0), (6, 1, 1), (6, 2, 2 / 3), (6, 3, 0), (17, 3, 0), (36, 3, 1)],
)
def test_some_votes(agree: int, contradict: int, expected: float) -> None:
    votes = [Vote("a", True)] * agree + [Vote("a", False)] * contradict
    assert agreement(votes, 3).get("a", 0) == pytest.approx(expected)


def logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


@given(probabilities_of, st.data())
def test_no_answer_rises_over_a_much_better_one(probabilities: list[float], data: st.DataObject) -> None:
    probabilities.sort(reverse=True)
    parts = data.draw(st.lists(st.floats(0, 1), min_size=len(probabilities), max_size=len(probabilities)))
    order = risen_order(probabilities, parts, calibrated=True)
    assert sorted(order) == list(range(len(probabilities)))
    for place, row in enumerate(order):
        for passed in order[place + 1 :]:
            assert logit(probabilities[passed]) - logit(probabilities[row]) <= RISE * parts[row] + 1e-9
    assert risen_order(probabilities, [0.0] * len(probabilities), calibrated=True) == list(range(len(probabilities)))


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=6), st.data())
def test_scores_that_are_no_probabilities(scores: list[float], data: st.DataObject) -> None:
    scores.sort(reverse=True)
    parts = data.draw(st.lists(st.floats(0, 1), min_size=len(scores), max_size=len(scores)))
    order = risen_order(scores, parts, calibrated=False)
    if order[0] != 0:
        assert scores[0] - scores[order[0]] <= (scores[0] - scores[-1]) / 2 + 1e-9


# From clicks in a database to an order.


@pytest.fixture
def database(place: str) -> Database:
    return open_database(place)


def say(kept: Judgements, row: int, network: str, *, helped: bool = True, name: str = "", question: str = "Q?") -> None:
    kept.keep(
        question=question,
        answer=f"answer {row}",
        stored_question="",
        helped=helped,
        network=network,
        visit=name or network,
    )


def order_of(database: Database, question: str = "Q?", *probabilities: float, **options: Any) -> list[int]:
    documents = FixedSearch(probabilities or (0.5, 0.4, 0.3)).documents
    ordered = Evidence(database, options.get("quorum", 3)).ordered(question, list(documents), calibrated=True)
    assert sorted(document.id for document in ordered) == sorted(document.id for document in documents)
    return [documents.index(document) for document in ordered]


def test_networks_agree_on_a_question_word_for_word(database: Database) -> None:
    kept = Judgements(database)
    for network in ("a", "b", "c"):
        say(kept, 2, network)
    assert order_of(database) == [2, 0, 1]
    assert order_of(database, "  q ") == [2, 0, 1]
    assert order_of(database, "another") == [0, 1, 2]
    assert order_of(database, quorum=4) == [0, 1, 2]
    assert order_of(database, "Q?", 0.99, 0.98, 0.1) == [0, 1, 2]  # much better ones


def test_a_known_question_is_nobody_elses(database: Database) -> None:
    kept = Judgements(database)
    for network in ("a", "b", "c"):
        for row in (0, 1):
            say(kept, 2, network, question=f"stored question {row}")
    assert order_of(database, "Stored QUESTION 0?") == [0, 1, 2]
    assert order_of(database, "stored question 1") == [2, 0, 1]  # the model puts another one first


def test_one_network_has_one_vote(database: Database) -> None:
    kept = Judgements(database)
    for number in range(30):
        say(kept, 2, "a", name=f"visit {number}")
        say(kept, 2, "b", name=f"other visit {number}")
    assert order_of(database) == [0, 1, 2]
    say(kept, 2, "c")
    assert order_of(database) == [2, 0, 1]
    say(kept, 1, "c")  # changes its mind
    assert order_of(database) == [0, 1, 2]


def test_what_is_contradicted_taken_back_or_rejected(database: Database) -> None:
    kept = Judgements(database)
    for network in "abc":
        say(kept, 2, network)
    for network in "de":
        say(kept, 2, network, helped=False)
    assert order_of(database) == [0, 1, 2]
    for network in "de":
        kept.take_back(question="Q?", answer="answer 2", network=network, visit=network)
    assert order_of(database) == [2, 0, 1]
    row = {"question_key": key_of_question("Q?"), "answer_key": key_of_answer("answer 2"), "question": "Q?"}
    row |= {"stored_question": "", "state": "rejected", "origin": "click", "owner": "o", "time": 1}
    with database.writing("wordings") as connection:
        connection.execute(insert(wordings), row)
    assert order_of(database) == [0, 1, 2]


def test_a_network_is_heard_on_few_questions(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgements_module, "MOST_OF_NETWORK", 2)
    kept = Judgements(database)
    for network in "abc":
        for question in ("first", "second", "third"):
            say(kept, 2, network, question=question)
    assert [order_of(database, question)[0] for question in ("first", "second", "third")] == [0, 2, 2]
    assert len(list(kept.records())) == 9


def test_few_rows_are_read_whatever_there_is(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_VOTES", 5)
    kept = Judgements(database)
    for network in "abc":
        say(kept, 1, network)
    for network in "defgh":
        say(kept, 2, network)
    assert order_of(database) == [2, 0, 1]


def test_an_answer_that_was_not_found_is_not_added(database: Database) -> None:
    kept = Judgements(database)
    for network in "abc":
        say(kept, 9, network)
    assert order_of(database) == [0, 1, 2]
    assert Evidence(database, 3).ordered("Q?", [], calibrated=True) == []


def test_scores_that_are_missing_and_a_database_that_fails(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Judgements(database)
    for network in "abc":
        say(kept, 2, network)
    documents = FixedSearch([0.5, 0.4, 0.3]).documents
    documents[1] = replace(documents[1], score=None)
    assert Evidence(database, 3).ordered("Q?", documents, calibrated=True) == documents

    def fail(_: object) -> None:
        raise InputError("the database does not answer")

    monkeypatch.setattr(Database, "reading", fail)
    assert order_of(database) == [0, 1, 2]
    assert "the database does not answer" in caplog.text


def test_a_search_goes_on_without_a_database_that_hangs(
    search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database_module, "BRIEF_SECONDS", 0.1)
    hangs, works = threading.Event(), Database.reading
    site = Site(search)
    before = site.shown()  # the application is built by its first request

    def hang(database: Database) -> AbstractContextManager[Connection]:
        hangs.wait(60)
        return works(database)

    monkeypatch.setattr(Database, "reading", hang)
    started = time.monotonic()
    try:
        with ThreadPoolExecutor(20) as threads:
            assert list(threads.map(lambda _: site.shown(), range(20))) == [before] * 20
        assert site.visitor().post("/api/browse", json={}).json()["questions"]
        assert time.monotonic() - started < 30
    finally:
        hangs.set()
    assert [caplog.text.count(said) for said in ("not ordered by clicks", "opens in the FAQ's order")] == [1, 1]

    for number in range(3):
        visitor = site.visitor()
        assert click(visitor, one_of(visitor, 3), visit=f"v{number}") == 200
    assert site.shown()[0]["id"] == "d3"  # once the database answers again


@pytest.mark.parametrize("number", [-1, 1, 2])
def test_two_agree_too_easily(search: DeclaredPipeline, number: int) -> None:
    with pytest.raises(InputError, match=f"at least 3, found {number}"):
        build_app(search, judgements_of(search), learn_from_clicks=number)


# Attacks over HTTP.

PROBABILITIES = [0.6, 0.5, 0.4, 0.3, 0.0002]


class Site:
    """A server that learns from clicks if three networks agree, and its visitors."""

    def __init__(self, search: DeclaredPipeline, *, learns: int = 3) -> None:
        self.app = build_app(
            search, judgements_of(search), workers=FixedSearch(PROBABILITIES), learn_from_clicks=learns
        )
        self._networks = count(1)

    def visitor(self) -> TestClient:
        return visit(self.app, f"192.0.{next(self._networks)}.1")

    def shown(self) -> list[dict[str, Any]]:
        return [one | {"receipt": ""} for one in answers(self.visitor())]


def one_of(visitor: TestClient, row: int) -> dict[str, Any]:
    """An answer as it is shown, wherever it is shown."""
    return next(one for one in answers(visitor) if one["id"] == f"d{row}")


@pytest.fixture
def site(search: DeclaredPipeline) -> Site:
    return Site(search)


def test_one_click_changes_nothing(site: Site) -> None:
    before = site.shown()
    for row in range(1, 5):
        visitor = site.visitor()
        assert click(visitor, one_of(visitor, row)) == 200
    assert site.shown() == before


def test_one_visitors_many_clicks_change_nothing(site: Site) -> None:
    """With new ids of visits, comments, taken back and said again; nor do those of the same network."""
    before, visitor = site.shown(), site.visitor()
    for number in range(20):
        given = {"visit": f"v{number}", "comment": "it is the fourth"} if number % 2 else {"visit": "same"}
        assert click(visitor, one_of(visitor, 3), **given) == 200
        assert click(visitor, one_of(visitor, 3), **given | {"helped": None, "comment": ""}) == 200
        assert click(visitor, one_of(visitor, 3), **given) == 200
    for host in range(2, 30):
        neighbour = visit(site.app, f"192.0.2.{host}")
        assert click(neighbour, one_of(neighbour, 3), visit=f"neighbour{host}") == 200
    assert site.shown() == before


def test_an_identity_that_a_visitor_claims_is_none(site: Site) -> None:
    before, visitor = site.shown(), site.visitor()
    for name in ("anna", "bert", "carl", "dora"):
        visitor.headers.update({"X-Remote-User": name, "X-Forwarded-For": f"10.0.{len(name)}.{ord(name[0])}"})
        assert click(visitor, one_of(visitor, 3), visit=name) == 200
    assert site.shown() == before


def test_two_networks_change_nothing_and_three_the_order_alone(site: Site) -> None:
    before = site.shown()
    for number in range(3):
        assert site.shown() == before
        visitor = site.visitor()
        assert click(visitor, one_of(visitor, 3), visit=f"v{number}") == 200
    after = site.shown()
    assert [one["id"] for one in after] == ["d3", "d0", "d1", "d2", "d4"]
    assert sorted(after, key=lambda one: one["id"]) == before  # scores, words, all else


def test_no_number_of_networks_brings_an_unlikely_answer_forward(site: Site) -> None:
    before = site.shown()
    for number in range(30):
        visitor = site.visitor()
        assert click(visitor, one_of(visitor, 4), visit=f"v{number}") == 200
    assert site.shown() == before


def test_a_server_that_does_not_learn_asks_nothing(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(search, learns=0)
    before = site.shown()
    monkeypatch.setattr(Evidence, "ordered", lambda *_, **__: pytest.fail("asked"))
    for number in range(5):
        visitor = site.visitor()
        assert click(visitor, one_of(visitor, 1), visit=f"v{number}") == 200
    assert site.shown() == before


def test_another_server_of_the_database_learns_too(search: DeclaredPipeline, tmp_path: Path) -> None:
    here, there = Site(search), Site(search)
    for number in range(3):
        visitor = here.visitor()
        shown = one_of(visitor, 2)
        there_too = visit(there.app, f"198.51.{number}.1")
        assert click(there_too, shown, visit=f"v{number}") == 200
    assert here.shown()[0]["id"] == there.shown()[0]["id"] == "d2"
    assert here.visitor().post("/api/explain", json={"question": QUESTION, "id": "d9"}).status_code == 404
