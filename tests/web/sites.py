"""Another site on this machine, which may have the search in its page."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Foreign:
    """Another site on this machine: its one page and the policy of it can be chosen.

    Attributes:
        address: of the page.
        body: what stands in it.
        policy: its Content-Security-Policy; none if empty.
        root: the attributes of its root.
    """

    address: str
    body: str = ""
    policy: str = ""
    root: str = "lang=en"
    asked: list[str] = field(default_factory=list)


@contextmanager
def foreign_site() -> Iterator[Foreign]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            if site.policy:
                self.send_header("Content-Security-Policy", site.policy)
            self.end_headers()
            icon = '<link rel="icon" href="data:,"><meta name="viewport" content="width=device-width">'
            page = f"<!DOCTYPE html><html {site.root}><head>{icon}<title>Shop</title></head><body><main><h1>Shop</h1>"
            self.wfile.write(f"{page}{site.body}</main></body></html>".encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Foreign(f"http://127.0.0.1:{server.server_port}/")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
