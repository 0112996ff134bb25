"""A click on the served page is a wording of the next search, on disk, until it is taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from conftest import ROOT, TEXTS, write_checkpoint
from search_server import Server, served
from searches import write_pipeline
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.errors import InputError
from ap_ranker.ranking.checkpoint import read_checkpoint_config, write_checkpoint_config

QUESTION, SIMILAR = "my bike is where", "My bike is WHERE"
"""What a user asks and clicks at, and what the next user asks."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint = write_checkpoint("ap-transformer", tmp_path / "checkpoint")
    write_checkpoint_config(checkpoint, replace(read_checkpoint_config(checkpoint), wording_weight=100.0))
    write_pipeline(tmp_path, checkpoint)
    rows = [
        f'"{question}","{answer} my bike is where"\n' for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)
    ]
    (tmp_path / "FAQ.csv").write_text("question,answer\n" + "".join(rows))
    return tmp_path


def post(server: Server, path: str, **body: Any) -> Any:
    request = Request(f"{server.address}api/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as response:
        return json.load(response)


def search(server: Server, question: str) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = post(server, "search", question=question)["answers"]
    return answers


def serving(folder: Path, *options: str) -> Any:
    return served("--pipeline", "search.yaml", "--documents", "FAQ.csv", *options, folder=folder)


@pytest.fixture(params=["1", "2"])
def clicked(folder: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """A folder whose server was killed right after a click at the last answer, and that answer."""
    with serving(folder, "--workers", request.param) as server:
        before = search(server, SIMILAR)
        assert all(answer["matched_wording"] != QUESTION for answer in before)
        last = search(server, QUESTION)[-1]
        assert last["id"] != before[0]["id"]
        post(server, "feedback", question=QUESTION, id=last["id"], receipt=last["receipt"], helped=True)
        first = search(server, SIMILAR)[0]
        assert (first["id"], first["matched_wording"]) == (last["id"], QUESTION)
        server.process.kill()
        server.process.wait()
    yield folder, last["id"]


def test_a_click_changes_the_next_search_survives_a_kill_and_is_undone_by_one_command(
    clicked: tuple[Path, str],
) -> None:
    folder, answer = clicked
    feedback = folder / "feedback.jsonl"
    listed = CliRunner().invoke(app, ["wordings", str(feedback)])
    assert QUESTION in listed.output
    with serving(folder) as server:
        assert search(server, SIMILAR)[0]["id"] == answer
        undone = CliRunner().invoke(app, ["wordings", str(feedback), "--remove", QUESTION])
        assert "1 judgements taken back" in undone.output, undone.output
        found = search(server, SIMILAR)
        assert found[0]["id"] != answer
        assert all(each["matched_wording"] != QUESTION for each in found)
    assert feedback.read_text() == ""
    assert QUESTION in (folder / "feedback.jsonl.removed").read_text()


ASKED, ALIKE = "where is my bike quagga", "where is my bike okapi"
"""Alike to the model, which knows neither of the last words; by one of them BM25 finds the entry."""


@pytest.mark.parametrize("kind", ["hybrid", "FAQSearch"])
def test_a_click_makes_the_next_search_fetch_an_entry_of_a_large_faq(folder: Path, kind: str) -> None:
    rows = "".join(f"Which battery fits {i},the bike {i} is where my parcel is\n" for i in range(1000))
    (folder / "FAQ.csv").write_text(f"question,answer\n{rows},the quagga within the goods\n")
    write_retrieving(folder, kind)
    with serving(folder) as server:
        assert all("quagga" not in answer["answer"] for answer in search(server, ALIKE))
        [clicked] = [answer for answer in search(server, ASKED) if "quagga" in answer["answer"]]
        post(server, "feedback", question=ASKED, id=clicked["id"], receipt=clicked["receipt"], helped=True)
        first = search(server, ALIKE)[0]
        assert (first["id"], first["matched_wording"], first["bm25_rank"]) == (clicked["id"], ASKED, None)
        CliRunner().invoke(app, ["wordings", str(folder / "feedback.jsonl"), "--remove", ASKED])
        assert all("quagga" not in answer["answer"] for answer in search(server, ALIKE))


def write_retrieving(folder: Path, kind: str) -> None:
    """A pipeline that retrieves 3 candidates by each leg."""
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search_hybrid.yaml").read_text())
    components = declared["components"]
    components["ranker"]["init_parameters"] |= {"model": "checkpoint", "top_k": 20}
    components["retriever"]["init_parameters"] |= {"model": "checkpoint", "top_k": 3}
    if kind == "FAQSearch":
        store = components["retriever"]["init_parameters"]["document_store"]
        settings = {"model": "checkpoint", "document_store": store, "candidates": 3, "top_k": 20}
        one = "haystack_integrations.components.retrievers.ap_ranker.faq_search.FAQSearch"
        declared = {
            "components": {"search": {"type": one, "init_parameters": settings}},
            "connections": [],
            "inputs": {"query": ["search.query"]},
            "outputs": {"documents": "search.documents"},
        }
    (folder / "search.yaml").write_text(yaml.safe_dump(declared))


def test_what_cannot_be_taken_back(tmp_path: Path) -> None:
    feedback = tmp_path / "feedback.jsonl"
    command = ["wordings", str(feedback), "--remove", "x"]
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, InputError)
    assert "expected a feedback file, found none" in str(error)
    feedback.write_text('{"question": "y", "answer": "a", "label": 1}\n')
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, InputError)
    assert "expected judgements of the question 'x', found none" in str(error)
    assert feedback.read_text() == '{"question": "y", "answer": "a", "label": 1}\n'
