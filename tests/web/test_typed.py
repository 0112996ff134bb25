"""What the API says of what is no question, and of several questions in one; what is logged of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from searches import ENTRIES

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.app import build_app
from ap_ranker.web.database import open_database
from ap_ranker.web.question_log import QuestionLog

from .visiting import click, client_of, judgements_of, logged_questions, visit

FIRST, SECOND = (entry.question for entry in ENTRIES[:2])


def asked(search: DeclaredPipeline, question: str) -> dict[str, Any]:
    search.prepare()  # to load everything may take a busy machine longer than a visitor waits
    reply: dict[str, Any] = client_of(search).post("/api/search", json={"question": question}).json()
    return reply


@pytest.mark.parametrize(
    ("text", "kind"),
    [("hi", "greeting"), ("Danke!", "thanks"), ("human please", "person"), ("order number 4711", "incomplete")],
)
def test_what_is_no_question_gets_no_answer(search: DeclaredPipeline, text: str, kind: str) -> None:
    reply = asked(search, text)
    assert (reply["outcome"], reply["kind"], reply["answers"], reply["parts"]) == ("none", kind, [], [])


def test_each_of_two_questions_is_a_question_of_its_own(search: DeclaredPipeline) -> None:
    both = f"{FIRST} {SECOND}"
    search.prepare()
    client = client_of(search)
    reply = client.post("/api/search", json={"question": both}).json()
    assert reply["kind"] == "several"
    assert [part["question"] for part in reply["parts"]] == [FIRST, SECOND]
    for part, entry in zip(reply["parts"], ENTRIES, strict=False):
        alone = client.post("/api/search", json={"question": part["question"]}).json()
        assert [answer["id"] for answer in part["answers"]] == [answer["id"] for answer in alone["answers"]]
        assert (part["outcome"], part["basis"]) == ("answer", "known question")
        first = part["answers"][0]
        assert first["answer"] == entry.answer
        for receipt in (first["receipt"], None):  # without one, the search is asked again
            assert click(client, first, question=part["question"], receipt=receipt) == 200


def test_what_no_entry_could_answer_is_not_logged(search: DeclaredPipeline, tmp_path: Path) -> None:
    database = open_database(tmp_path / "log.db")
    log = QuestionLog(database)
    visitor = visit(build_app(search, judgements_of(search), question_log=log))
    for text in ("hi", "4711-22", "you idiots", f"{FIRST} {SECOND}", "zebra crossing"):
        assert visitor.post("/api/search", json={"question": text}).status_code == 200
    log.close()
    assert [row.question for row in logged_questions(database)] == [FIRST, SECOND, "zebra crossing"]
