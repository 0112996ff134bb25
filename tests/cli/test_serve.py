"""`ap-ranker serve` up to the moment it listens; tests/web has what it then answers."""

from __future__ import annotations

import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, settings_of
from refusals import absent, assert_refusal, refused
from typer.testing import CliRunner, Result

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from search_server import served
from sqlalchemy import update
from starlette.testclient import TestClient

from ap_ranker.cli import serve as serve_module
from ap_ranker.cli.main import app
from ap_ranker.errors import InputError
from ap_ranker.search.setup import SearchSetup
from ap_ranker.web import connections
from ap_ranker.web.database import judgements, open_database
from ap_ranker.web.judgements import Judgements


@pytest.fixture
def folder(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    settings_of(declared)["ranker"]["model"] = str(checkpoint)
    del settings_of(declared)["retriever"]["document_store"]["init_parameters"]["documents"]
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(declared))
    (tmp_path / "faq.csv").write_text("question,answer\nwhere is it,on its way\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connections, "run", lambda app, listening: listening.close())
    return tmp_path


def run(*options: str, documents: bool = True) -> Result:
    command = ["serve", "--pipeline", "search.yaml", "--port", "0", *options]
    return CliRunner().invoke(app, command + ["--documents", "faq.csv"] * documents)


@pytest.mark.parametrize(("host", "open_"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)])
def test_it_says_where_it_listens_and_who_can_reach_it(folder: Path, host: str, open_: bool) -> None:
    result = run("--host", host)
    assert result.exit_code == 0, result.output
    assert f"Search page: http://{host}:" in result.stdout
    assert ("Warning: other machines can reach 0.0.0.0" in result.stderr) == open_
    assert str(folder / "faq.db") in result.stdout
    assert (folder / "faq.db").exists()


@pytest.mark.parametrize(
    ("options", "names"),
    [([], {"a": 400}), (["--allowed-host", "a", "--allowed-host", "B"], {"a": 200, "b:8000": 200, "c": 400})],
)
def test_the_names_it_answers_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], names: dict[str, int]
) -> None:
    apps: list[Any] = []
    monkeypatch.setattr(connections, "run", lambda app, listening: (apps.append(app), listening.close()))
    result = run("--host", "localhost", *options)
    assert result.exit_code == 0, result.output
    client = TestClient(apps[0])
    found = {name: client.get("/health", headers={"Host": name}).status_code for name in [*names, "localhost"]}
    assert found == names | {"localhost": 200}


def test_a_server_that_does_not_start(folder: Path) -> None:
    with refused("status 2"), served("--pipeline", "none.yaml", folder=folder):
        raise AssertionError


def test_a_port_in_use_is_told_before_anything_is_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SearchSetup, "load", lambda setup: pytest.fail("it has loaded the search"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run("--port", port)
    assert_refusal(f"127.0.0.1 … {port} … --port", result.exception)
    assert not (folder / "faq.db").exists()


def test_the_missing_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_module.importlib.util, "find_spec", lambda name: None)
    with refused('pip install "ap-ranker[serve]"'):
        raise run().exception or AssertionError


def test_a_port_that_is_taken(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        error = run("--port", str(taken.getsockname()[1])).exception
    assert_refusal("Address already in use … --host … --port", error)


def test_wordings_without_a_ranker_that_uses_them(folder: Path) -> None:
    declared = yaml.safe_load((folder / "search.yaml").read_text())
    declared |= {
        "components": {"retriever": declared["components"]["search"]["init_parameters"]["retriever"]},
        "inputs": {"query": "retriever.query"},
        "outputs": {"documents": "retriever.documents"},
    }
    (folder / "search.yaml").write_text(yaml.safe_dump(declared))
    assert run().exit_code == 0
    error = run("--wordings", "faq.csv").exception
    assert_refusal("search.yaml … ranker … wordings", error)


def test_what_is_wrong_is_said_before_it_listens(folder: Path) -> None:
    assert not absent("documents … none", run(documents=False).exception)
    assert not absent("nowhere", run("--database", "nowhere/faq.db").exception)
    assert not absent("1.5", run("--precision", "1.5").exception)
    declared = yaml.safe_load((folder / "search.yaml").read_text())
    settings_of(declared)["ranker"]["model"] = "nowhere"
    (folder / "search.yaml").write_text(yaml.safe_dump(declared))
    (folder / "faq.csv").write_text("question,answer\nnothing,like the warm-up\n")
    result = run()
    assert_refusal("nowhere", result.exception)


def test_nothing_is_left_of_a_start_without_documents(folder: Path) -> None:
    before = set(folder.iterdir())
    assert isinstance(run("--documents", "none.csv", documents=False).exception, InputError)
    assert set(folder.iterdir()) == before


def test_what_is_older_than_the_days_to_keep_goes(folder: Path) -> None:
    database = open_database(str(folder / "faq.db"))
    Judgements(database).keep(question="q", answer="a", stored_question="", helped=True, network="n")
    with database.writing() as connection:
        connection.execute(update(judgements).values(time=1_588_583_564))  # 2020
    for days, left in (("0", 1), ("30", 0)):
        assert run("--keep-days", days).exit_code == 0
        with closing(sqlite3.connect(folder / "faq.db")) as connection:
            assert connection.execute("select count(*) from ap_ranker_judgements").fetchone() == (left,)
