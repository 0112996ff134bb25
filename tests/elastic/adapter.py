"""A proxy before a server, which fails as a test asks it to, and counts what goes through."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Adapter(ThreadingHTTPServer):
    """Answers at `url` what `upstream` answers.

    Attributes:
        requests: method and path of every request.
        traffic: bytes of the bodies of requests and answers.
        received: bytes of the bodies of answers alone.
        encodings: how the body of each answer was compressed, if it was.
        before: called with method and path before a request goes on; an answer it returns, a status and a dictionary,
            is given instead; `ConnectionError` drops the connection.
        after: called with method and path when the server has answered, before the client hears of it.
        authorization: of every request, as the client sent it.
    """

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.requests: list[tuple[str, str]] = []
        self.traffic = 0
        self.received = 0
        self.encodings: list[str | None] = []
        self.authorization: list[str | None] = []
        self.before: Callable[[str, str], tuple[int, dict[str, object]] | None] = lambda method, path: None
        self.after: Callable[[str, str], None] = lambda method, path: None
        threading.Thread(target=self.serve_forever, daemon=True, kwargs={"poll_interval": 0.05}).start()

    def bulks(self) -> int:
        """How many bulk requests to a FAQ's index have come."""
        return sum("/_bulk" in path for _, path in self.requests)

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Adapter

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path))
        self.server.authorization.append(self.headers.get("Authorization"))
        try:
            answer = self.server.before(self.command, self.path)
            if answer is not None:
                self._answer(answer[0], {"Content-Type": "application/json"}, json.dumps(answer[1]).encode())
                return
            status, kinds, content = self._ask(body)
            self.server.traffic += len(body) + len(content)
            self.server.received += len(content)
            self.server.encodings.append(kinds.get("Content-Encoding"))
            self.server.after(self.command, self.path)
            self._answer(status, kinds, content)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the client finds the connection closed, as when a server dies

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        upstream = self.server.upstream
        connection = http.client.HTTPConnection(upstream.hostname or "", upstream.port, timeout=120)
        passed = ("Content-Type", "Accept", "Authorization", "Content-Encoding", "Accept-Encoding")
        headers = {name: self.headers[name] for name in passed if self.headers.get(name)}
        try:
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            kinds = {name: response.getheader(name) for name in ("Content-Type", "Content-Encoding")}
            return response.status, {name: kind for name, kind in kinds.items() if kind}, response.read()
        finally:
            connection.close()

    def _answer(self, status: int, kinds: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, kind in kinds.items():
            self.send_header(name, kind)
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""
