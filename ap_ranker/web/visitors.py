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

MOST_TOLD = 32
"""Maximum number of addresses of X-Forwarded-For that are looked at, from the last one on. A client may send what it
likes before these: 40,000 addresses in one request held the server for two seconds."""

LONGEST_TOLD = 64
"""Maximum number of characters of each that are looked at."""

PROXIES = "FORWARDED_ALLOW_IPS"
"""The environment variable that names web servers in front of this one."""

LOOPBACK = "127.0.0.1,::1"
"""Where these are by default."""


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
                n_bits = 24 if ip.version == 4 else 48
                name = str(ipaddress.ip_network((ip, n_bits), strict=False))
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
        row = key | {"used": 1}
        self._database.upsert(connection, quotas, row=row, keys=list(key), used=quotas.c.used + 1)
        used: int = connection.scalar(select(quotas.c.used).filter_by(**key)) or 0
        return used <= QUOTAS[kind]


def _plain(address: str) -> str:
    """An address without the port that some web servers tell, and as one of IPv4 if it is one written as IPv6."""
    address = _PORT.sub(r"\1\2", address)
    try:
        return str(getattr(ipaddress.ip_address(address), "ipv4_mapped", None) or address)
    except ValueError:
        return address


def _last_addresses(header: str) -> Iterator[str]:
    """The addresses of a list, the last one first; only so many, and so much of each, as web servers tell."""
    end_of_header = header[-MOST_TOLD * LONGEST_TOLD :]
    parts = end_of_header.rsplit(",", MOST_TOLD)[-MOST_TOLD:]
    for part in reversed(parts):
        address = _plain(part.strip()[:LONGEST_TOLD])
        if address:
            yield address


class BehindProxies:
    """ASGI middleware: a request from a trusted web server is its client's, as that server's headers tell.

    X-Forwarded-For and X-Forwarded-Proto have the client's address and scheme. Of several addresses, the last one
    counts that is no web server's: a client can send any before it. What others send is ignored.

    Two things get into the request's state. `identity` is what `header` has, such as `X-Remote-User`; it is empty
    without one that can be believed. `is_local` tells whether a program of this machine sends the request for itself:
    it connects from here, and no header tells of a client behind it.

    The environment variable FORWARDED_ALLOW_IPS has the trusted addresses or networks, separated by commas, or `*` for
    whoever connects (InputError: anything else); without it, this machine is trusted.
    """

    def __init__(self, app: ASGIApp, header: str = "") -> None:
        self._app = app
        self._header = header
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
            headers = Headers(scope=scope)
            client = scope.get("client")
            is_local = client is not None and is_loopback(_plain(client[0])) and not self._is_forwarded(headers)
            identity = ""
            if self._anybody or (client and self._trusts(_plain(client[0]))):
                self._believe(headers, scope)
                identity = self._identity(headers)
            scope["state"] = {**scope.get("state", {}), "identity": identity, "is_local": is_local}
        await self._app(scope, receive, send)

    def _believe(self, headers: Headers, scope: Scope) -> None:
        """Let a request be its client's, as the headers of a trusted web server tell."""
        forwarded_for = ",".join(headers.getlist("x-forwarded-for"))
        for address in _last_addresses(forwarded_for):
            if not self._trusts(address):
                scope["client"] = (address, 0)
                break
        scheme = headers.get("x-forwarded-proto", "")
        if scheme in ("http", "https"):
            scope["scheme"] = scheme

    def _identity(self, headers: Headers) -> str:
        identities = headers.getlist(self._header) if self._header else []
        return identities[0] if len(identities) == 1 else ""  # of two, one may have come from the visitor

    def _is_forwarded(self, headers: Headers) -> bool:
        """Whether any header tells of a web server, be it trusted or not."""
        names = {*FORWARDING, self._header.lower()}
        return any(name in names or name.startswith("x-forwarded") for name in headers)

    def _trusts(self, address: str) -> bool:
        try:
            return any(ipaddress.ip_address(address) in network for network in self._networks)
        except ValueError:
            return False
