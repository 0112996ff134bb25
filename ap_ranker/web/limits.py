"""Refuses requests by host name, API key, rate, size and duration."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from types import MappingProxyType
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ap_ranker.errors import InputError

logger = logging.getLogger(__name__)

MAX_BYTES = 16 * 1024
"""Maximum size of a request: a question has at most 1,000 characters, each of up to 12 bytes in JSON."""

MAX_PARTS = 2000
"""Maximum number of parts in which a request may arrive: of one byte each, they keep the server busy for seconds."""

ARRIVAL_SECONDS = 10.0
"""Seconds within which a request must arrive: slow ones hold a connection."""

ANSWER_SECONDS = 20.0
"""Seconds after which a request is answered with an error: nobody waits longer."""

MAX_IN_PROGRESS = 1000
"""Maximum number of requests in progress or queued, including those that their client has abandoned."""

KEY_VARIABLE = "AP_RANKER_API_KEY"
"""The environment variable that holds the key of the API."""

OWNER_VARIABLE = "AP_RANKER_OWNER_KEY"
"""The environment variable that holds the key of the owner's page."""

MIN_GUESSES = 1e18
"""Minimum number of guesses that find a key, as zxcvbn counts them: at most ten for each character."""

MIN_KEY = 24
"""Number of random characters, even of hexadecimal digits, that always take as many: of 20, every 35th key takes fewer,
as zxcvbn sees dates and sequences in it. A shorter key is refused only if it does."""

MAX_CLIENTS = 10_000
"""Maximum number of clients whose requests are counted; the longest idle one is forgotten first."""


def is_loopback(host: str) -> bool:
    """Whether an address or host name is this machine's own loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_key(key: str | None, name: str) -> None:
    """Refuse (InputError) a key of a variable that is easily guessed, or has characters that a header cannot hold."""
    if key is None:
        return
    from zxcvbn import zxcvbn  # its dictionaries are for servers with keys

    fits = key != "" and key.isascii() and key.isprintable() and " " not in key
    if fits and zxcvbn(key[:72])["guesses"] >= MIN_GUESSES:  # of more characters it estimates nothing
        return
    expected = f"Expected {name} to hold a key of at least {MIN_KEY} random ASCII characters without spaces"
    problem = "found one that is easily guessed"
    if len(key) < MIN_KEY:
        problem = f"found {len(key)} characters"
    elif not fits:
        problem = "found a space or another character that no header can hold"
    raise InputError(f"{expected}, {problem}. Make one: openssl rand -hex 32. Without a key, unset the variable.")


class Rate:
    """A token bucket for each client, which holds two seconds' worth of requests."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._clock = clock
        self._size = max(1.0, 2 * per_second)
        self._clients: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def allows(self, client: Hashable) -> bool:
        """Whether the client may send a request now; counts it if so."""
        now = self._clock()
        tokens, last = self._clients.pop(client, (self._size, now))
        tokens = min(self._size, tokens + (now - last) * self.per_second)
        allowed = tokens >= 1
        self._clients[client] = (tokens - allowed, now)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return allowed


_NAME = re.compile(r"[\w.-]+|[0-9a-f:.]*(%\w+)?")
"""A host name or an address, or none: what a request's Host holds without its port."""

AGAIN = {"Retry-After": "1"}
"""The headers of a refusal after which a client may try again soon."""

CLOSED = {"Connection": "close"}
"""The headers of a refusal whose request has not been read to its end."""

TOO_MANY = "Too many requests are being answered. Wait a moment."


class Failure(StrEnum):
    """Why a server did not answer, by kind; no request chooses it."""

    slow = "slow"  # the answer took longer than `ANSWER_SECONDS`
    busy = "busy"  # more requests than it answers at once
    search = "search"  # the search, its store or its processes
    database = "database"  # of the website
    bug = "bug"  # an error that nobody expected


class FailureError(HTTPException):
    """Status 503 with a sentence. It is counted by its kind (`monitoring.Measure`)."""

    def __init__(self, kind: Failure, sentence: str) -> None:
        super().__init__(503, sentence, AGAIN if kind is Failure.busy else None)
        self.kind = kind


def note_failure(scope: Scope, error: HTTPException) -> None:
    """Let `monitoring.Measure`, which is outside of what answers, know of what kind a failure is."""
    if isinstance(error, FailureError):
        scope.setdefault("state", {})["failure"] = error.kind


