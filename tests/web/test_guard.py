"""What the guard of a server lets in, in what time, how often, and from whom: by tables, without a server."""

from __future__ import annotations

import asyncio
import json
import string
from collections.abc import Sequence
from http import HTTPStatus
from random import Random
from typing import Any, NamedTuple

import pytest
from refusals import refused

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from ap_ranker.errors import InputError
from ap_ranker.web import limits
from ap_ranker.web.limits import (
    MIN_KEY,
    Failure,
    FailureError,
    Guard,
    Rate,
    bearer_key,
    check_key,
    failing_as,
    is_loopback,
)

JSON = {"host": "localhost", "content-type": "application/json"}
FORM = {"host": "localhost", "content-type": "application/x-www-form-urlencoded"}
KEY = "7c1f6a02d94be853"


class Reply(NamedTuple):
    """What a guard sends for a request, and the kind of failure that it notes."""

    status: int
    headers: dict[str, str]
    body: bytes
    failure: object


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body, and expects nothing after it but the end of the connection."""
    if scope["method"] == "POST":
        first = await receive()
        assert (first["type"], first["more_body"]) == ("http.request", False)
        assert (await receive())["type"] == "http.disconnect"
    else:
        first = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": first["body"]})


def check_refusal(sent: Sequence[Message]) -> None:
    """A refusal is one sentence of its own, not the name of its status alone."""
    (name, sentence), *others = json.loads(sent[1]["body"]).items()
    assert (name, others) == ("error", [])
    assert sentence.endswith(".")
    assert HTTPStatus(sent[0]["status"]).phrase not in (sentence, sentence.removesuffix("."))


async def ask(
    guard: Guard,
    method: str = "POST",
    path: str = "/",
    headers: dict[str, str] = JSON,
    parts: Sequence[bytes] = (b"{}",),
    client: str | None = "192.0.2.1",
    **state: Any,
) -> Reply:
    """What a guard answers."""
    messages = [
        {"type": "http.request", "body": part, "more_body": place < len(parts)}
        for place, part in enumerate(parts, start=1)
    ]
    waiting = iter([*messages, {"type": "http.disconnect"}])
    sent: list[Message] = []

    async def receive() -> Message:
        return next(waiting)

    async def send(message: Message) -> None:
        sent.append(message)

    named = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope: Scope = {"type": "http", "method": method, "path": path, "headers": named, "query_string": b""}
    scope |= {"client": client and (client, 1), "state": state}
    await guard(scope, receive, send)
    if sent[0]["status"] != 200:
        check_refusal(sent)
    replied = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], replied, sent[1]["body"], scope["state"].get("failure"))


async def status(guard: Guard, **request: Any) -> int:
    return (await ask(guard, **request)).status


async def test_a_request_arrives_as_it_was_sent() -> None:
    guard = Guard(echo)
    assert await ask(guard, parts=[b"[1,", b"2]"]) == Reply(200, {}, b"[1,2]", None)
    assert await ask(guard, method="GET", headers={"host": "localhost"}, parts=[b"x"]) == Reply(200, {}, b"x", None)
    assert guard.in_progress == 0


async def test_what_is_no_request_of_http_passes() -> None:
    passed: list[object] = []

    async def app(*arguments: object) -> None:
        passed.append(arguments)

    scope, receive, send = {"type": "lifespan"}, object(), object()
    await Guard(app)(scope, receive, send)  # type: ignore[arg-type]  # they are only passed on
    assert passed == [(scope, receive, send)]


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/", JSON, 200),
        ("/", JSON | {"content-type": "Application/JSON ; charset=utf-8"}, 200),
        ("/", JSON | {"content-type": "text/plain"}, 415),
        ("/", JSON | {"content-type": "text/plain; application/json"}, 415),
        ("/", {"host": "localhost"}, 415),
        ("/", FORM, 415),
        ("/form", FORM, 200),
        ("/form", JSON, 415),
        ("/", JSON | {"content-length": "2"}, 200),
        ("/", JSON | {"transfer-encoding": "chunked"}, 200),
        ("/", JSON | {"content-length": "2", "transfer-encoding": "chunked"}, 400),
        ("/", JSON | {"host": "example.com"}, 200),
        ("/", JSON | {"host": "other.example.com"}, 400),
        ("/", JSON | {"host": "192.0.2.9:80"}, 200),
        ("/", {"content-type": "application/json"}, 400),
    ],
)
async def test_what_is_read(path: str, headers: dict[str, str], expected: int) -> None:
    """A connection is closed after a refusal of a body that has not been read, or not be believed."""
    reply = await ask(Guard(echo, ["Example.com"], forms=["/form"]), path=path, headers=headers)
    assert reply.status == expected
    is_closed = expected == 415 or {"content-length", "transfer-encoding"} <= headers.keys()
    assert reply.headers.get("connection") == ("close" if is_closed else None)
    assert reply.failure is None


@pytest.mark.parametrize(("path", "most"), [("/", 16 * 1024), ("/large", 20_000)])
async def test_the_largest_request(path: str, most: int) -> None:
    guard = Guard(echo, larger={"/large": 20_000})
    assert await status(guard, path=path, parts=[b"x" * (most - 1), b"y"]) == 200
    reply = await ask(guard, path=path, parts=[b"x" * most, b"y"])
    assert (reply.status, reply.headers["connection"]) == (413, "close")


async def test_the_most_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PARTS", 3)
    assert await status(Guard(echo), parts=[b"x"] * 3) == 200
    assert await status(Guard(echo), parts=[b"x"] * 4) == 413


async def test_a_client_that_leaves_and_one_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def leave() -> Message:
        return {"type": "http.disconnect"}

    async def wait() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    monkeypatch.setattr(limits, "ARRIVAL_SECONDS", 0.01)
    headers = [(name.encode(), value.encode()) for name, value in JSON.items()]
    for receive in (leave, wait):
        sent.clear()
        await Guard(echo)({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, send)
        assert sent[0]["status"] == 408
        assert (b"connection", b"close") in sent[0]["headers"]
        check_refusal(sent)


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (f"Bearer {KEY}", KEY),
        (f"bEARER  {KEY} ", KEY),
        ("Bearer a b", "a b"),
        ("Bearer", ""),
        (f"Basic {KEY}", None),
        (KEY, None),
        (None, None),
    ],
)
def test_the_key_of_a_header(header: str | None, key: str | None) -> None:
    assert bearer_key(Headers({} if header is None else {"Authorization": header})) == key


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_who_needs_a_key(method: str) -> None:
    guard = Guard(echo, key=KEY, public=["/open"])
    with_key = JSON | {"authorization": f"Bearer {KEY}"}
    assert await status(guard, method=method, headers=with_key) == 200
    assert await status(guard, method=method, path="/open") == 200
    for wrong in (JSON, JSON | {"authorization": f"Bearer {KEY}\xe4"}, JSON | {"authorization": "Bearer"}):
        reply = await ask(guard, method=method, headers=wrong)
        assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert await status(Guard(echo), method=method) == 200


@pytest.mark.parametrize(
    ("host", "key", "is_local", "expected"),
    [
        ("localhost:8000", "", True, 200),
        ("127.0.0.1", "", True, 200),
        ("[::1]:80", "", True, 200),
        ("localhost", "", False, 403),
        ("localhost", "", None, 403),
        ("192.0.2.1", "", True, 403),  # through a web server that tells nothing of its clients
        ("192.0.2.1", KEY, False, 200),
        ("localhost", "wrong", True, 401),
    ],
)
async def test_what_only_this_machine_reads(host: str, key: str, is_local: bool | None, expected: int) -> None:
    """Without a key of the server; with one, whoever has it reads all."""
    guard = Guard(echo, key=KEY if key else None, local=["/metrics"])
    headers = {"host": host, "authorization": f"Bearer {key}"}
    state = {} if is_local is None else {"is_local": is_local}
    assert await status(guard, method="GET", path="/metrics", headers=headers, **state) == expected
    if not key:
        assert await status(guard, method="GET", path="/other", headers=headers, **state) == 200


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, 429),
        ({}, {"client": "192.0.2.2"}, 200),
        ({"client": "2001:db8::1"}, {"client": "2001:db8::ffff:0:0:2"}, 429),
        ({"client": "2001:db8::1"}, {"client": "2001:db8:0:1::1"}, 200),
        ({"client": None}, {"client": None}, 429),
        ({"method": "GET"}, {"method": "GET"}, 429),
        ({"method": "GET"}, {"method": "POST", "path": "/free"}, 429),
        ({}, {"method": "GET", "path": "/free"}, 200),
        ({}, {"path": "/apart"}, 200),
        ({"path": "/apart"}, {"path": "/apart"}, 429),
        ({}, {"method": "GET", "headers": JSON | {"authorization": f"Bearer {KEY}"}}, 200),
        ({}, {"headers": JSON | {"authorization": f"Bearer {KEY}"}}, 429),
    ],
)
async def test_what_counts_for_the_rate(first: dict[str, Any], second: dict[str, Any], expected: int) -> None:
    """Of one request a second at most; whoever has the key may read as fast as it likes, not ask."""
    rate = Rate(0.5, lambda: 0.0)
    guard = Guard(echo, key=KEY, public=["/", "/free", "/apart"], rate=rate, uncounted=["/free"], apart=["/apart"])
    assert await status(guard, **first) == 200
    reply = await ask(guard, **second)
    assert (reply.status, reply.headers.get("retry-after")) == (expected, "1" if expected == 429 else None)


@pytest.mark.parametrize("per_second", [0.25, 0.5, 2.0, 3.0])
def test_a_bucket_holds_the_requests_of_two_seconds(per_second: float) -> None:
    """Against a count by hand, in quarters of a second; at least one request fits."""
    at = [0.0]
    rate = Rate(per_second, lambda: at[0])
    held = size = max(1.0, 2 * per_second)
    for step in range(60):
        is_allowed = held >= 1
        assert rate.allows("a") is is_allowed, step
        held -= is_allowed
        pause = 10.0 if step % 20 == 19 else 0.25 * (step % 3)
        at[0] += pause
        held = min(size, held + pause * per_second)


def test_who_was_idle_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CLIENTS", 2)
    rate = Rate(0.5, lambda: 0.0)
    assert [rate.allows(client) for client in "abab"] == [True, True, False, False]
    assert not rate.allows("a")
    assert rate.allows("c"), "b, which asked before a, makes room"
    assert [rate.allows(client) for client in "ab"] == [False, True]


class Busy:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.has_begun.set()
        await self.may_end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def test_so_many_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is only read counts neither way."""
    monkeypatch.setattr(limits, "MAX_IN_PROGRESS", 2)
    busy = Busy()
    guard = Guard(busy)
    begun: list[asyncio.Task[Reply]] = []
    for method in ("GET", "POST", "GET", "POST"):
        busy.has_begun.clear()
        begun.append(asyncio.create_task(ask(guard, method=method)))
        await busy.has_begun.wait()
    reply = await ask(guard)
    assert (reply.status, reply.headers["retry-after"], reply.failure) == (503, "1", Failure.busy)
    more = asyncio.create_task(ask(guard, method="GET"))
    busy.may_end.set()
    assert [(await task).status for task in (*begun, more)] == [200] * 5
    assert (await ask(guard)).status == 200
    assert guard.in_progress == 0


