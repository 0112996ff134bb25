"""A question that nobody logs is on no disk and in no log, whoever asks it in whatever way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from conftest import TEXTS, write_checkpoint, write_faq
from forked import served
from searches import write_pipeline
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.ranking.fingerprint import text_key
from ap_ranker.search.declared_pipeline import DeclaredPipeline

from .bytes_on_disk import bytes_below
from .visiting import client_of

QUESTION = "Erika Mustermann asks where her parcel with the battery is"


def traces_of(question: str) -> list[bytes]:
    """A question as it would be found: its words, and the hash that the states of a text are stored by."""
    key = text_key(question)
    return [b"Mustermann", b"mustermann", key, key.hex().encode()]


@pytest.mark.parametrize(("kind", "workers"), [("ap-cnn", 2), ("ap-transformer", 1)])
def test_no_file_keeps_a_question(
    kind: str, workers: int, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers' states are kept for the next run, questions' are not: by a server, a command, an evaluation."""
    work, data, temporary = (tmp_path / name for name in ("work", "data", "temporary"))
    for folder in (work, data, temporary):
        folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.chdir(work)
    write_faq(work / "faq.csv")
    checkpoint = write_checkpoint(kind, work / "checkpoint")
    write_pipeline(work, checkpoint)
    options = ("--documents", "faq.csv", "--pipeline", "search.yaml", "--score-threshold", "-9")
    with served(*options, "--workers", str(workers), folder=work) as server:
        with httpx.Client(base_url=server.address, timeout=60) as visitor:
            found = visitor.post("/api/search", json={"question": QUESTION}).json()["answers"][0]
            explained = visitor.post("/api/explain", json={"question": QUESTION, "id": found["id"]})
            assert explained.status_code == 200
            assert visitor.post("/api/suggest", json={"text": QUESTION}).status_code == 200
            assert visitor.post("/search/run", json={"query": QUESTION}).status_code == 200
            assert "Mustermann" not in visitor.get("/metrics").text + visitor.get("/health").text
        for folder in (work, own_cache, temporary):
            assert not [trace for trace in traces_of(QUESTION) if trace in bytes_below(folder)]
    rows = [{"question": QUESTION, "answer": TEXTS[1]}]
    (data / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for command in (
        ["ask", QUESTION, "--documents", "faq.csv", "--pipeline", "search.yaml"],
        ["ask", QUESTION, "--documents", "faq.csv", "--model", "checkpoint"],
        ["evaluate", "checkpoint", str(data / "test.jsonl"), "--answers", "faq.csv", "--json", "report.json"],
    ):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    assert own_cache.exists(), "something is kept of answers"
    for folder in (work, own_cache, temporary):
        assert not [trace for trace in traces_of(QUESTION) if trace in bytes_below(folder)]


@pytest.mark.parametrize("path", ["/api/search", "/search/run"])
@pytest.mark.parametrize("quoted", [str, repr, json.dumps])
def test_no_log_quotes_a_question_that_fails(
    search: DeclaredPipeline,
    path: str,
    quoted: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A component, or the server of a store, may say what it could not answer."""
    asked = QUESTION + ' "now" äöü ' + "so on and on " * 60

    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"cannot parse {quoted(asked)}")

    for component in (search.ranker(), search.pipeline.get_component("search")):
        for method in ("run", "run_async"):
            if hasattr(component, method):
                monkeypatch.setattr(type(component), method, fail)
    monkeypatch.setattr(DeclaredPipeline, "answer", fail)
    name = "question" if path == "/api/search" else "query"
    response = client_of(search).post(path, json={name: asked})
    assert response.status_code == 503
    assert "cannot parse" in caplog.text
    assert "Mustermann" not in caplog.text + response.text
    assert "so on" not in caplog.text
