"""uvicorn's server with limits on connections, which idle and trickling ones otherwise hold for ever.

uvicorn closes a connection that says nothing after an answer, and no other: not one that never sends a request, nor one
that sends a byte of it now and then, nor one that does not read the answer. And it closes idle connections at once when
it is to end, also those on which a request is on its way.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
from asyncio import TimerHandle, Transport
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ap_ranker.serving.limits import ANSWER_SECONDS, ARRIVAL_SECONDS, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Base
else:
    Base = AutoHTTPProtocol

MAX_CONNECTIONS = 1000
"""Open at the same time; fewer where the system allows this process few files."""

MAX_OF_CLIENT = 200
"""Open at the same time from one address: a browser opens six, and many people may share an address."""

KEEP_ALIVE_SECONDS = 10
"""That a connection may say nothing after an answer: longer than usual clients keep theirs, so that they close it."""

LINGER_SECONDS = 2.0
"""That a connection which says nothing stays open when the server is to end: a request may be on its way."""

BUSY = b'{"error":"Too many connections at the moment. Try again."}'
BUSY_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: " + str(len(BUSY)).encode() + b"\r\n\r\n" + BUSY
)


class Connections:
    """All that are open, and what became of those that were not let live.

    Args:
        most: open at the same time; the one that has waited longest for its client is closed for a new one.
        most_of_client: the same for one address. Those of this machine, and those that the environment variable
            FORWARDED_ALLOW_IPS names, are not counted: a web server in front of this one asks from there for everybody.

    Attributes:
        closed: how many were, by reason: `slow` for a client that did not send or read, `crowded` for one that was
            closed for a new one, `refused` for a new one where all others were being answered.
    """

    def __init__(self, most: int | None = None, most_of_client: int = MAX_OF_CLIENT) -> None:
        self.most = _allowed() if most is None else most
        self.most_of_client = most_of_client
        self.proxies = set(os.environ.get("FORWARDED_ALLOW_IPS", "").replace(" ", "").split(","))
        self.open: set[Connection] = set()
        self.closed: Counter[str] = Counter()

    def has_room(self, new: Connection) -> bool:
        """Whether a connection may stay; if need be, another one is closed for it."""
        address = new.client[0] if new.client else ""
        same = [one for one in self.open if one.client and one.client[0] == address]
        shared = is_loopback(address) or not self.proxies.isdisjoint({address, "*"})
        return (shared or self._makes_room(same, self.most_of_client)) and self._makes_room(self.open, self.most)

    def _makes_room(self, there: Collection[Connection], most: int) -> bool:
        if len(there) < most:
            return True
        oldest = min((one for one in there if one.waits), key=lambda one: one.since, default=None)
        if oldest is not None:
            oldest.end("crowded")
        return oldest is not None


def _allowed() -> int:
    """What the limit of open files leaves for connections, beside the store's and the libraries' own."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(16, min(MAX_CONNECTIONS, files - 128))


class Connection(Base):
    """One connection; it ends if its client lets the server wait.

    Attributes:
        since: when the server began to do what it does: to wait for a request or the rest of it, or to answer.
    """

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self.all = connections
        self.since = self.loop.time()
        self._request: object = None
        self._begun = False  # some of the next request has come
        self._timer: TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn, to send a request or the rest of it, or to read what was answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.all.has_room(self):
            self.all.open.add(self)
            self._watch()
        else:
            self.all.closed["refused"] += 1
            transport.write(BUSY_ANSWER)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.all.open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.waits and not self._begun:
            self._begun, self.since = True, self.loop.time()
        super().data_received(data)
        if self.cycle is not self._request:  # the head of a request is whole
            self._request, self.since = self.cycle, self.loop.time()

    def on_response_complete(self) -> None:
        self._begun, self.since = False, self.loop.time()
        super().on_response_complete()

    def shutdown(self) -> None:
        """The server is to end: what has begun is answered, and what is on its way has a moment to arrive."""
        if self.cycle is not None and not self.cycle.response_complete:
            super().shutdown()
        else:
            self.loop.call_later(LINGER_SECONDS, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self.waits and not self._begun and not self.transport.is_closing():
            self.transport.close()

    def end(self, reason: str) -> None:
        """At once; what was not read is lost."""
        self.all.closed[reason] += 1
        self.all.open.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Look again when it has had its time, if it has not."""
        left = self.since + self._seconds() - self.loop.time()
        if left <= 0:
            self.end("slow")
        else:
            self._timer = self.loop.call_later(left, self._watch)

    def _seconds(self) -> float:
        """That may pass since `since`; a second more than where others, who can tell the client why, end it first."""
        return 1 + (ARRIVAL_SECONDS if self.waits else ARRIVAL_SECONDS + ANSWER_SECONDS)


class Server(uvicorn.Server):
    """uvicorn's server, with these connections; when it is to end, it answers whatever was asked before."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        config = uvicorn.Config(
            app,
            http=cast(Any, partial(Connection, connections)),
            ws="none",
            log_level="warning",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=int(ARRIVAL_SECONDS + ANSWER_SECONDS) + 1,
        )
        super().__init__(config)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Until it is asked to end; SIGTERM is no failure, so the exit code is 0."""
        before = signal.signal(signal.SIGTERM, _exit)  # uvicorn raises the signal again when all is done
        try:
            super().run(sockets=sockets)
        finally:
            signal.signal(signal.SIGTERM, before)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, finish what is in flight or in the queue, and end."""
        self.server_state.default_headers.append((b"connection", b"close"))
        loop = asyncio.get_running_loop()
        for listening in sockets or []:
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0.05)  # for those that the loop is about to have accepted
        for listening in sockets or []:
            await self._accept_waiting(listening)
        await super().shutdown(sockets)

    async def _accept_waiting(self, listening: socket.socket) -> None:
        """Those whose clients believe them to be open already: closing the socket would cut them."""
        loop = asyncio.get_running_loop()
        given = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        make = partial(cast(Any, self.config.http_protocol_class), **given, _loop=loop)
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:  # none is left, and none may come before uvicorn closes the socket
                with suppress(OSError):
                    listening.shutdown(socket.SHUT_RDWR)
                return
            accepted.setblocking(False)
            await loop.connect_accepted_socket(make, accepted)


def _exit(*_: object) -> None:
    sys.exit(0)
