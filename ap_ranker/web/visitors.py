"""Who a visitor is, as far as a server needs to know: which network a request comes from, and what it may still do.

No address is kept: a network is known by a keyed hash, and what it used of a day's quota is forgotten with the day.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, delete, select
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ap_ranker.errors import InputError
from ap_ranker.web.database import Database, now, quotas
from ap_ranker.web.limits import is_loopback

QUOTAS: Final = {"judgement": 300, "comment": 30, "question": 3000}
"""Kind -> how many of them one network may leave in a day: many people may share an address."""

DAY = 24 * 3600

_PORT = re.compile(r"^\[([^\]]*)\](?::\d+)?$|^([\d.]+):\d+$")
"""An address with a port, as some web servers tell it; of each port there would be another visitor."""

FORWARDING = ("forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip", "x-client-ip")
"""Headers by which a web server tells that it is one, beside those that begin with `x-forwarded`."""

MOST_TOLD, LONGEST_TOLD = 32, 64
"""Addresses of X-Forwarded-For that are looked at, from the last one on, and characters of each. A client may send what
it likes before these: 40,000 addresses in one request held the server for two seconds."""

PROXIES, LOOPBACK = "FORWARDED_ALLOW_IPS", "127.0.0.1,::1"
"""The environment variable that names web servers in front of this one, and where they are by default."""


class Visitors:
    """The networks of visitors of a website, and their quotas."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._secret = database.secret()

    def network(self, address: str, identity: str = "") -> str:
        """The hash of a visitor's network: of an address, its first 24 bits (IPv6: 48).

        An `identity` that a trusted web server vouches for counts instead: a company's people share one address.
        """
        if identity:
            name = f"identity {identity}"
        else:
            try:
                ip = ipaddress.ip_address(_plain(address))
                name = str(ipaddress.ip_network((ip, 24 if ip.version == 4 else 48), strict=False))
            except ValueError:  # of a socket of this machine
                name = address
        return hmac.digest(self._secret, name.encode("utf-8", "surrogateescape"), "sha256").hex()[:32]

    def network_of(self, request: HTTPConnection) -> str:
        """The network of a request, by what `BehindProxies` found."""
        address = request.client.host if request.client else ""
        return self.network(address, getattr(request.state, "identity", ""))

    def takes(self, connection: Connection, network: str, kind: str) -> bool:
        """Take one of a network's quota for today, in a transaction; `False` if it has used all of it."""
        today = now() // DAY
        key = {"day": today, "network": network, "kind": kind}
        connection.execute(delete(quotas).where(quotas.c.day < today))
        self._database.upsert(connection, quotas, key | {"used": 1}, list(key), used=quotas.c.used + 1)
        used: int = connection.scalar(select(quotas.c.used).filter_by(**key)) or 0
        return used <= QUOTAS[kind]


def _plain(address: str) -> str:
    """An address without the port that some web servers tell, and as one of IPv4 if it is one written as IPv6."""
    address = _PORT.sub(r"\1\2", address)
    try:
        return str(getattr(ipaddress.ip_address(address), "ipv4_mapped", None) or address)
    except ValueError:
        return address


def _last_addresses(told: str) -> Iterator[str]:
    """The addresses of a list, the last one first; only so many, and so much of each, as web servers tell."""
    parts = told[-MOST_TOLD * LONGEST_TOLD :].rsplit(",", MOST_TOLD)[-MOST_TOLD:]
    for part in reversed(parts):
        if address := _plain(part.strip()[:LONGEST_TOLD]):
            yield address


class BehindProxies:
    """ASGI middleware: a request from a trusted web server is its client's, as that server's headers tell.

    X-Forwarded-For and X-Forwarded-Proto have the client's address and scheme; of several addresses, the last one
    counts that is no web server's, since a client can send any before it. What others send is ignored. The identity is
    in the request's state, empty without one that can be believed. `header` has it, such as `X-Remote-User`.

    Also in the state, `is_local` tells whether a program of this machine sends the request for itself: it connects
    from here, and no header tells of a client behind it.

    The environment variable FORWARDED_ALLOW_IPS has the trusted addresses or networks, separated by commas, or `*` for
    whoever connects (InputError: anything else); without it, this machine is trusted.
    """

    def __init__(self, app: ASGIApp, header: str = "") -> None:
        self._app, self._header = app, header
        if not re.fullmatch(r"[\w-]*", header):
            raise InputError(f"Expected --identity-header as a name such as X-Forwarded-User, found {header!r}.")
        proxies = os.environ.get(PROXIES, LOOPBACK)
        names = [name.strip() for name in proxies.split(",") if name.strip()]
        self._anybody = "*" in names
        try:
            self._networks = [ipaddress.ip_network(name) for name in names if name != "*"]
        except ValueError as error:
            raise InputError(f"Expected {PROXIES} to hold addresses, networks or *, found {proxies!r}.") from error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as its client's."""
        if scope["type"] == "http":
            headers, client, identity = Headers(scope=scope), scope.get("client"), ""
            is_local = client is not None and is_loopback(_plain(client[0])) and not self._is_forwarded(headers)
            if self._anybody or (client and self._trusts(_plain(client[0]))):
                told = _last_addresses(",".join(headers.getlist("x-forwarded-for")))
                if found := next((each for each in told if not self._trusts(each)), ""):
                    scope["client"] = (found, 0)
                if (scheme := headers.get("x-forwarded-proto", "")) in ("http", "https"):
                    scope["scheme"] = scheme
                identities = headers.getlist(self._header) if self._header else []
                identity = identities[0] if len(identities) == 1 else ""  # of two, one may have come from the visitor
            scope["state"] = {**scope.get("state", {}), "identity": identity, "is_local": is_local}
        await self._app(scope, receive, send)

    def _is_forwarded(self, headers: Headers) -> bool:
        """Whether any header tells of a web server, be it trusted or not."""
        names = {*FORWARDING, self._header.lower()}
        return any(name in names or name.startswith("x-forwarded") for name in headers)

    def _trusts(self, address: str) -> bool:
        try:
            return any(ipaddress.ip_address(address) in network for network in self._networks)
        except ValueError:
            return False