class Guard:
    """ASGI middleware that refuses requests, and ends those whose answer takes too long.

    It refuses a request that names another host, that lacks the key, or that is one of too many; and a POST request
    that is too large or arrives too slowly.

    Names of hosts are checked because of DNS rebinding: a site whose name resolves to this machine could otherwise
    read, in a visitor's browser, what only this machine may read. IP addresses are always accepted: requests of such a
    site carry its name.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: Collection[str] = (),  # accepted host names, in addition to `localhost`
        key: str | None = None,  # what all but the `public` paths require
        public: Collection[str] = (),
        rate: Rate | None = None,  # of each client's requests
        uncounted: Collection[str] = (),  # paths that may be read at any rate, as whoever has the key may read all
        apart: Collection[str] = (),  # paths whose requests are counted apart from the others, with the same limit
        larger: Mapping[str, int] = MappingProxyType({}),  # path -> maximum size in bytes, instead of `MAX_BYTES`
        forms: Collection[str] = (),  # paths that take a form, not JSON, and check themselves which site sends it
        local: Collection[str] = (),  # paths that without a key only this machine itself may read
    ) -> None:
        self.app = app
        self.key = None if key is None else key.encode()
        self.public = frozenset(public)
        self.rate = rate
        self.uncounted = frozenset(uncounted)
        self.apart = apart
        self.larger = larger
        self.forms = frozenset(forms)
        self.local = frozenset(local)
        self.in_progress = 0
        self.names = {"localhost", *map(str.lower, names)}
        for name in self.names:
            if not _NAME.fullmatch(name):  # it would be no request's
                raise InputError(f"Expected --allowed-host as a name alone, such as faq.example.com, found {name!r}.")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            self._check_head(request)
            body = await self._body(request) if request.method == "POST" else None
            await self._answer(scope, body, receive=receive, send=send)
        except HTTPException as refusal:
            note_failure(scope, refusal)
            answer = JSONResponse({"error": refusal.detail}, refusal.status_code, refusal.headers)
            await answer(scope, receive, send)

    def _check_head(self, request: Request) -> None:
        """HTTPException if a request is refused whatever its body is."""
        if {"content-length", "transfer-encoding"}.issubset(request.headers):
            # A web server in front may have believed the other one, and what follows is no request of its client.
            raise HTTPException(400, "Expected a length or an encoding of the transfer, found both.", CLOSED)
        self._check_host(request.headers.get("host", ""))
        path = request.scope["path"]
        has_key = self._has_key(request)
        if request.method == "POST" or not (has_key or path in self.uncounted):
            self._check_rate(request)
        if not has_key and self.key is not None and path not in self.public:
            sentence = "Expected the server's key in the header 'Authorization: Bearer KEY', found none or another."
            raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})
        if self.key is None and path in self.local and not _is_local(request):
            advice = f"Whoever runs the server can set a key in {KEY_VARIABLE}, with which others may read it."
            raise HTTPException(403, f"Expected a request from the server's own machine, found another. {advice}")

    def _check_host(self, host: str) -> None:
        try:
            name = urlsplit(f"//{host}").hostname or ""  # without the port and an IPv6 address's brackets
            if name in self.names or ipaddress.ip_address(name):
                return
        except ValueError:
            pass
        expected = f"Expected a request for {', '.join(sorted(self.names))} or an IP address, found one for {host!r}."
        raise HTTPException(400, f"{expected} Whoever runs the server can allow a name with --allowed-host.")

    def _check_rate(self, request: Request) -> None:
        path = request.scope["path"]
        counted_apart = path if path in self.apart else ""
        client = (_client(request), counted_apart)
        if self.rate is not None and not self.rate.allows(client):
            sentence = f"Too many requests: expected at most {self.rate.per_second:g} per second. Wait a moment."
            raise HTTPException(429, sentence, AGAIN)
        if request.method == "POST" and self.in_progress >= MAX_IN_PROGRESS:
            raise FailureError(Failure.busy, TOO_MANY)

    def _has_key(self, request: Request) -> bool:
        key = bearer_key(request.headers) or ""
        return self.key is not None and hmac.compare_digest(key.encode("latin-1"), self.key)

    async def _body(self, request: Request) -> bytes:
        # Another site's page can send a form without a preflight request, but not JSON.
        path = request.scope["path"]
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        expected = "application/x-www-form-urlencoded" if path in self.forms else "application/json"
        if kind != expected:
            raise HTTPException(415, f"Expected the content type {expected}, found {kind or 'none'}.", CLOSED)
        most = self.larger.get(path, MAX_BYTES)
        size = 0
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(ARRIVAL_SECONDS):
                async for part in request.stream():
                    if part:  # the last one is empty, and none of the client's
                        parts.append(part)
                    size += len(part)
                    if size > most or len(parts) > MAX_PARTS:
                        expected = f"Expected a request of at most {most:,} bytes in {MAX_PARTS:,} parts"
                        raise HTTPException(413, f"{expected}, found a larger one.", CLOSED)
        except (TimeoutError, ClientDisconnect) as error:
            slow = f"Expected the whole request within {ARRIVAL_SECONDS:g} seconds."
            raise HTTPException(408, slow, CLOSED) from error
        return b"".join(parts)

    async def _answer(self, scope: Scope, body: bytes | None, receive: Receive, send: Send) -> None:
        """Answer a request whose body has been read, or is none: its answer begins in time."""
        is_read = body is None

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send_in_time(message: Message) -> None:
            timer.reschedule(None)  # for whoever takes it slowly, `connections` has limits
            await send(message)

        self.in_progress += body is not None
        try:
            async with asyncio.timeout(ANSWER_SECONDS) as timer:
                await self.app(scope, replay, send_in_time)
        except TimeoutError as error:
            if not timer.expired():
                raise
            sentence = f"The answer took longer than {ANSWER_SECONDS:g} seconds. Try again."
            raise FailureError(Failure.slow, sentence) from error
        finally:
            self.in_progress -= body is not None


@contextmanager
def failing_as(sentence: str, kind: Failure) -> Iterator[None]:
    """FailureError with this sentence in place of an InputError, which is logged: the client is not at fault."""
    try:
        yield
    except InputError as error:
        logger.error("%s", error)
        raise FailureError(kind, sentence) from error


def bearer_key(headers: Headers) -> str | None:
    """The key of a header `Authorization: Bearer KEY`; `None` if there is none."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def _is_local(request: Request) -> bool:
    """Whether a request comes from this machine, not through a web server on it (`visitors.BehindProxies`).

    It must also name this machine as its host: a web server that tells nothing of its clients at least sends on the
    name that they asked for.
    """
    name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    return is_loopback(name) and getattr(request.state, "is_local", False)


def _client(request: Request) -> str:
    """A client's address; of IPv6 the network of 64 bits, all of which one client may use."""
    address = request.client.host if request.client else ""
    try:
        return str(ipaddress.IPv6Network(address).supernet(new_prefix=64))
    except ValueError:
        return address
