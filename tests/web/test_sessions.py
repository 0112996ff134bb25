"""Keys, wrong keys and sessions of owners: by tables and counts by hand, without a page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from fastapi import HTTPException
from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import Response

from ap_ranker.errors import InputError
from ap_ranker.web.database import Database, open_database, owners
from ap_ranker.web.database import sessions as sessions_table
from ap_ranker.web.owner import sessions as sessions_module
from ap_ranker.web.owner.sessions import (
    COOKIE,
    OwnerKey,
    Sessions,
    WrongKeys,
    add_owner,
    check_owner_name,
    hash_of_key,
    owners_keys,
    remove_owner,
    require_own_site,
)

SHARED = "7c1f6a02d94be853b7a1"
HOUR = 3600


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return open_database(tmp_path / "faq.db")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time, as the tables have it, which a test may set."""
    time = [1_000_000]
    monkeypatch.setattr(sessions_module, "now", lambda: time[0])
    return time


@pytest.fixture
def at() -> list[float]:
    """A clock, which a test may set."""
    return [500.0]


@pytest.fixture
def wrong_keys(at: list[float]) -> WrongKeys:
    return WrongKeys(lambda: at[0])


def asked(cookie: str = "", address: str = "192.0.2.1", **headers: str) -> Request:
    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    if cookie:
        named.append((b"cookie", cookie.encode()))
    return Request({"type": "http", "headers": named, "client": (address, 1)})


@pytest.mark.parametrize(
    ("key", "octets"), [("abc", b"abc"), ("Schlüssel", "Schlüssel".encode()), ("a\udcff", b"a\xff")]
)
def test_what_is_kept_of_a_key(key: str, octets: bytes) -> None:
    assert hash_of_key(key) == hashlib.sha256(octets).hexdigest()


@pytest.mark.parametrize(
    ("count", "seconds"), [(0, 0), (4, 0), (5, 1), (6, 2), (7, 4), (8, 8), (10, 32), (11, 60), (15, 60), (90, 60)]
)
def test_how_long_a_network_waits(wrong_keys: WrongKeys, at: list[float], count: int, seconds: int) -> None:
    """As the docstring says: from the sixth key on 1 second, 2, 4 and so on, for a minute at most."""
    for _ in range(count):
        wrong_keys.count("own")
    at[0] += 0.25
    waits = wrong_keys.seconds_to_wait("own")
    assert waits == seconds - 0.25 if seconds else waits <= 0
    assert wrong_keys.seconds_to_wait("other") <= 0


@pytest.mark.parametrize(("pause", "is_forgotten"), [(HOUR, False), (HOUR + 0.5, True)])
def test_wrong_keys_are_forgotten_after_an_hour(
    wrong_keys: WrongKeys, at: list[float], pause: float, is_forgotten: bool
) -> None:
    for _ in range(5):
        wrong_keys.count("own")
    at[0] += pause
    wrong_keys.count("own")
    assert wrong_keys.seconds_to_wait("own") == (0 if is_forgotten else 2)
    for _ in range(4):
        wrong_keys.count("own")
    assert wrong_keys.seconds_to_wait("own") == (1 if is_forgotten else 32)


@pytest.mark.parametrize(
    ("count", "pause", "are_many"), [(99, 0.0, False), (100, 0.0, True), (100, 59.5, True), (100, 60.0, False)]
)
def test_many_wrong_keys_from_anywhere(
    wrong_keys: WrongKeys, at: list[float], count: int, pause: float, are_many: bool
) -> None:
    """Of the last hundred, all in the last minute: each network waits a minute after its first one."""
    for number in range(count - 1):
        wrong_keys.count(f"network {number}")
    at[0] += pause
    wrong_keys.count("own")
    at[0] += 0.25 if are_many else 0.0
    assert wrong_keys.seconds_to_wait("own") == (59.75 if are_many else 0)
    assert wrong_keys.seconds_to_wait("new") <= 0


def test_the_oldest_of_the_last_hundred_decides(wrong_keys: WrongKeys, at: list[float]) -> None:
    wrong_keys.count("first")
    at[0] += 30
    for number in range(99):
        wrong_keys.count(f"network {number}")
    at[0] += 29.5
    assert wrong_keys.seconds_to_wait("network 98") == 30.5
    at[0] += 0.5
    assert wrong_keys.seconds_to_wait("network 98") == -30, "the first was a minute ago"
    wrong_keys.count("one more")
    assert wrong_keys.seconds_to_wait("one more") == 60, "of the last hundred, none is so old"


