"""Who may see the owner's page: whoever has its key, or a session that began with it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

COOKIE = "ap_ranker_owner"

SECONDS = 12 * 3600
"""Length of a session: a working day."""

MOST = 100
"""Maximum number of sessions; the oldest one ends first."""


class Sessions:
    """Sessions of the owner's page, in memory: all end with the server."""

    def __init__(self, key: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = _digest(key)
        self._clock = clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()  # digest of a token -> when its session ends

    def is_key(self, text: str) -> bool:
        """Whether a text is the owner's key, in constant time."""
        return hmac.compare_digest(_digest(text), self._key)

    def begin(self, response: Response, *, secure: bool) -> None:
        """Begin a session; its token goes into a cookie that no script and no other site can use."""
        token = secrets.token_urlsafe(32)
        self._ends[_digest(token)] = self._clock() + SECONDS
        while len(self._ends) > MOST:
            self._ends.popitem(last=False)
        response.set_cookie(COOKIE, token, max_age=SECONDS, httponly=True, samesite="strict", secure=secure)

    def end(self, request: Request, response: Response) -> None:
        """End the session of a request."""
        self._ends.pop(_digest(request.cookies.get(COOKIE, "")), None)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    def allows(self, request: Request) -> bool:
        """Whether a request has a session that goes on, or the key in its header `Authorization: Bearer KEY`."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_key(key.strip()):
            return True
        return self._ends.get(_digest(request.cookies.get(COOKIE, "")), -1.0) > self._clock()


def is_own_site(headers: Headers) -> bool:
    """Whether a request comes from a page of this server, or from a program; a browser says which page sent it."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")  # of a browser that does not say it, as without encryption
    return origin is None or urlsplit(origin).netloc == headers.get("host")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
