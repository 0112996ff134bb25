"""Against a stand-in for the hub: a server on this machine that keeps what the hub's own client sends it."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import huggingface_hub.constants
import pytest
from conftest import write_checkpoint
from refusals import refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.split import DEV
from ap_ranker.ranking.checkpoint import TRAINED_QUESTIONS, push
from ap_ranker.ranking.ranker import Ranker

FOUR = {"config.json", "model.safetensors", "tokenizer.json", "README.md"}


class Hub(ThreadingHTTPServer):
    """Takes repositories and commits; `refusal` is path's end -> status and message of what it does not take."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.made: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.tokens: set[str | None] = set()
        self.refusal: dict[str, tuple[int, str]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Request(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        hub = self.server
        assert isinstance(hub, Hub)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hub.tokens.add(self.headers.get("Authorization"))
        for end, (status, message) in hub.refusal.items():
            if end in self.path:
                return self.answer({"error": message, "errors": [{"message": message}]}, status)
        if self.path == "/api/repos/create":
            hub.made.append(json.loads(body))
            return self.answer({"url": f"{hub.url}/acme/faq"})
        if self.path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if self.path.startswith("/api/models/acme/faq/preupload/main"):
            files = json.loads(body)["files"]
            return self.answer(
                {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]}
            )
        assert self.path.startswith("/api/models/acme/faq/commit/main"), self.path
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                hub.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        return self.answer({"success": True, "commitOid": "0" * 40, "commitUrl": f"{hub.url}/acme/faq/commit/0"})

    def answer(self, content: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    return monkeypatch


@pytest.fixture
def hub(online: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    online.setattr(huggingface_hub.constants, "ENDPOINT", server.url)
    online.setattr("huggingface_hub.hf_api.ENDPOINT", server.url, raising=False)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint among things that must stay here."""
    checkpoint = write_checkpoint("ap-cnn", tmp_path / "faq")
    (checkpoint / "model.pkl").write_bytes(b"pickled")
    (checkpoint / "pytorch_model.bin").write_bytes(b"pickled")
    for name in (DEV, TRAINED_QUESTIONS):  # the questions of users
        (checkpoint / name).write_text("")
    (checkpoint / "data").mkdir()
    (checkpoint / "data" / "config.json").write_text("{}")
    return checkpoint


@pytest.mark.parametrize("options", [(), ("--private",)])
def test_the_four_files_and_nothing_else(hub: Hub, folder: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["push", str(folder), "acme/faq", *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert f"{hub.url}/acme/faq" in result.output.replace("\n", "")
    assert hub.files == {name: (folder / name).read_bytes() for name in FOUR}
    [made] = hub.made
    assert (made["name"], made["organization"]) == ("faq", "acme")
    private = made.get("private") or made.get("visibility") == "private"
    assert bool(private) == bool(options)
    assert hub.tokens == {"Bearer hf_secret"}
    received = tmp_path / "received"
    received.mkdir()
    for name, content in hub.files.items():
        (received / name).write_bytes(content)
    here, there = (
        Ranker.from_pretrained(place, "cpu").rank("my parcel", ["a", "parcel"]) for place in (folder, received)
    )
    assert here == there


@pytest.mark.parametrize(
    ("at", "status", "facts"),
    [
        ("/repos/create", 401, "HF_TOKEN … hf auth login"),
        ("/commit/", 403, "acme/faq … 403"),
        ("/commit/", 404, "acme/faq"),
        ("/preupload/", 413, "acme/faq … 413 … too bad"),
        ("/validate-yaml", 400, "README.md … too bad"),
    ],
)
def test_the_hub_refuses(hub: Hub, folder: Path, at: str, status: int, facts: str) -> None:
    hub.refusal[at] = (status, "too bad")
    with refused(facts) as error:
        push(folder, "acme/faq")
    assert "\n" not in str(error.value)
    assert not hub.files


def test_no_network(online: pytest.MonkeyPatch, folder: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        online.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        with refused("127.0.0.1"):
            push(folder, "acme/faq")


def test_offline_mode(folder: Path) -> None:
    with refused("HF_HUB_OFFLINE"):
        push(folder, "acme/faq")


@pytest.mark.parametrize("name", ["a/b/c", "acme/../faq", "faq ranker"])
def test_not_a_repository(hub: Hub, folder: Path, name: str) -> None:
    with refused("REPO … NAMESPACE/NAME"):
        push(folder, name)
    assert not hub.made


def test_not_a_checkpoint(hub: Hub, folder: Path) -> None:
    (folder / "README.md").unlink()
    with refused("card … README.md"):
        push(folder, "acme/faq")
    (folder / "model.safetensors").unlink()
    with refused("config.json … model.safetensors"):
        push(folder, "acme/faq")
    with refused("nowhere"):
        push(folder / "nowhere", "acme/faq")
    assert not hub.made