def test_the_network_that_failed_longest_ago_is_forgotten(
    wrong_keys: WrongKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "MAX_NETWORKS", 2)
    for network in [*"ab" * 5, "a", "c"]:
        wrong_keys.count(network)
    assert [wrong_keys.seconds_to_wait(network) > 0 for network in "abc"] == [True, False, False]


def test_a_key_is_found_among_others(database: Database, at: list[float]) -> None:
    sessions = Sessions(SHARED, database, clock=lambda: at[0])
    anna = add_owner(database, "Anna")
    keys = sessions.keys()
    assert [key.owner for key in keys] == [None, "Anna"]
    for text, place in ((SHARED, 0), (anna, 1)):
        for _ in range(10):
            assert sessions.find(text, asked(), keys) is keys[place], "right keys are not counted"
    for _ in range(5):
        assert sessions.find("wrong", asked(), keys) is None
    for seconds, told in ((0.0, "1"), (0.75, "1")):
        at[0] += seconds
        with pytest.raises(HTTPException) as refusal:
            sessions.find(SHARED, asked(), keys)
        assert refusal.value.status_code == 429
        assert refusal.value.headers == {"Retry-After": told}
        assert f"{told} seconds" in refusal.value.detail
    assert sessions.find(SHARED, asked(address="198.51.100.1"), keys) is keys[0]
    at[0] += 0.25
    assert sessions.find(SHARED, asked(), keys) is keys[0], "the second is over"
    assert sessions.find("wrong", asked(), keys) is None
    at[0] += 1.5
    with pytest.raises(HTTPException):
        sessions.find(SHARED, asked(), keys)
    at[0] -= 1.0
    with pytest.raises(HTTPException) as refusal:
        sessions.find(SHARED, asked(), keys)
    assert refusal.value.headers == {"Retry-After": "2"}, "1.5 seconds are told as two"


def begin(sessions: Sessions, key: OwnerKey, name: str = "", *, secure: bool = False) -> tuple[Request, str]:
    """A session that has begun: a request of it, and its cookie as it was set."""
    response = Response()
    sessions.begin(key, name, response, secure=secure)
    cookie = response.headers["set-cookie"]
    return asked(cookie.partition(";")[0]), cookie


def rows(database: Database) -> Sequence[tuple[object, ...]]:
    with database.reading() as connection:
        query = select(sessions_table.c.owner, sessions_table.c.ends).order_by(sessions_table.c.ends)
        return [tuple(row) for row in connection.execute(query)]


def test_the_cookie_of_a_session(database: Database) -> None:
    """Twelve hours; no script and no other site gets it; its token has 256 random bits, and is kept nowhere."""
    sessions = Sessions(SHARED, database)
    tokens = set()
    for secure in (False, True):
        _, cookie = begin(sessions, sessions.keys()[0], secure=secure)
        named, *attributes = cookie.split("; ")
        expected = {"HttpOnly", "Max-Age=43200", "Path=/", "SameSite=strict"} | ({"Secure"} if secure else set())
        assert set(attributes) == expected
        name, _, token = named.partition("=")
        assert name == COOKIE
        assert len(token) == 43
        tokens.add(token)
    assert len(tokens) == 2
    with database.reading() as connection:
        assert not tokens & set(connection.scalars(select(sessions_table.c.token)))


def test_a_session_lasts_twelve_hours(database: Database, now: list[int]) -> None:
    sessions = Sessions(SHARED, database)
    (shared,) = sessions.keys()
    request, _ = begin(sessions, shared, "Bo")
    assert rows(database) == [("Bo", 1_000_000 + 12 * HOUR)]
    now[0] += 12 * HOUR - 1
    later, _ = begin(sessions, shared, "Cy")
    assert [sessions.owner_of(each) for each in (request, later)] == ["Bo", "Cy"]
    now[0] += 1
    assert [sessions.owner_of(each) for each in (request, later)] == [None, "Cy"]
    begin(sessions, shared, "Di")
    assert [owner for owner, _ in rows(database)] == ["Cy", "Di"], "what has ended is deleted"


