"""deploy/nginx.conf, as a real nginx runs it: whom it counts as one client, and what it writes into its log."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from conftest import ROOT

SECRET = "sekretwort"
"""A word of a question."""

TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class Search(BaseHTTPRequestHandler):
    """What nginx asks; it answers with who asks, as it is told, or with the headers or the body that it got."""

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def answer(self, body: bytes) -> None:
        answers = {"/headers": json.dumps(dict(self.headers)).encode(), "/body": body}
        answer = answers.get(self.path, self.headers.get("X-Forwarded-For", "").encode())
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class WebServer:
    """A running nginx, whose clients have the addresses that they say."""

    url: str
    folder: Path
    search: ThreadingHTTPServer

    def ask(self, address: str, path: str = "/", **options: object) -> httpx.Response:
        given: dict[str, object] = {"method": "GET", "headers": {"X-Test-Address": address}, "timeout": 30}
        return httpx.request(url=f"{self.url}{path}", **given | options)  # type: ignore[arg-type]

    def statuses(self, addresses: Sequence[str]) -> Counter[int]:
        """How often each status came, of one request from each address, as fast as they can be sent."""
        statuses: Counter[int] = Counter()
        with httpx.Client(timeout=30) as client:
            for address in addresses:
                statuses[client.get(f"{self.url}/", headers={"X-Test-Address": address}).status_code] += 1
        return statuses

    def logged(self) -> str:
        """All that it has written."""
        time.sleep(0.3)  # the line of a request is written after its answer
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def find_nginx() -> str:
    """The program; the test skips without it."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx)")
    return nginx


def encrypted(site: str, nginx: str, folder: Path) -> str:
    """The settings with a certificate, as docs/deployment.md says for nginx on a machine of its own."""
    key, certificate = folder / "privkey.pem", folder / "fullchain.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    before, _, rest = site.partition("  listen 80;\n")
    commented = re.findall(r"^  #   (?:listen|http2|ssl_|add_header).*\n", rest, re.MULTILINE)
    assert len(commented) == 5
    lines = "".join(commented).replace("#   ", "").replace("/certificates/", f"{folder}/")
    version = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", version)
    assert found, version
    if tuple(map(int, found.groups())) < (1, 25, 1):
        page = " ".join((ROOT / "docs" / "deployment.md").read_text(encoding="utf-8").split())
        [(new, *old)] = re.findall(r"Before nginx 1.25.1, write `(.*?)` in place of `(.*?)` and `(.*?)`\.", page)
        for line in old:
            assert lines.count(f"  {line};\n") == 1, line
            lines = lines.replace(f"  {line};\n", "")
        lines = f"  {new};\n{lines}"
    return f"{before}{lines}{rest}"


@contextmanager
def nginx_before(search_port: int, folder: Path, *, is_encrypted: bool = False) -> Iterator[int]:
    """nginx with our settings before a server; its port.

    Only its addresses, its folders and how it knows a client's address are the test's.
    """
    port = free_port()
    nginx = find_nginx()
    site = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    listens, scheme = "listen 80", "http"
    if is_encrypted:
        site = encrypted(site, nginx, folder)
        listens, scheme = "listen 443", "https"
    told = "set_real_ip_from 127.0.0.1;\n  real_ip_header X-Test-Address;"
    for ours, tests in {
        "server search:8000;": f"server 127.0.0.1:{search_port};",
        f"\n  {listens}": f"\n  {told}\n  listen 127.0.0.1:{port}",
        "access_log /dev/stdout ": f"access_log {folder}/access.log ",
    }.items():
        assert site.count(ours) == 1, ours
        site = site.replace(ours, tests)
    (folder / "site.conf").write_text(site)
    places = "".join(f"  {name}_temp_path {folder}/{name};\n" for name in TEMPORARY)
    whole = f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log notice;\nevents {{}}\n"
    (folder / "nginx.conf").write_text(f"{whole}http {{\n{places}  include {folder}/site.conf;\n}}\n")
    process = subprocess.Popen([nginx, "-p", folder, "-c", folder / "nginx.conf"])
    try:
        for _ in range(100):
            assert process.poll() is None, (folder / "error.log").read_text()
            try:
                url = f"{scheme}://127.0.0.1:{port}"
                httpx.get(url, headers={"X-Test-Address": "192.0.2.250"}, timeout=30, verify=False)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def running_search() -> Iterator[ThreadingHTTPServer]:
    search = ThreadingHTTPServer(("127.0.0.1", 0), Search)
    threading.Thread(target=search.serve_forever, daemon=True).start()
    try:
        yield search
    finally:
        search.shutdown()
        search.server_close()


@contextmanager
def running(folder: Path) -> Iterator[WebServer]:
    """A search, and nginx before it, whose clients have the addresses that they say."""
    with running_search() as search, nginx_before(search.server_port, folder) as port:
        yield WebServer(f"http://127.0.0.1:{port}", folder, search)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    with running(tmp_path) as server:
        yield server


def test_all_addresses_of_a_network_of_ipv6_are_one_client(server: WebServer) -> None:
    """Of its 64 bits; 100 requests at once are more than one client may send."""
    one = server.statuses([f"2001:db8:1:2:{number:x}::{number}" for number in range(1, 121)])
    assert one[429] > 10, one
    assert one[200] >= 60, one


