"""Refuses requests by host name, API key, rate, size and duration."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
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

KEY_VARIABLE, OWNER_VARIABLE = "AP_RANKER_API_KEY", "AP_RANKER_OWNER_KEY"
"""Environment variables that hold the key of the API, and that of the owner's page."""

MIN_KEY, MIN_BITS = 16, 64.0
"""Minimum length of a key in characters, and minimum estimate of its bits."""

_CONSONANTS = "bcdfghjklmnpqrstvwxyz"
_READABLE = re.compile(
    rf"(?=[A-Z]?[a-z]{{3}})[A-Z]?(?:[{_CONSONANTS}]{{0,3}}[aeiou]{{1,2}})+[{_CONSONANTS}]{{0,2}}"  # Word, word
    rf"|(?=[A-Z]{{4}})(?i:[{_CONSONANTS}]{{0,3}}[aeiou]{{1,2}})+"
)
_FORWARD = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiop", "qwertzuiop", "asdfghjkl", "yxcvbnm", "zxcvbnm")
_ROWS = (*_FORWARD, *(row[::-1] for row in _FORWARD))

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
    fits = len(key) >= MIN_KEY and key.isascii() and key.isprintable() and " " not in key
    if not fits or strength(key) < MIN_BITS:
        expected = f"Expected {name} to hold a key of at least {MIN_KEY} random ASCII characters without spaces"
        found = f"found {len(key)} characters" if not fits else "found one that is easily guessed"
        raise InputError(f"{expected}, {found}. Make one: openssl rand -hex 32. Without a key, unset the variable.")


def strength(key: str) -> float:
    """An estimate of the bits of a key, rather too low: what can be read tells 1.5 bits a letter, each word once.

    A digit tells 3.3 bits and any other character 4.7, but nothing where three characters repeat earlier ones (aaaa,
    abab), or follow each other in the alphabet, in the digits or on a keyboard.
    """
    bits = 1.5 * sum(map(len, {word.lower() for word in _READABLE.findall(key)}))
    rest = "  " + _READABLE.sub("  ", key).lower()
    seen = set()
    for three in map("".join, zip(rest, rest[1:], rest[2:], strict=False)):
        if three[2] != " " and three not in seen and not any(three in row for row in _ROWS):
            bits += 3.3 if three[2].isdigit() else 4.7
        seen.add(three)
    return bits


