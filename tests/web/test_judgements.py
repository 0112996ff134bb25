"""Visitors' judgements: kept once a visit, counted, bounded, within a quota."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ap_ranker.web import judgements, visitors
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements, QuotaError, key_of_answer, key_of_question

GIVEN: dict[str, Any] = {"question": "Where is it?", "answer": "Here.", "stored_question": "", "network": "n"}


@pytest.fixture
def kept(place: str) -> Judgements:
    return Judgements(open_database(place))


def counted(kept: Judgements) -> list[tuple[str, int, int, int]]:
    return [(votes.question, votes.helped, votes.did_not_help, votes.networks) for votes in kept.votes()]


def test_a_visit_has_one_judgement_of_an_answer_to_a_question(kept: Judgements) -> None:
    for helped in (True, True, False):
        kept.keep(**GIVEN, helped=helped, visit="a")
    kept.keep(**GIVEN | {"question": "where  is IT"}, helped=True, visit="a")
    kept.keep(**GIVEN | {"answer": "There."}, helped=True, visit="a")
    kept.keep(**GIVEN | {"network": "m"}, helped=False, visit="b")

    assert Counter(counted(kept)) == Counter([("Where is it?", 1, 1, 2), ("Where is it?", 1, 0, 1)])


def test_without_a_visit_that_of_the_network_counts(kept: Judgements) -> None:
    for network in ("n", "n", "m"):
        kept.keep(**GIVEN | {"network": network}, helped=True)

    assert counted(kept) == [("Where is it?", 2, 0, 2)]


def test_what_is_taken_back_is_gone(kept: Judgements) -> None:
    kept.keep(**GIVEN, helped=True, visit="a")
    kept.keep(**GIVEN, helped=True, visit="b")

    kept.take_back(question="Where is it?", answer="Here.", network="n", visit="a")
    kept.take_back(question="Where is it?", answer="Here.", network="n", visit="nobody")

    assert counted(kept) == [("Where is it?", 1, 0, 1)]


def test_a_later_comment_stays(kept: Judgements) -> None:
    kept.keep(**GIVEN, helped=True, visit="a", comment="thanks")
    kept.keep(**GIVEN, helped=True, visit="a")

    assert [record["comment"] for record in kept.records()] == ["thanks"]


def test_the_oldest_go(kept: Judgements, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgements, "MOST", 3)

    for number in range(10):
        kept.keep(**GIVEN | {"question": f"question {number}"}, helped=True, visit="a")

    assert [record["question"] for record in kept.records()] == ["question 7", "question 8", "question 9"]


def test_one_that_replaces_an_old_one_is_the_newest(kept: Judgements, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts, and it is not the next to go; what a visitor wrote before stays."""
    monkeypatch.setattr(judgements, "MOST", 3)
    monkeypatch.setattr(judgements, "MOST_OF_NETWORK", 2)
    kept.keep(**GIVEN | {"question": "0"}, helped=True, visit="a", comment="thanks")
    for number in range(1, 3):
        kept.keep(**GIVEN | {"question": str(number)}, helped=True, visit="a")
    kept.keep(**GIVEN | {"question": "0"}, helped=False, visit="a")
    kept.keep(**GIVEN | {"question": "3"}, helped=True, visit="a")
    with kept.database.reading() as connection:
        rows = connection.execute(judgements.judgements.select()).mappings().all()
    found = {row["question"]: (row["helped"], row["counts"], row["comment"]) for row in rows}
    assert found == {"0": (False, True, "thanks"), "2": (True, False, ""), "3": (True, True, "")}


def test_a_network_has_a_quota_a_day(kept: Judgements, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(visitors.QUOTAS, "judgement", 3)
    day = [20_000 * visitors.DAY]
    monkeypatch.setattr(visitors, "now", lambda: day[0])
    for _ in range(2):
        kept.keep(**GIVEN, helped=True, visit="a")
    kept.take_back(question="Where is it?", answer="Here.", network="n", visit="a")

    with pytest.raises(QuotaError):
        kept.keep(**GIVEN, helped=True, visit="b")
    with pytest.raises(QuotaError):
        kept.take_back(question="Where is it?", answer="Here.", network="n", visit="a")
    kept.keep(**GIVEN | {"network": "m"}, helped=True, visit="b")
    day[0] += visitors.DAY
    kept.keep(**GIVEN, helped=True, visit="b")

    assert counted(kept) == [("Where is it?", 1, 0, 1)]


def test_comments_have_one_of_their_own(kept: Judgements, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(visitors.QUOTAS, "comment", 1)

    for visit in ("a", "b"):
        kept.keep(**GIVEN, helped=True, visit=visit, comment=f"said by {visit}")

    assert [record["comment"] for record in kept.records()] == ["said by a", ""]


def test_words_are_the_latest_of_those_whom_an_answer_did_not_help(kept: Judgements) -> None:
    for number in range(7):
        kept.keep(**GIVEN, helped=False, visit=f"v{number}", comment=f"sentence {number}")
    kept.keep(**GIVEN, helped=True, visit="happy", comment="thanks")
    kept.keep(**GIVEN, helped=False, visit="silent")
    kept.keep(**GIVEN | {"answer": "There."}, helped=False, visit="a", comment="of another answer")
    kept.keep(**GIVEN | {"question": "Who?"}, helped=True, visit="a", comment="of another question")

    asked, here, there = key_of_question("Where is it?"), key_of_answer("Here."), key_of_answer("There.")
    assert kept.words({asked, key_of_question("Who?")}) == {
        (asked, here): [f"sentence {number}" for number in (6, 5, 4, 3, 2)],
        (asked, there): ["of another answer"],
    }
    assert kept.words({key_of_question("Who?")}) == kept.words(set()) == {}


@pytest.mark.parametrize("text", ["zero \0 in it", "a half \ud83d of an emoji", "🚲" * 100, "'; drop table x; --"])
def test_any_text_is_kept(kept: Judgements, text: str) -> None:
    given = GIVEN | {"question": text, "answer": text, "stored_question": text}

    kept.keep(**given, helped=True, visit="a", comment=text)
    kept.keep(**given, helped=True, visit="b")
    kept.take_back(question=text, answer=text, network="n", visit="b")

    assert [votes.helped for votes in kept.votes()] == [1]


def test_a_network_is_a_hash_of_addresses_that_belong_together(place: str) -> None:
    known = visitors.Visitors(open_database(place))
    groups = [["192.0.2.1", "192.0.2.254", "::ffff:192.0.2.9"], ["192.0.3.1"], ["2001:db8:1::1", "2001:db8:1:2::3"]]
    groups += [["2001:db8:2::1"], ["socket"], [""]]

    hashes = [{known.network(address) for address in group} for group in groups]

    assert [len(found) for found in hashes] == [1] * len(groups)
    assert len(set.union(*hashes)) == len(groups)
    assert known.network("192.0.2.1", "anna") == known.network("198.51.100.7", "anna") != known.network("192.0.2.1")
    assert all("192.0.2" not in name for name in hashes[0])