@pytest.mark.parametrize("pattern", ["2001:db8:{:x}::1", "2001:db8:0:{:x}::1", "198.51.100.{}", "::ffff:198.51.100.{}"])
def test_other_networks_are_other_clients(server: WebServer, pattern: str) -> None:
    assert server.statuses([pattern.format(number) for number in range(1, 121)]) == {200: 120}


def test_an_address_of_ipv4_is_one_client_however_it_is_written(server: WebServer) -> None:
    written = ["198.51.100.7", "::ffff:198.51.100.7"] * 60
    assert server.statuses(written)[429] > 10


def test_the_search_is_told_who_asks(server: WebServer) -> None:
    """By its address, whatever a visitor says; and the whole one, of which the search makes a network itself."""
    for address in ("203.0.113.9", "2001:db8:1:2:3:4:5:6"):
        told = {"X-Test-Address": address, "X-Forwarded-For": "6.6.6.6"}
        assert server.ask(address, headers=told).text == address


READ = {
    "Accept": "text/html",
    "Accept-Language": "de",
    "Access-Control-Request-Headers": "content-type",
    "Access-Control-Request-Method": "POST",
    "Authorization": "Bearer key",
    "Content-Type": "application/json",
    "Cookie": "session=a; other=b",
    "If-None-Match": '"tag"',
    "Origin": "https://shop.example.com",
    "Sec-Fetch-Site": "cross-site",
}
"""The headers that `ap_ranker.web` reads of a request, beside who asks."""


def test_the_search_gets_the_headers_that_it_reads(server: WebServer) -> None:
    headers = json.loads(server.ask("203.0.113.9", "/headers", headers={"X-Test-Address": "203.0.113.9"} | READ).text)
    assert READ.items() <= headers.items()


def test_headers_that_nobody_reads_stay_outside(server: WebServer) -> None:
    """Each costs the search's server time: thousands in one head took it 70 ms a request."""
    many = {"X-Test-Address": "203.0.113.9"} | {f"a{number}": "" for number in range(900)}
    headers = json.loads(server.ask("203.0.113.9", "/headers", headers=many).text)
    assert len(headers) < 20


def test_a_body_arrives_whole(server: WebServer) -> None:
    body = "x" * 200_000
    asked = server.ask("203.0.113.9", "/body", method="POST", content=body, headers={"X-Test-Address": "203.0.113.9"})
    assert asked.text == body


def test_no_log_tells_who_asked_what(server: WebServer) -> None:
    """Not of answered requests, nor of refused, failed and broken ones."""
    addresses = ["203.0.113.9", "2001:db8:7:7::9"]
    for address in addresses:
        question = f"/?q=where+is+my+{SECRET}&category=x"
        from_page = {"X-Test-Address": address, "Referer": f"http://localhost/?q={SECRET}", "User-Agent": SECRET}
        assert server.ask(address, question).status_code == 200
        assert server.ask(address, "/", headers=from_page).status_code == 200
        asked = server.ask(address, "/api/search", method="POST", json={"question": SECRET})
        assert asked.status_code == 200
        large = server.ask(address, question, method="POST", content=SECRET * 100_000)
        assert large.status_code == 413
        assert server.ask(address, f"/?q={SECRET * 4000}").status_code == 414
        with httpx.Client(timeout=30) as client:
            told = {"X-Test-Address": address}
            refused = {client.get(f"{server.url}{question}", headers=told).status_code for _ in range(120)}
        assert 429 in refused
    time.sleep(4)  # until the last address may ask again
    server.search.shutdown()
    server.search.server_close()
    assert server.ask("203.0.113.10", f"/?q={SECRET}").status_code == 502
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=30) as broken:
        broken.sendall(f"GET /?q={SECRET}\x01 HTTP/1.1\r\nX-Test-Address: 203.0.113.9\r\n{SECRET}\r\n\r\n".encode())
        broken.recv(1000)
    log = server.logged()
    assert SECRET not in log
    assert not [
        address for address in [*addresses, "203.0.113.10", "127.0.0.1"] if address in log.replace("upstream=", "")
    ]
    for status in (200, 413, 429, 502):  # what an administrator looks for
        assert f'" {status} ' in log
    assert '"POST /api/search HTTP/1.1" 200 ' in log


def test_with_a_certificate_the_search_answers_by_https(tmp_path: Path) -> None:
    """On this version of nginx, with the lines that the page names for it; browsers come back by HTTPS."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (Debian: apt-get install openssl)")
    with running_search() as search, nginx_before(search.server_port, tmp_path, is_encrypted=True) as port:
        answer = httpx.get(f"https://127.0.0.1:{port}/", verify=False)
        assert answer.status_code == 200
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
        curl = ["curl", "--silent", "--insecure", "--http2", "--output", os.devnull, "--write-out", "%{http_version}"]
        if shutil.which("curl"):
            asked = subprocess.run([*curl, f"https://127.0.0.1:{port}/"], capture_output=True, text=True, check=True)
            assert asked.stdout == "2"
