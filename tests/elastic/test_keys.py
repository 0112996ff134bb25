"""API keys over HTTPS with the roles of deploy/, certificates, and what is said of each refusal: `make cluster`."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT
from refusals import assert_refusal
from typer.testing import CliRunner
from waiting import wait_until

from ap_ranker.cli.main import app
from ap_ranker.search import watch_search
from ap_ranker.web.changes import Action
from elastic.conftest import Search, change
from elastic.engine import WHOLE, Engine, start_engine
from elastic.test_index import FAQ, counts, write
from elastic.test_owners_changes import change as owner_changes
from elastic.test_owners_changes import serving

pytestmark = pytest.mark.skipif(WHOLE not in os.environ, reason="a node with security: run by `make cluster-all`")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    pytest.importorskip("elasticsearch", reason="elasticsearch-haystack is not installed")
    made = start_engine(tmp_path_factory.mktemp("secured") / "nodes", 1, "--security")
    yield made
    made.stop()


def key(secured: Engine, role: dict[str, Any]) -> str:
    """A new API key with this role alone."""
    made = request(secured, "POST", "_security/api_key", {"name": "test", "role_descriptors": {"test": role}})
    return str(made["encoded"])


def request(secured: Engine, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    password = base64.b64encode(b"elastic:only-for-tests").decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {password}"}
    data = json.dumps(body).encode()
    asked = urllib.request.Request(f"{secured.url}/{path}", method=method, data=data, headers=headers)
    with urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=secured.ca)) as answer:
        return dict(json.loads(answer.read()))


def role(name: str) -> dict[str, Any]:
    return dict(json.loads((ROOT / "deploy" / f"elasticsearch_{name}_role.json").read_text()))


def pipeline(folder: Path, checkpoint: Path, name: str = "faq_elasticsearch", **settings: Any) -> Path:
    declared = yaml.safe_load((ROOT / "pipelines" / f"{name}.yaml").read_text())
    change(declared, checkpoint, settings)
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(declared))
    return path


def run(api_key: str | None, *command: object) -> Any:
    return CliRunner(env={"ELASTIC_API_KEY": api_key}).invoke(app, list(map(str, command)))


def test_the_roles_suffice_and_others_are_told_what_they_lack(
    secured: Engine, tmp_path: Path, checkpoint: Path
) -> None:
    """No secret is in any message."""
    file = pipeline(tmp_path, checkpoint, hosts=secured.url, ca_certs=secured.ca)
    faq = write(tmp_path / "faq.csv", FAQ)
    writes, reads = key(secured, role("index")), key(secured, role("serve"))
    assert counts(run(writes, "index", faq, "--pipeline", file).stdout) == [3, 0, 0, 0]
    assert counts(run(writes, "index", faq, "--pipeline", file).stdout) == [0, 0, 0, 3]
    assert FAQ[2][1] in run(reads, "ask", "battery", "--pipeline", file, "--json").stdout
    others = key(secured, {"index": [{"names": ["other"], "privileges": ["read"]}]})
    blind = key(secured, {"index": [{"names": ["faq*"], "privileges": ["read"]}]})
    for api_key, command, facts in (
        (reads, ["index", faq], "privilege … deploy"),
        (others, ["ask", "battery"], "view_index_metadata … deploy"),
        (blind, ["ask", "battery"], "view_index_metadata … deploy"),
        ("bm9ib2R5Om5vdGhpbmc=", ["ask", "battery"], "ELASTIC_API_KEY"),
        (None, ["ask", "battery"], "ELASTIC_API_KEY"),
    ):
        error = run(api_key, *command, "--pipeline", file).exception
        assert_refusal(facts, error)
        assert str(api_key) not in str(error)


@pytest.mark.parametrize(("name", "is_written"), [("serve", False), ("desk", True)])
def test_the_owners_changes_need_the_role_of_the_desk(
    secured: Engine,
    tmp_path: Path,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    is_written: bool,
) -> None:
    """Without it, the log names the privilege."""
    monkeypatch.setattr(watch_search, "PAUSE", 0.05)
    monkeypatch.setattr(watch_search, "STILL", 0.05)
    monkeypatch.setattr(watch_search, "INDEX_SECONDS", 0.2)
    file = pipeline(tmp_path, checkpoint, hosts=secured.url, ca_certs=secured.ca)
    search = Search(tmp_path, secured, None, "faq")  # type: ignore[arg-type]  # no proxy
    faq = write(tmp_path / "faq.csv", FAQ)
    assert run(key(secured, role("index")), "index", faq, "--pipeline", file).exception is None

    def finds() -> bool:
        answer = run(key(secured, role("serve")), "ask", "Do you ship abroad?", "--pipeline", file, "--json")
        return "Everywhere." in answer.stdout

    monkeypatch.setenv("ELASTIC_API_KEY", key(secured, role(name)))
    with serving(search, faq):
        owner_changes(search, Action.add_entry, question="Do you ship abroad?", answer="Everywhere.")
        if is_written:
            wait_until(finds)
        else:
            wait_until(lambda: "privilege" in caplog.text)
            assert not finds()


def test_haystacks_components_are_told_which_privilege_of_the_cluster_they_lack(
    secured: Engine, tmp_path: Path, checkpoint: Path
) -> None:
    file = pipeline(tmp_path, checkpoint, "faq_search_elasticsearch", hosts=secured.url, ca_certs=secured.ca)
    reads = {"indices": [{"names": ["faq*"], "privileges": ["read", "view_index_metadata"]}]}
    error = run(key(secured, reads), "ask", "battery", "--pipeline", file).exception
    assert_refusal("cluster privilege … 'monitor' … deploy", error)


def test_certificates(secured: Engine, tmp_path: Path, checkpoint: Path) -> None:
    assert secured.ca is not None
    faq = write(tmp_path / "faq.csv", FAQ)
    api_key = key(secured, role("index"))
    shown = subprocess.run(
        ["openssl", "x509", "-in", secured.ca, "-noout", "-fingerprint", "-sha256"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    fingerprint = re.sub(r".*=|\s", "", shown)
    file = pipeline(tmp_path, checkpoint, hosts=secured.url, ssl_assert_fingerprint=fingerprint)
    assert run(api_key, "index", faq, "--pipeline", file).exception is None
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"hosts": secured.url}, "ca_certs"),
        ({"hosts": secured.url, "ca_certs": "/nowhere.pem"}, "ca_certs"),
        ({"hosts": secured.url, "ssl_assert_fingerprint": "00" * 32}, "ca_certs"),
        ({"hosts": secured.url.replace("https", "http")}, "https"),
    ]
    for settings, facts in wrong:
        file = pipeline(tmp_path, checkpoint, **settings)
        assert_refusal(facts, run(api_key, "ask", "battery", "--pipeline", file).exception)


def test_a_wrong_password(secured: Engine, tmp_path: Path, checkpoint: Path) -> None:
    settings = {"basic_auth": ["elastic", "guessed"]}
    file = pipeline(tmp_path, checkpoint, hosts=secured.url, ca_certs=secured.ca, client_settings=settings)
    error = run(None, "ask", "battery", "--pipeline", file).exception
    assert_refusal("basic_auth", error)
    assert "guessed" not in str(error)
