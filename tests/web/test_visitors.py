"""Whose requests are whose: by address, or by an identity that only a trusted web server may tell."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from ap_ranker.web.database import open_database
from ap_ranker.web.visitors import BehindProxies, Visitors

from .visiting import visit

PROXY, STRANGER, CLIENT = "10.0.0.1", "203.0.113.9", "198.51.100.7"
ANNA = {"X-Remote-User": "anna"}
FORWARDED = {"X-Forwarded-For": CLIENT, "X-Forwarded-Proto": "https"}


@pytest.fixture(params=["10.0.0.1", "127.0.0.1, 10.0.0.0/8"])
def trusted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", request.param)


def network(folder: Path, address: str, headers: dict[str, str], header: str = "x-remote-user") -> str:
    """The network that a request has, and its scheme."""
    visitors = Visitors(open_database(folder / "faq.db"))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        await PlainTextResponse(f"{visitors.network_of(request)} {request.url.scheme}")(scope, receive, send)

    return visit(BehindProxies(app, header), address).get("/", headers=headers).text


@pytest.mark.usefixtures("trusted")
def test_a_trusted_web_server_tells_who_it_is(tmp_path: Path) -> None:
    known = Visitors(open_database(tmp_path / "faq.db"))
    assert network(tmp_path, PROXY, ANNA) == f"{known.network('', 'anna')} http"
    assert network(tmp_path, PROXY, ANNA | FORWARDED) == f"{known.network('', 'anna')} https"
    assert network(tmp_path, PROXY, FORWARDED) == f"{known.network(CLIENT)} https"
    assert network(tmp_path, PROXY, {"X-Remote-User": ""} | FORWARDED) == f"{known.network(CLIENT)} https"
    assert network(tmp_path, PROXY, ANNA | FORWARDED, header="") == f"{known.network(CLIENT)} https"


@pytest.mark.usefixtures("trusted")
def test_nobody_else_does(tmp_path: Path) -> None:
    """Neither by the identity's header, nor by naming a trusted address, nor by a second header."""
    known = Visitors(open_database(tmp_path / "faq.db"))
    stranger = f"{known.network(STRANGER)} http"
    assert network(tmp_path, STRANGER, ANNA) == stranger
    assert network(tmp_path, STRANGER, ANNA | FORWARDED) == stranger
    assert network(tmp_path, STRANGER, ANNA | {"X-Forwarded-For": PROXY}) == stranger


@pytest.mark.usefixtures("trusted")
def test_two_headers_are_none(tmp_path: Path) -> None:
    """A web server that adds its header to the visitor's own one cannot be told from the visitor."""
    states: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        states.append(scope["state"]["identity"])
        await PlainTextResponse("")(scope, receive, send)

    client = visit(BehindProxies(app, "X-Remote-User"), PROXY)
    client.get("/", headers=[("X-Remote-User", "anna"), ("X-Remote-User", "bert")])
    client.get("/", headers=[("X-Remote-User", "anna")])
    assert states == ["", "anna"]
