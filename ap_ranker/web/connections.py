"""Listens for browsers: how long a client may keep the server waiting, who it is behind a web server, how all ends.

The limits are settings of hypercorn: a connection that sends no whole head of a request in time is closed, whether it
is new or was used before, and so is one whose head is too large. `limits.Guard` limits bodies and answers. How many
connections one client may have, only a web server in front can limit (docs/deployment.md).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

from hypercorn.asyncio import serve
from hypercorn.config import Config
from hypercorn.typing import ASGIFramework
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ap_ranker.web.limits import ANSWER_SECONDS, ARRIVAL_SECONDS

logger = logging.getLogger(__name__)

MAX_HEAD = 16 * 1024
"""Maximum size of a request's head in bytes, its address and headers: browsers send about 1,000."""

IDLE_SECONDS = 10.0
"""Seconds that a connection may stay without a whole head of a request: more than usual clients keep one open for."""

DEAF_SECONDS = 30.0
"""Seconds after which a connection is closed whose client does not take the answer (Linux only)."""

SILENT_SECONDS = 60
"""Seconds after which a connection is closed on which nothing comes: longer than a request and its answer may take. It
ends what hypercorn takes for no idle connection: HTTP/2 without a request, a handshake that was refused."""

SWITCH_SECONDS = 0.001
"""Seconds for which a thread may hold Python's lock while others want it, in place of 0.005. The event loop gives it
away with each call of the system, ten times for a request, and waits for its turn behind all threads that compute:
beside 16 of them, half of the requests took 0.14 s instead of 0.50 s (python -m benchmarks.event_loop)."""

LINGER_SECONDS = 1.0
"""Seconds that the server goes on after it is asked to end: requests sent before are then here."""


def run(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl+C, and answer what was sent before; a second signal ends the process at once."""

    async def run_until_signal() -> None:
        loop = asyncio.get_running_loop()
        is_told_to_end = asyncio.Event()

        def end(*_: object) -> None:
            for number, handler in earlier_handlers.items():
                signal.signal(number, handler)
            loop.call_soon_threadsafe(is_told_to_end.set)

        earlier_handlers = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        await serve_until(is_told_to_end.wait, app, listening=listening)

    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.run(run_until_signal())


class _DeafError(TimeoutError):
    """A client does not take the answer."""


def _to_readers(app: ASGIApp) -> ASGIApp:
    """The application, which ends where a client does not take the answer, and leaves nothing of a request unread.

    Else the connection would stay for ever: hypercorn waits until somebody takes what comes, whoever has gone.
    """
    reading: set[asyncio.Task[None]] = set()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] != "http"
        is_needed = True

        async def receive_next() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = is_read or not message.get("more_body", False)
            return message

        async def read_on() -> None:
            while not is_read:
                await receive_next()

        def need_no_more() -> None:
            nonlocal is_needed
            if is_needed and not is_read:
                is_needed = False
                task = asyncio.create_task(read_on())
                reading.add(task)
                task.add_done_callback(reading.discard)

        async def send_in_time(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                need_no_more()
            try:
                async with asyncio.timeout(DEAF_SECONDS):
                    await send(message)
            except TimeoutError as error:
                raise _DeafError from error

        try:
            with suppress(_DeafError):
                await app(scope, receive_next, send_in_time)
        finally:
            need_no_more()

    return answer


def _on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what failed, but nothing of a connection: whoever breaks its protocol could fill the disk with tracebacks.

    Neither does it say anything of a connection that the server's own end cuts off: Python before 3.12 reports the
    cancellation of its task as an error, one traceback each.
    """
    exception = context.get("exception")
    if "transport" in context or isinstance(exception, asyncio.CancelledError):
        logger.debug("A connection was closed.", exc_info=exception)
    else:
        loop.default_exception_handler(context)


def _is_no_lost_connection(record: logging.LogRecord) -> bool:
    """Whether a record tells of anything but a client that is gone: one may send thousands of requests, and go."""
    return not str(record.msg).startswith("socket.send() raised")


async def serve_until(end: Callable[[], Awaitable[object]], app: ASGIApp, listening: socket.socket) -> None:
    """Serve until `end` returns, then answer what was sent before; closes the socket."""

    async def linger() -> None:
        await end()
        await asyncio.sleep(LINGER_SECONDS)

    if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections have what the listening socket has
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * DEAF_SECONDS))
    config = Config()
    config.bind = f"fd://{listening.detach()}"
    config.backlog = 2048
    config.errorlog = logging.getLogger("hypercorn.error")
    config.include_server_header = False
    config.h11_max_incomplete_size = MAX_HEAD
    config.h2_max_header_list_size = MAX_HEAD
    # No HTTP/2: a web server in front that lets a visitor upgrade would not see, nor mark, the requests that follow.
    config.h2_max_concurrent_streams = 0
    config.keep_alive_timeout = IDLE_SECONDS
    config.read_timeout = SILENT_SECONDS
    config.graceful_timeout = ARRIVAL_SECONDS + ANSWER_SECONDS + 1
    asyncio.get_running_loop().set_exception_handler(_on_error)
    logging.getLogger("asyncio").addFilter(_is_no_lost_connection)
    await serve(cast(ASGIFramework, _to_readers(app)), config, shutdown_trigger=linger, mode="asgi")
