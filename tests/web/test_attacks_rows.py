"""Rows that no part of the program would write: of a hand, a later version or a broken clock. All goes on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from searches import write_pipeline
from sqlalchemy import insert, select, update
from starlette.testclient import TestClient

from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError
from ap_ranker.search.setup import set_up
from ap_ranker.web import database as tables
from ap_ranker.web.app import build_app
from ap_ranker.web.changes import owners_changes, read_changes
from ap_ranker.web.database import Database, in_utc, metadata, now, open_at, open_database
from ap_ranker.web.judgements import Judgements, key_of_question
from ap_ranker.web.owner.routes import OwnersPage
from ap_ranker.web.owner.service import OwnerService
from ap_ranker.web.question_log import QuestionLog
from ap_ranker.web.report import Report
from ap_ranker.web.retention import delete_older
from ap_ranker.web.traces import delete_traces, export_judgements
from ap_ranker.web.usage import Period, usage_of

from .visiting import visit

KEY = "7c1f6a02d94be853b7a1"
LATE = 10**17
"""Seconds: the year 3,168,808,806."""

HUGE = "ü= " * 300_000
SECRET = "where is order 4711 of Erika Mustermann"

CHANGE = {"time": 5, "owner": "", "entry": "e", "of": "", "question": "", "answer": "", "wordings": "[]", "undone": ""}
WORDINGS = ("{", "[" * 100_000, "null", "7", '{"a": 1}', '[1, null, ["x"]]', f'["{SECRET}"', "")
"""Texts in the place of a list of texts in JSON."""

LATE_CHANGE = CHANGE | {"action": "add entry", "question": "Is it late?", "answer": "Very late.", "time": LATE}
ROWS: dict[str, list[dict[str, Any]]] = {
    "facts": [{"name": "of a later version", "value": HUGE}],
    "revisions": [{"name": "unknown", "value": -(10**15)}],
    "judgements": [
        {"visit": visit, "time": time, "network": "", "question": question, "question_key": f"key {visit}"}
        | {"answer_key": "", "answer": "", "stored_question": HUGE, "helped": False, "comment": HUGE, "counts": True}
        for visit, time, question in (("1", LATE, HUGE), ("2", 0, ""), ("3", 0, "\u202egpj.exe"))
    ],
    "questions": [
        {"time": time, "question": question, "question_key": question[:30], "outcome": outcome, "entry": HUGE}
        for time, question, outcome in ((LATE, HUGE, "none"), (1, "", "exploded"), (0, "=1+1", "none"))
    ],
    "changes": [
        {**CHANGE, "id": "exploding", "action": "explode"},
        {**CHANGE, "id": "huge", "action": "change entry", "question": HUGE, "answer": HUGE},
        {**CHANGE, "id": "of nothing", "action": "undo", "undone": "nothing"},
        {**CHANGE, "id": "of itself", "action": "undo", "undone": "of itself"},
        {**CHANGE, "id": "late", **LATE_CHANGE},
        *({**CHANGE, "id": f"broken {row}", "action": "add wordings", "wordings": w} for row, w in enumerate(WORDINGS)),
    ],
    "decisions": [
        {
            "question_key": f"key {row}",
            "answer_key": "",
            "question": HUGE,
            "owner": HUGE,
            "time": LATE,
            "change": change,
        }
        for row, change in enumerate(("none", "exploding", ""))
    ],
    "owners": [{"name": "\u202eAnna", "hashed": "no hash", "time": LATE}],
    "sessions": [{"token": "x", "owner": HUGE, "ends": LATE}],
    "quotas": [{"day": LATE, "network": "", "kind": "burglary", "used": -1}],
}


@pytest.fixture
def spoiled(place: str) -> Iterator[Database]:
    database = open_database(place)
    with database.writing() as connection:
        for name, rows in ROWS.items():
            for row in rows:
                connection.execute(insert(getattr(tables, name)).values(**row))
    yield database
    database.close()


@pytest.fixture
def client(spoiled: Database, place: str, tmp_path: Path, checkpoint: Path, faq: Path) -> Iterator[TestClient]:
    pipeline = write_pipeline(tmp_path, checkpoint)
    with set_up(faq, pipeline=pipeline, overlay=owners_changes(place)) as setup:
        search, documents = setup.load()
        setup.warm_up(search, documents)
        log = QuestionLog(spoiled)
        owner_service = OwnerService(search, setup.documents, Match.both, spoiled, logged=True)
        options = {"question_log": log, "owner": OwnersPage(KEY, owner_service)}
        app = build_app(search, Judgements(spoiled), **options)  # type: ignore[arg-type]
        with visit(app, "127.0.0.1") as client:
            yield client
        log.close()


def post(client: TestClient, path: str, **body: Any) -> Any:
    response = client.post(path, json=body, headers={"Authorization": f"Bearer {KEY}"})
    assert response.status_code == 200, (path, response.text[:300])
    return response.json()


def test_every_table_has_a_bad_row() -> None:
    assert {f"ap_ranker_{name}" for name in ROWS} == set(metadata.tables)


def test_all_pages_go_on(client: TestClient) -> None:
    for path in ("/", "/owner", "/metrics", "/health"):
        assert client.get(path, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200
    found = post(client, "/api/search", question="Is it late?")["answers"]
    assert "Very late." in [one["answer"] for one in found]
    given = {"question": "Is it late?", "id": found[0]["id"], "receipt": found[0]["receipt"]}
    post(client, "/api/feedback", **given, helped=True)
    assert post(client, "/api/suggest", text="is it")["suggestions"] == ["Is it late?"]
    for name in ("server", "usage", "feedback", "history", "entries", "gaps", "new", "overview", "quality"):
        post(client, f"/owner/api/{name}")
    while (gaps := post(client, "/owner/api/gaps"))["grouping"]:
        pass
    assert "=1+1" in [one["text"] for gap in gaps["gaps"] for one in gap["questions"]]
    [late] = [one for one in post(client, "/owner/api/history") if one["id"] == "late"]
    assert late["time"] == LATE
    post(client, "/owner/api/undo", change="late")


def test_the_days_are_those_of_the_calendar(client: TestClient, spoiled: Database) -> None:
    row = {"question": "now", "question_key": "now", "outcome": "answer", "entry": "", "time": now()}
    with spoiled.writing("questions") as connection:
        connection.execute(insert(tables.questions).values(**row))
    days = post(client, "/owner/api/usage")["days"]
    assert (len(days), sum(list(days.values())[-1].values())) == (7, 1)


def test_the_days_of_bad_rows(client: TestClient, spoiled: Database) -> None:
    """An outcome that nobody knows does not count, what is too long is cut, formulas are none."""
    found = post(client, "/owner/api/usage", first="1970-01-01", last="1970-01-02")
    assert found["current"]["questions"] == 1
    assert [row["question"] for row in found["top"]] == ["=1+1"]
    usage = usage_of(spoiled, Period(date(1970, 1, 1), date(1970, 1, 2)))
    assert "\u202e" not in Report(usage).page()
    assert len(Report(usage).page()) < 100_000


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_exports_go_on(spoiled: Database, tmp_path: Path, ending: str) -> None:
    assert export_judgements(spoiled, tmp_path / f"clicks{ending}") == 3
    assert in_utc(LATE) == in_utc(10 * LATE) > in_utc(now())
    assert in_utc(-LATE) == in_utc(-1) == in_utc(0)


def test_deletion_goes_on(spoiled: Database) -> None:
    """Also from rows that nobody can read."""
    row = {"question": SECRET, "question_key": key_of_question(SECRET), "outcome": "none", "entry": "", "time": 1}
    with spoiled.writing("questions") as connection:
        connection.execute(insert(tables.questions).values(**row))
    assert delete_traces(spoiled, sentence=SECRET)["questions"] == 1
    with spoiled.reading() as connection:
        assert SECRET not in str([connection.execute(select(table)).all() for table in metadata.sorted_tables])
    assert {"late", "huge"} <= {change.id for change in read_changes(spoiled)}
    delete_older(spoiled, 1)


@pytest.mark.parametrize("found", ["", "0", "1", "-1", "two", "1.5", "9" * 5000])
def test_a_version_that_never_was(place: str, found: str) -> None:
    with open_database(place).writing() as connection:
        connection.execute(update(tables.facts).where(tables.facts.c.name == "version").values(value=found))
    open_at.cache_clear()
    with pytest.raises(InputError):
        open_database(place)
