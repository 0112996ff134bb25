"""A proxy before a server: mends what the stand-ins do not understand, and fails as a test asks it to."""

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
        self.authorization: list[str | None] = []
        self.before: Callable[[str, str], tuple[int, dict[str, object]] | None] = lambda method, path: None
        self.after: Callable[[str, str], None] = lambda method, path: None
        threading.Thread(target=self.serve_forever, daemon=True, kwargs={"poll_interval": 0.05}).start()

    def bulks(self) -> int:
        """How many bulk requests have come."""
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
                self._answer(answer[0], json.dumps(answer[1]).encode())
                return
            status, content = self._ask(body)
            self.server.after(self.command, self.path)
            self._answer(status, content)
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the client finds the connection closed, as when a server dies

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815

    def _ask(self, body: bytes) -> tuple[int, bytes]:
        upstream = self.server.upstream
        kind = http.client.HTTPSConnection if upstream.scheme == "https" else http.client.HTTPConnection
        connection = kind(upstream.hostname or "", upstream.port, timeout=120)
        json_lines = "ndjson" in (self.headers.get("Content-Type") or "")
        headers = {"Content-Type": "application/x-ndjson" if json_lines else "application/json"}
        headers["Accept"] = "application/json"
        if self.headers.get("Authorization"):
            headers["Authorization"] = self.headers["Authorization"]
        try:
            connection.request(self.command, self.path, _mended(self.path, body), headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _mended(path: str, body: bytes) -> bytes:
    """noida-db searches no field where Elasticsearch takes all of them: where none is named."""
    if "/_search" not in path or b"multi_match" not in body:
        return body
    search = json.loads(body)
    for clause in search["query"]["bool"]["must"]:
        clause["multi_match"].setdefault("fields", ["*"])
    return json.dumps(search).encode()