def test_only_its_own_session_ends(database: Database) -> None:
    sessions = Sessions(SHARED, database)
    (shared,) = sessions.keys()
    one, other = (begin(sessions, shared, name)[0] for name in ("Bo", "Cy"))
    response = Response()
    sessions.end(one, response)
    assert [sessions.owner_of(each) for each in (one, other)] == [None, "Cy"]
    assert [owner for owner, _ in rows(database)] == ["Cy"]
    name, *attributes = response.headers["set-cookie"].split("; ")
    assert name == f'{COOKIE}=""'
    assert {"HttpOnly", "Max-Age=0", "SameSite=strict", "Path=/"} <= set(attributes)
    sessions.end(asked(), Response())
    assert sessions.owner_of(other) == "Cy"


def test_whose_session_it_is(database: Database) -> None:
    sessions = Sessions(SHARED, database)
    shared, _ = begin(sessions, sessions.keys()[0], "Bo")
    assert sessions.owner_of(shared) == "Bo"
    for stranger in (asked(), asked(f"{COOKIE}=wrong"), asked(f"{COOKIE}="), asked("other=1")):
        assert sessions.owner_of(stranger) is None
    add_owner(database, "Anna")
    own, _ = begin(sessions, sessions.keys()[1], "Somebody Else")
    assert sessions.owner_of(own) == "Anna"
    assert sessions.owner_of(shared) == "", "beside owners with keys, the name is nobody's word"
    assert Sessions(None, database).owner_of(shared) is None
    assert Sessions(None, database).keys() == owners_keys(database)
    remove_owner(database, "Anna")
    assert sessions.owner_of(own) is None
    assert sessions.owner_of(shared) == "Bo"


def test_owners_and_their_keys(database: Database, now: list[int]) -> None:
    """By name; of 128 random bits each, of which only a hash is kept, with the time."""
    keys = {}
    for name in ("Cy", "Anna", "Bo"):
        keys[name] = add_owner(database, name)
        now[0] += 10
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in keys.values())
    expected = [("Anna", 1_000_010), ("Bo", 1_000_020), ("Cy", 1_000_000)]
    assert owners_keys(database) == [OwnerKey(hash_of_key(keys[name]), name, time) for name, time in expected]
    for taken in ("anna", "ANNA"):
        with pytest.raises(InputError, match=re.escape(taken)):
            add_owner(database, taken)
    with pytest.raises(InputError, match="Dora"):
        remove_owner(database, "Dora")
    remove_owner(database, "Bo")
    with database.reading() as connection:
        assert sorted(connection.scalars(select(owners.c.name))) == ["Anna", "Cy"]


@pytest.mark.parametrize(
    ("name", "is_fit"),
    [("Anna", True), ("Änne Müller", True), ("", False), (" ", False), (" Anna", False), ("An\tna", False),
     ("x" * 2000, False), ("\u200b", False)],
)  # fmt: skip
def test_names_of_owners(name: str, is_fit: bool) -> None:
    if is_fit:
        check_owner_name(name)
        return
    with pytest.raises(InputError) as error:
        check_owner_name(name)
    assert repr(name)[:20] in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("site", "origin", "is_own"),
    [
        ("same-origin", None, True),
        ("none", None, True),
        ("same-origin", "https://evil.example", True),  # what a browser says of the site cannot be set by a page
        ("same-site", None, False),
        ("cross-site", "http://faq.example", False),
        ("", None, False),
        (None, None, True),
        (None, "http://faq.example", True),
        (None, "https://faq.example", True),
        (None, "http://evil.example", False),
        (None, "http://faq.example.evil.example", False),
        (None, "http://evil.example/://faq.example", False),
        (None, "null", False),
        (None, "", False),
    ],
)
def test_whose_page_sent_a_request(site: str | None, origin: str | None, is_own: bool) -> None:
    told = {"sec-fetch-site": site, "origin": origin, "host": "faq.example"}
    request = asked(**{name: value for name, value in told.items() if value is not None})
    if is_own:
        require_own_site(request)
        return
    with pytest.raises(HTTPException) as refusal:
        require_own_site(request)
    assert refusal.value.status_code == 401


def test_every_change_of_owners_and_sessions_is_a_revision(database: Database) -> None:
    """By which other servers learn of it, and transactions wait for each other."""
    sessions = Sessions(SHARED, database)
    (shared,) = sessions.keys()
    begun: list[Request] = []
    steps = [
        ("owners", lambda: add_owner(database, "Anna")),
        ("owners", lambda: remove_owner(database, "Anna")),
        ("sessions", lambda: begun.append(begin(sessions, shared)[0])),
        ("sessions", lambda: sessions.end(begun[0], Response())),
    ]
    for part, change in steps:
        before = database.revision(part)
        change()
        assert database.revision(part) == before + 1
