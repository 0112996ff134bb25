"""ASGI middleware that refuses requests: by API key, host name, rate, size and duration."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ap_ranker.errors import InputError

MAX_BYTES = 16 * 1024
"""Maximum size of a request: a question has at most 1,000 characters, each of up to 12 bytes in JSON."""

ARRIVAL_SECONDS = 10.0
"""Seconds within which a request must arrive: slow ones hold a connection."""

ANSWER_SECONDS = 20.0
"""Seconds after which a request is answered with an error: nobody waits longer."""

MAX_IN_PROGRESS = 1000
"""Maximum number of requests in progress or queued, including those that their client has abandoned."""

KEY_VARIABLE = "AP_RANKER_API_KEY"
MIN_KEY = 16
"""Minimum length of a key in characters."""

MAX_CLIENTS = 10_000
"""Maximum number of clients whose requests are counted; the longest idle one is forgotten first."""


def is_loopback(host: str) -> bool:
    """Whether an address or host name is this machine's own loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ignore(reason: str) -> None:
    """The default callback for refusals."""


def read_key(environment: Mapping[str, str]) -> str | None:
    """Read the API key from the environment; `None` if there is none.

    Raises:
        InputError: as for `check_key`.
    """
    key = environment.get(KEY_VARIABLE)
    check_key(key, KEY_VARIABLE)
    return key


def check_key(key: str | None, name: str) -> None:
    """Check a key.

    Args:
        key: the key; `None` if there is none.
        name: of the variable that holds it.

    Raises:
        InputError: it is too short, or has characters that a header cannot hold.
    """
    if key is not None and not (len(key) >= MIN_KEY and key.isascii() and key.isprintable() and " " not in key):
        raise InputError(
            f"Expected {name} to hold a key of at least {MIN_KEY} ASCII characters without spaces, found {len(key)} "
            "characters or others. Make one: openssl rand -hex 32. Without a key, unset the variable."
        )


class ApiKey:
    """Refuses requests without the key, except for public paths."""

    def __init__(
        self, app: ASGIApp, key: str | None, public: Collection[str], refused: Callable[[str], None] = _ignore
    ) -> None:
        self.app = app
        self.key = None if key is None else key.encode()
        self.public = frozenset(public)
        self.refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self.public or self._accepts(Headers(scope=scope)):
            await self.app(scope, receive, send)
        else:
            self.refused("api_key")
            sentence = "Expected the server's key in the header 'Authorization: Bearer KEY', found none or another."
            await JSONResponse({"error": sentence}, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    def _accepts(self, headers: Headers) -> bool:
        if self.key is None:
            return True
        scheme, _, key = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(key.strip().encode("latin-1"), self.key)


class AllowedHosts:
    """Refuses requests whose host name is not the server's.

    Otherwise a site whose name resolves to this machine (DNS rebinding) could read, in a visitor's browser, what only
    this machine may read. IP addresses are always accepted: requests of such a site carry its name.
    """

    def __init__(self, app: ASGIApp, names: Collection[str], refused: Callable[[str], None] = _ignore) -> None:
        self.app = app
        self.names = {"localhost", *(name.lower() for name in names)}
        self.refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_ours(host := Headers(scope=scope).get("host", "")):
            sentence = (
                f"Expected a request for {', '.join(sorted(self.names))} or an IP address, found one for {host!r}. "
                "Whoever runs the server can allow a name with --allowed-host."
            )
            self.refused("host")
            await JSONResponse({"error": sentence}, 400)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""  # without the port and an IPv6 address's brackets
            return name in self.names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


class Rate:
    """A token bucket for each client, which holds two seconds' worth of requests.

    Args:
        per_second: long-term number of requests per second and client.
        clock: returns seconds since any origin.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._size = max(1.0, 2 * per_second)
        self._clock = clock
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def copy(self) -> Rate:
        """The same limit, which has not counted anything."""
        return Rate(self.per_second, self._clock)

    def allows(self, client: str) -> bool:
        """Whether the client may send a request now; counts it if so."""
        now = self._clock()
        tokens, last = self._clients.pop(client, (self._size, now))
        tokens = min(self._size, tokens + (now - last) * self.per_second)
        allowed = tokens >= 1
        self._clients[client] = (tokens - allowed, now)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return allowed


REASONS = {429: "rate", 503: "busy", 415: "content_type", 413: "too_large", 408: "slow"}


class Limits:
    """Refuses POST requests that are too many, too large, too slow or not JSON, and ends those that take too long.

    Args:
        app: the application.
        rate: limits the rate of each client; `None` for any rate.
        apart: paths whose requests are counted apart from the others, with the same limit.
        larger: path -> maximum size of a request in bytes, instead of `MAX_BYTES`.
        forms: paths that take a form instead of JSON, and check themselves which site sends it.
        refused: called with the reason of each refusal.
    """

    def __init__(
        self,
        app: ASGIApp,
        rate: Rate | None,
        apart: Collection[str] = (),
        larger: Mapping[str, int] = MappingProxyType({}),
        forms: Collection[str] = (),
        refused: Callable[[str], None] = _ignore,
    ) -> None:
        self.app = app
        self.rate = rate
        self.rates_apart = {} if rate is None else {path: rate.copy() for path in apart}
        self.larger = larger
        self.forms = frozenset(forms)
        self.refused = refused
        self.in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        status, body = await self._read(scope, receive)
        if isinstance(body, str):
            self.refused(REASONS[status])
            headers = {"Retry-After": "1"} if status in (429, 503) else {"Connection": "close"}
            await JSONResponse({"error": body}, status, headers)(scope, receive, send)
            return
        self.in_progress += 1
        try:
            await self._answer(scope, _replay(body, receive), send)
        finally:
            self.in_progress -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def track(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.app(scope, receive, track)
        except TimeoutError:
            if started:
                raise
            self.refused("timeout")
            sentence = f"The search took longer than {ANSWER_SECONDS:g} seconds. Try again."
            await JSONResponse({"error": sentence}, 503)(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive) -> tuple[int, str | bytes]:
        """Status 200 and the body, or the status and the message of a refusal."""
        headers = Headers(scope=scope)
        client = scope.get("client")
        rate = self.rates_apart.get(scope.get("path", ""), self.rate)
        if rate is not None and not rate.allows(client[0] if client else ""):
            return 429, f"Too many requests: expected at most {rate.per_second:g} per second. Wait a moment."
        if self.in_progress >= MAX_IN_PROGRESS:
            return 503, "Too many requests are being answered. Wait a moment."
        # Another site's page can send a form without a preflight request, but not JSON.
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        path = scope.get("path", "")
        expected = "application/x-www-form-urlencoded" if path in self.forms else "application/json"
        if kind != expected:
            return 415, f"Expected the content type {expected}, found {kind or 'none'}."
        most = self.larger.get(path, MAX_BYTES)
        too_large = f"Expected a request of at most {most:,} bytes, found a larger one."
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > most:
            return 413, too_large
        try:
            async with asyncio.timeout(ARRIVAL_SECONDS):
                body = await _body(receive, most)
        except TimeoutError:
            return 408, f"Expected the whole request within {ARRIVAL_SECONDS:g} seconds."
        return (413, too_large) if body is None else (200, body)


async def _body(receive: Receive, most: int) -> bytes | None:
    """Read the body until the request ends or the client disconnects; `None` if it is too large."""
    body = b""
    while len(body) <= most:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            break
    return body if len(body) <= most else None


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body again, and then what follows it."""
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
