"""uvicorn's server with limits on connections, which slow clients would otherwise hold forever.

uvicorn closes connections that stay idle after an answer, but not those of a client that never sends a request, sends
it byte by byte, or does not read the answer. At shutdown it closes idle connections at once, even if a request is on
its way.
"""

from __future__ import annotations

import asyncio
import os
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

from ap_ranker.web.limits import ANSWER_SECONDS, ARRIVAL_SECONDS, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Base
else:
    Base = AutoHTTPProtocol

MAX_CONNECTIONS = 1000
"""Maximum number of open connections; less if the limit of open files is low."""

MAX_OF_CLIENT = 200
"""Maximum number of open connections from one address: a browser opens six, and many people may share an address."""

KEEP_ALIVE_SECONDS = 10
"""Seconds that a connection may stay idle after an answer: more than usual clients allow, so that they close first."""

LINGER_SECONDS = 2.0
"""Seconds that an idle connection stays open at shutdown: a request may be on its way."""

BUSY = b'{"error":"Too many connections at the moment. Try again."}'
BUSY_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: " + str(len(BUSY)).encode() + b"\r\n\r\n" + BUSY
)


class Connections:
    """The open connections, and counts of those that the server `closed`, by reason: `slow` if the client did not send
    or read in time, `crowded` if a new one replaced it, `refused` for a new one that could replace none.

    Beyond `most` open ones, a new one replaces the one that waits longest for its client; beyond `most_of_client`, one
    of the same address. Addresses of this machine and those in the environment variable FORWARDED_ALLOW_IPS are exempt:
    a web server in front of this one connects from there for everybody.
    """

    def __init__(self, most: int | None = None, most_of_client: int = MAX_OF_CLIENT) -> None:
        self.most = _default_limit() if most is None else most
        self.most_of_client = most_of_client
        self.proxies = set(os.environ.get("FORWARDED_ALLOW_IPS", "").replace(" ", "").split(","))
        self.open: set[Connection] = set()
        self.closed: Counter[str] = Counter()

    def has_room(self, new: Connection) -> bool:
        """Whether a new connection may stay; closes another one for it if necessary."""
        address = new.client[0] if new.client else ""
        of_client = [other for other in self.open if other.client and other.client[0] == address]
        shared = is_loopback(address) or not self.proxies.isdisjoint({address, "*"})
        return (shared or self._make_room(of_client, self.most_of_client)) and self._make_room(self.open, self.most)

    def _make_room(self, connections: Collection[Connection], most: int) -> bool:
        if len(connections) < most:
            return True
        waiting = (connection for connection in connections if connection.waits)
        oldest = min(waiting, key=lambda connection: connection.since, default=None)
        if oldest is not None:
            oldest.end("crowded")
        return oldest is not None


def _default_limit() -> int:
    """The number of connections that the limit of open files allows, beside the store's and the libraries' files."""
    try:
        import resource
    except ImportError:  # no Unix, so no such limit
        return MAX_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(16, min(MAX_CONNECTIONS, files - 128))


class Connection(Base):
    """A connection that is closed if its client makes the server wait too long.

    `since` is when its current state began: waiting for a request or the rest of it, or answering.
    """

    def __init__(self, connections: Connections, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.all = connections
        self.since = self.loop.time()
        self._request: object = None
        self._begun = False  # part of the next request has arrived
        self._timer: TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether the server waits for the client, to send a request or the rest of it, or to read the answer."""
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
        if self.cycle is not self._request:  # the head of a request is complete
            self._request, self.since = self.cycle, self.loop.time()

    def on_response_complete(self) -> None:
        self._begun, self.since = False, self.loop.time()
        super().on_response_complete()

    def shutdown(self) -> None:
        """Finish the current answer, or give a request that is on its way a moment to arrive."""
        if self.cycle is not None and not self.cycle.response_complete:
            super().shutdown()
        else:
            self.loop.call_later(LINGER_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self.waits and not self._begun and not self.transport.is_closing():
            self.transport.close()

    def end(self, reason: str) -> None:
        """Close at once; unread data is lost."""
        self.all.closed[reason] += 1
        self.all.open.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Close the connection if its time is over, or check again when it will be."""
        # One second more than the middleware's limits, which answer with a reason.
        seconds = 1 + ARRIVAL_SECONDS + (0 if self.waits else ANSWER_SECONDS)
        left = self.since + seconds - self.loop.time()
        if left <= 0:
            self.end("slow")
        else:
            self._timer = self.loop.call_later(left, self._watch)


class Server(uvicorn.Server):
    """uvicorn's server with limited connections; at shutdown it answers all requests sent before."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        config = uvicorn.Config(
            app,
            http=cast(Any, partial(Connection, connections)),
            ws="none",
            proxy_headers=False,  # `visitors.IdentityHeader` reads them
            log_level="warning",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=int(ARRIVAL_SECONDS + ANSWER_SECONDS) + 1,
        )
        super().__init__(config)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Run until a signal; SIGTERM is no failure, so the exit code is 0."""
        previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again at the end
        try:
            super().run(sockets=sockets)
        finally:
            signal.signal(signal.SIGTERM, previous)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, finish the requests in flight or in the queue, and end."""
        self.server_state.default_headers.append((b"connection", b"close"))
        loop = asyncio.get_running_loop()
        for listening in sockets or []:
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0.05)  # for connections that the loop is just accepting
        for listening in sockets or []:
            await self._accept_waiting(listening)
        await super().shutdown(sockets)

    async def _accept_waiting(self, listening: socket.socket) -> None:
        """Accept queued connections, which are open to their clients: closing the socket would cut them."""
        loop = asyncio.get_running_loop()
        kwargs = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        make = partial(cast(Any, self.config.http_protocol_class), **kwargs, _loop=loop)
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:  # the queue is empty, and stays so until uvicorn closes the socket
                with suppress(OSError):
                    listening.shutdown(socket.SHUT_RDWR)
                return
            accepted.setblocking(False)
            await loop.connect_accepted_socket(make, accepted)