async def test_an_answer_begins_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 0.05)
    guard = Guard(Busy())
    reply = await ask(guard)
    assert (reply.status, reply.failure, reply.headers.get("retry-after")) == (503, Failure.slow, None)
    assert b"0.05 seconds" in reply.body
    assert guard.in_progress == 0

    async def slow_to_end(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(0.2)
        await send({"type": "http.response.body", "body": b"whole"})

    assert (await ask(Guard(slow_to_end))).body == b"whole"

    async def failing(*_: object) -> None:
        raise TimeoutError("of a database")

    guard = Guard(failing)
    with pytest.raises(TimeoutError, match="of a database"):
        await ask(guard)
    assert guard.in_progress == 0


async def test_a_failure_is_told_by_its_kind() -> None:
    async def app(*_: object) -> None:
        with failing_as("The search does not answer.", Failure.search):
            raise InputError("secret")

    reply = await ask(Guard(app), method="GET")
    assert (reply.status, reply.failure) == (503, Failure.search)
    assert json.loads(reply.body) == {"error": "The search does not answer."}
    scope: Scope = {}
    limits.note_failure(scope, FailureError(Failure.bug, "x"))
    assert scope == {"state": {"failure": Failure.bug}}
    limits.note_failure(scope, HTTPException(404))
    assert scope == {"state": {"failure": Failure.bug}}


def test_why_a_failure_failed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FailureError), failing_as("Later.", Failure.database):
        raise InputError("The disk is full: 100 %s.")
    assert caplog.messages == ["The disk is full: 100 %s."]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False),
     ("192.0.2.1", False), ("example.com", False), ("", False)],
)  # fmt: skip
def test_whose_address_it_is(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("key", "is_fit"),
    [
        (None, True),
        (f"{KEY}b7a1", True),
        (KEY[:15], False),
        (f"{KEY}b7a1" * 20, True),
        (f"{KEY} b7a1c", False),
        (f"{KEY}b7a1\xe4", False),
        (f"{KEY}b7a1\x7f", False),
        ("passwordpassword", False),
        ("password" * 40, False),
    ],
)
def test_keys_that_are_long_enough_and_hard_to_guess(key: str | None, is_fit: bool) -> None:
    if is_fit:
        check_key(key, "KEY_OF_TEST")
        return
    with pytest.raises(InputError, match="KEY_OF_TEST") as error:
        check_key(key, "KEY_OF_TEST")
    assert str(key) not in str(error.value)


@pytest.mark.parametrize("characters", ["0123456789abcdef", string.ascii_lowercase, string.ascii_letters])
def test_random_keys_of_the_length_that_is_asked_for(characters: str) -> None:
    draw = Random(1)
    for _ in range(300):
        check_key("".join(draw.choices(characters, k=MIN_KEY)), "KEY_OF_TEST")


@pytest.mark.parametrize(
    "key",
    [
        "passwordpassword",
        "aaaaaaaaaaaaaaaa",
        "1234567890123456",
        "qwertyuiopasdfgh",
        "correcthorsebatterystaple",
        "passwordpasswordpassword",
        "a" * 24,
    ],
)
def test_keys_that_are_long_and_easily_guessed(key: str) -> None:
    with refused(f"KEY_OF_TEST … {MIN_KEY} … openssl rand -hex 32"):
        check_key(key, "KEY_OF_TEST")
