"""Who a visitor is, as far as a server needs to know: which network a request comes from, and what it may still do.

No address is kept: a network is known by a keyed hash, and what it used of a day's quota is forgotten with the day.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
from typing import Any, Final, cast

from sqlalchemy import Connection, delete, select
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from ap_ranker.web.database import Database, now, quotas

QUOTAS: Final = {"judgement": 300, "comment": 30, "question": 3000}
"""Kind -> how many of them one network may leave in a day: many people may share an address."""

DAY = 24 * 3600


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
                ip = ipaddress.ip_address(address)
                ip = getattr(ip, "ipv4_mapped", None) or ip
                name = str(ipaddress.ip_network((ip, 24 if ip.version == 4 else 48), strict=False))
            except ValueError:  # of a socket of this machine
                name = address
        return hmac.digest(self._secret, name.encode("utf-8", "surrogateescape"), "sha256").hex()[:32]

    def network_of(self, request: HTTPConnection) -> str:
        """The network of a request, by what `IdentityHeader` found."""
        address = request.client.host if request.client else ""
        return self.network(address, getattr(request.state, "identity", ""))

    def takes(self, connection: Connection, network: str, kind: str) -> bool:
        """Take one of a network's quota for today, in a transaction; `False` if it has used all of it."""
        today = now() // DAY
        key = {"day": today, "network": network, "kind": kind}
        connection.execute(delete(quotas).where(quotas.c.day < today))
        self._database.upsert(connection, quotas, key | {"used": 1}, list(key), used=quotas.c.used + 1)
        matches = [quotas.c[name] == value for name, value in key.items()]
        used: int = connection.scalar(select(quotas.c.used).where(*matches)) or 0
        return used <= QUOTAS[kind]


def behind_proxies(app: ASGIApp) -> ASGIApp:
    """The application with the addresses and schemes that web servers in front of it tell.

    Those whose addresses are in the environment variable FORWARDED_ALLOW_IPS, by default 127.0.0.1, are believed.
    """
    trusted = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
    return cast(ASGIApp, ProxyHeadersMiddleware(cast(Any, app), trusted))


class IdentityHeader:
    """ASGI middleware: visitors' identities as web servers in front of this one tell them, and all that these may tell.

    What others send is ignored. It is the outermost middleware, as it needs the address that a connection comes from.
        header: that has the identity, such as `X-Remote-User`; empty if none has.
    """

    def __init__(self, app: ASGIApp, header: str = "") -> None:
        self._app, self._probe = behind_proxies(app), behind_proxies(_nowhere)
        self._header = header.lower().encode("latin-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the `identity` in its state; empty without one that can be believed."""
        if scope["type"] == "http":
            told = [value for name, value in scope["headers"] if name == self._header]
            # Of two, one may have come from the visitor.
            identity = told[0] if len(told) == 1 and await self._believes(scope, receive, send) else b""
            scope["state"] = {**scope.get("state", {}), "identity": identity.decode("latin-1")}
        await self._app(scope, receive, send)

    async def _believes(self, scope: Scope, receive: Receive, send: Send) -> bool:
        asked: dict[str, Any] = {"type": "http", "scheme": "http", "client": scope.get("client")}
        asked["headers"] = [(b"x-forwarded-proto", b"https")]
        await self._probe(asked, receive, send)
        return asked["scheme"] == "https"


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    pass