class Rate:
    """A token bucket for each client, which holds two seconds' worth of requests."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self._clock = per_second, clock
        self._size = max(1.0, 2 * per_second)
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

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


@dataclass(eq=False)
class Refusal(Exception):  # noqa: N818  it is an answer
    """A request is refused: why, and the answer to it."""

    reason: str
    status: int
    sentence: str
    headers: Mapping[str, str] | None = None


AGAIN, CLOSED = {"Retry-After": "1"}, {"Connection": "close"}


class Guard:
    """ASGI middleware that refuses requests of another host's name, without the key, and POST requests that are too
    many, too large or too slow; those that take too long it ends.

    A site whose name resolves to this machine (DNS rebinding) could otherwise read, in a visitor's browser, what only
    this machine may read. IP addresses are always accepted: requests of such a site carry its name.
        refused: called with the reason of each refusal.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: Collection[str] = (),  # accepted host names, in addition to `localhost`
        key: str | None = None,  # what all but the `public` paths require
        public: Collection[str] = (),
        rate: Rate | None = None,  # of each client's POST requests
        apart: Collection[str] = (),  # paths whose requests are counted apart from the others, with the same limit
        larger: Mapping[str, int] = MappingProxyType({}),  # path -> maximum size in bytes, instead of `MAX_BYTES`
        forms: Collection[str] = (),  # paths that take a form, not JSON, and check themselves which site sends it
        refused: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.app, self.rate, self.larger, self.refused = app, rate, larger, refused
        self.names = {"localhost", *(name.lower() for name in names)}
        self.key = None if key is None else key.encode()
        self.public, self.forms = frozenset(public), frozenset(forms)
        self.rates_apart = {} if rate is None else {path: Rate(rate.per_second) for path in apart}
        self.in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        posts, headers = scope["method"] == "POST", Headers(scope=scope)
        try:
            self._check_host(headers.get("host", ""))
            if posts:
                self._check_rate(scope)
            self._check_key(scope["path"], headers.get("authorization", ""))
            if not posts:
                await self.app(scope, receive, send)
                return
            body = await self._body(scope["path"], headers, receive)
            self.in_progress += 1
            try:
                await self._answer(scope, _replay(body, receive), send)
            finally:
                self.in_progress -= 1
        except Refusal as refusal:
            self.refused(refusal.reason)
            await JSONResponse({"error": refusal.sentence}, refusal.status, refusal.headers)(scope, receive, send)

    def _check_host(self, host: str) -> None:
        try:
            name = urlsplit(f"//{host}").hostname or ""  # without the port and an IPv6 address's brackets
            if name in self.names or ipaddress.ip_address(name):
                return
        except ValueError:
            pass
        raise Refusal(
            "host",
            400,
            f"Expected a request for {', '.join(sorted(self.names))} or an IP address, found one for {host!r}. "
            "Whoever runs the server can allow a name with --allowed-host.",
        )

    def _check_rate(self, scope: Scope) -> None:
        rate = self.rates_apart.get(scope["path"], self.rate)
        if rate is not None and not rate.allows(_client(scope)):
            sentence = f"Too many requests: expected at most {rate.per_second:g} per second. Wait a moment."
            raise Refusal("rate", 429, sentence, AGAIN)
        if self.in_progress >= MAX_IN_PROGRESS:
            raise Refusal("busy", 503, "Too many requests are being answered. Wait a moment.", AGAIN)

    def _check_key(self, path: str, authorization: str) -> None:
        if self.key is None or path in self.public:
            return
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.strip().encode("latin-1"), self.key):
            sentence = "Expected the server's key in the header 'Authorization: Bearer KEY', found none or another."
            raise Refusal("api_key", 401, sentence, {"WWW-Authenticate": "Bearer"})

    async def _body(self, path: str, headers: Headers, receive: Receive) -> bytes:
        """Read the body until the request ends or the client disconnects."""
        # Another site's page can send a form without a preflight request, but not JSON.
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        expected = "application/x-www-form-urlencoded" if path in self.forms else "application/json"
        if kind != expected:
            sentence = f"Expected the content type {expected}, found {kind or 'none'}."
            raise Refusal("content_type", 415, sentence, CLOSED)
        most = self.larger.get(path, MAX_BYTES)
        sentence = f"Expected a request of at most {most:,} bytes, found a larger one."
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > most:
            raise Refusal("too_large", 413, sentence, CLOSED)
        body, more = b"", True
        try:
            async with asyncio.timeout(ARRIVAL_SECONDS):
                while more and len(body) <= most:
                    message = await receive()
                    body += message.get("body", b"")
                    more = message["type"] != "http.disconnect" and message.get("more_body", False)
        except TimeoutError as error:
            slow = f"Expected the whole request within {ARRIVAL_SECONDS:g} seconds."
            raise Refusal("slow", 408, slow, CLOSED) from error
        if len(body) > most:
            raise Refusal("too_large", 413, sentence, CLOSED)
        return body

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def track(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.app(scope, receive, track)
        except TimeoutError as error:
            if started:
                raise
            sentence = f"The search took longer than {ANSWER_SECONDS:g} seconds. Try again."
            raise Refusal("timeout", 503, sentence) from error


def _client(scope: Scope) -> str:
    """A client's address; of IPv6 the network of 64 bits, all of which one client may use."""
    address: str = (scope.get("client") or [""])[0]
    try:
        return str(ipaddress.IPv6Network(address).supernet(new_prefix=64))
    except ValueError:
        return address


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body again, and then what follows it."""
    messages: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Message:
        return next(messages, None) or await receive()

    return replay
