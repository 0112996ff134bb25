"""Several owners, each with a key of their own: who may log in, and who changed what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from owner_changes import NOTHING
from sqlalchemy import select
from starlette.testclient import TestClient

from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.app import build_app
from ap_ranker.web.database import Database, metadata, open_at, open_database
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.limits import check_key
from ap_ranker.web.owner.routes import OwnersPage
from ap_ranker.web.owner.service import OwnerService
from ap_ranker.web.owner.sessions import FREE, add_owner, owners_keys, remove_owner

SHARED = "7c1f6a02d94be853b7a1"


@pytest.fixture
def database(place: str) -> Database:
    return open_database(place)


Visit = Callable[..., TestClient]


@pytest.fixture
def visit(search: DeclaredPipeline, database: Database) -> Visit:
    """Makes a browser at a server of the database, with the shared key unless another is given."""

    def begin(shared: str | None = SHARED, address: str = "192.0.2.1") -> TestClient:
        page = OwnersPage(shared, OwnerService(search, None, Match.both, database))
        app = build_app(search, Judgements(database), owner=page)
        return TestClient(app, "http://localhost", follow_redirects=False, client=(address, 1))

    return begin


def log_in(client: TestClient, key: str, name: str = "") -> int:
    return client.post("/owner/login", data={"key": key, "name": name}).status_code


def owner_of(client: TestClient, key: str = "") -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    response = client.post("/owner/api/server", json={}, headers=headers)
    return response.json()["owner"] if response.status_code == 200 else response.status_code


def test_each_key_is_its_owners(visit: Visit, database: Database) -> None:
    keys = {name: add_owner(database, name) for name in ("Änne Müller", "Bo")}
    client = visit(None)
    for name, key in keys.items():
        assert owner_of(client, key) == name
        assert log_in(client, key, "Somebody Else") == 303
        assert owner_of(client) == name, "whatever name is typed"
        assert client.get("/owner").status_code == 200
        client.cookies.clear()
    assert len({*keys.values()}) == 2
    assert owner_of(visit(None), "0" * 32) == 401


def test_a_key_is_random_and_kept_nowhere(database: Database) -> None:
    keys = [add_owner(database, f"owner {number}") for number in range(20)]
    for key in keys:
        check_key(key, "a key")
    with database.reading() as connection:
        rows = str([connection.execute(select(table)).all() for table in metadata.sorted_tables])
    assert not any(key in rows for key in keys)


def test_nobody_takes_an_owners_name(visit: Visit, database: Database) -> None:
    """The shared key says who has it only as long as no key says so."""
    client = visit()
    assert log_in(client, SHARED, "Bo") == 303
    assert owner_of(client) == "Bo"

    add_owner(database, "Bo")

    assert owner_of(client) == "", "of a session that has begun before, either"
    client.cookies.clear()
    assert log_in(client, SHARED, "Bo") == 303
    assert owner_of(client) == ""
    with pytest.raises(InputError):
        add_owner(database, "BO")


def test_a_removed_owner_is_out_at_once(visit: Visit, database: Database) -> None:
    """On every server, also with a session that has begun; the others stay."""
    gone, stays = (add_owner(database, name) for name in ("Anna", "Bo"))
    clients = {key: (visit(None), visit(None)) for key in (gone, stays)}
    for key, (one, other) in clients.items():
        assert log_in(one, key) == 303
        other.cookies = one.cookies
    remove_owner(database, "Anna")
    for one in clients[gone]:
        assert owner_of(one) == owner_of(one, gone) == 401
    assert [owner_of(one) for one in clients[stays]] == ["Bo", "Bo"]
    assert [key.owner for key in owners_keys(database)] == ["Bo"]

    again = add_owner(database, "Anna")

    assert again != gone
    assert owner_of(clients[gone][0]) == 401, "her new key does not revive the old session"
    assert owner_of(visit(None), again) == "Anna"


def test_wrong_keys_of_all_owners_count_together(visit: Visit, database: Database) -> None:
    keys = [add_owner(database, name) for name in ("Anna", "Bo")]
    client = visit()
    for number in range(FREE):
        assert log_in(client, f"{keys[number % 2][:-1]}x") == 401
    assert [log_in(client, key) for key in (*keys, SHARED)] == [429] * 3
    assert owner_of(client, keys[0]) == 429
    assert log_in(visit(address="198.51.100.9"), keys[0]) == 303


@pytest.mark.parametrize("name", ["", " ", "x" * 501, "two\nlines", " Anna", "An\u202ena", "An\0na", *NOTHING])
def test_names_that_are_none(database: Database, name: str) -> None:
    with pytest.raises(InputError):
        add_owner(database, name)
    assert owners_keys(database) == []


def test_nobody_of_that_name(database: Database) -> None:
    add_owner(database, "Anna")
    for name in ("anna", "", "Bo"):
        with pytest.raises(InputError):
            remove_owner(database, name)
    assert len(owners_keys(database)) == 1


def test_a_database_of_before_has_the_table_now(place: str) -> None:
    database = open_database(place)
    with database.writing() as connection:
        metadata.tables["ap_ranker_owners"].drop(connection)
    open_at.cache_clear()
    assert add_owner(open_database(place), "Anna")
