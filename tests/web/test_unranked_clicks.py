"""Visitors' clicks are stored, and change nothing that another visitor sees."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from conftest import ROOT, TEXTS, settings_of, write_checkpoint
from search_server import Server, served
from searches import write_pipeline
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.dataset import Dataset
from ap_ranker.data.feedback import add_feedback
from ap_ranker.data.reader import read_dataset
from ap_ranker.errors import InputError
from ap_ranker.ranking.checkpoint import read_checkpoint_config, write_checkpoint_config
from ap_ranker.web import connections
from ap_ranker.web.suggestions import LOOK_SECONDS

CLICKS = 50

SECRET = "Erika Mustermann, order 4711: where is my parcel"
COMMENT = "I am Erika Mustermann of 4711 Elm Street"
PERSONAL = ("mustermann", "4711")

CLICKED = ["my bike is where", SECRET, "the battery of my bike okapi"]
"""What visitors ask before they click at the worst answer."""

ASKED = [
    "My bike is WHERE?",  # word for word a clicked question
    "bike is where",
    "where is my parcel",
    "the battery of my bike quagga",  # the model knows neither animal: alike to the model
    "Erika Mustermann",
    "order 4711",
    TEXTS[4],
]
"""What other visitors ask."""

TYPED = ["w", "my", "where is", "erika", "order 4", "4711", "the battery"]

SEARCHES = [("words", 1), ("words", 2), ("hybrid", 2), ("FAQSearch", 1)]
"""Pipeline, and number of processes that search."""

Seen = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """What other visitors saw before and after clicks.

    Attributes:
        seen: when -> question, beginning or path -> the whole response without receipts.
        folder: of the server, with its feedback file.
    """

    seen: dict[str, Seen]
    folder: Path


def ask(server: Server, path: str, **body: Any) -> Any:
    request = Request(f"{server.address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as response:
        return json.load(response)


def get(server: Server, path: str) -> str:
    with urlopen(f"{server.address}{path}", timeout=60) as response:
        return str(response.read().decode())


def without_receipts(found: Any) -> Any:
    return {**found, "answers": [{**answer, "receipt": None} for answer in found["answers"]]}


def seen(server: Server) -> Seen:
    """All that the page and the route of the pipeline give to somebody who has not clicked."""
    ask(server, "api/suggest", text="w")  # makes the server look for new suggestions
    found: Seen = {path: get(server, path) for path in ("", "page/main.js", "page/texts.js")}
    for question in ASKED:
        found[question] = without_receipts(ask(server, "api/search", question=question))
        found[f"run: {question}"] = ask(server, "search/run", query=question)
        for answer in found[question]["answers"][:1]:
            found[f"explain: {question}"] = ask(server, "api/explain", question=question, id=answer["id"])
    for text in TYPED:
        found[f"suggest: {text}"] = ask(server, "api/suggest", text=text)
    return found


def click(server: Server, question: str, visit: str, comment: str = "") -> str:
    """Say that the worst answer helped; returns its id."""
    worst = ask(server, "api/search", question=question)["answers"][-1]
    given = {"question": question, "id": worst["id"], "receipt": worst["receipt"], "visit": visit}
    assert ask(server, "api/feedback", **given, helped=True, comment=comment) == {"status": "kept"}
    return str(worst["id"])


def serving(folder: Path, *options: str) -> Any:
    return served("--pipeline", "search.yaml", "--documents", "FAQ.csv", "--rate", "0", *options, folder=folder)


def write_faq(folder: Path) -> None:
    rows = [(question, f"{answer} my bike is where") for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)]
    rows += [
        (f"Which battery fits bike {number}?", f"The bike {number} is where my parcel is.") for number in range(40)
    ]
    with (folder / "FAQ.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *rows])


def write_search(folder: Path, kind: str) -> None:
    """A pipeline that retrieves few candidates, and a ranker that goes by known wordings above all."""
    checkpoint = write_checkpoint("ap-transformer", folder / "checkpoint")
    write_checkpoint_config(checkpoint, replace(read_checkpoint_config(checkpoint), wording_weight=100.0))
    if kind == "words":
        write_pipeline(folder, checkpoint)
        return
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search_hybrid.yaml").read_text())
    parts = settings_of(declared)
    parts["ranker"] |= {"model": "checkpoint", "top_k": 9}
    parts["retriever"] |= {"model": "checkpoint", "top_k": 3, "rank_all": 0}
    if kind == "FAQSearch":
        store = parts["retriever"]["document_store"]
        settings = {"model": "checkpoint", "document_store": store, "candidates": 3, "top_k": 9}
        one = "haystack_integrations.components.retrievers.ap_ranker.faq_search.FAQSearch"
        declared = {
            "components": {"search": {"type": one, "init_parameters": settings}},
            "connections": [],
            "inputs": {"query": ["search.query"]},
            "outputs": {"documents": "search.documents"},
        }
    (folder / "search.yaml").write_text(yaml.safe_dump(declared))


@pytest.fixture(scope="module", params=SEARCHES, ids=lambda param: "{}-{}".format(*param))
def record(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    """Before any click, after one and after fifty to each of several questions, and of the server started again."""
    kind, workers = request.param
    folder = tmp_path_factory.mktemp(f"{kind}-{workers}")
    write_faq(folder)
    write_search(folder, kind)
    when: dict[str, Seen] = {}
    with serving(folder, "--workers", str(workers)) as server:
        when["before"] = seen(server)
        for question in CLICKED:
            click(server, question, "visit-0", COMMENT)
        when["after 1"] = seen(server)
        for number in range(1, CLICKS):
            for question in CLICKED:
                click(server, question, f"visit-{number}", COMMENT)
        time.sleep(LOOK_SECONDS)
        seen(server)
        when[f"after {CLICKS}"] = seen(server)
        server.process.kill()
        server.process.wait()
    with serving(folder, "--workers", str(workers)) as server:
        when["after a restart"] = seen(server)
    yield Record(when, folder)


@pytest.mark.parametrize("when", ["after 1", f"after {CLICKS}", "after a restart"])
def test_other_visitors_see_what_they_saw_before(record: Record, when: str) -> None:
    before, after = record.seen["before"], record.seen[when]
    assert before.keys() == after.keys()
    for asked, expected in before.items():
        assert after[asked] == expected, asked


def test_no_visitor_reads_the_sentence_of_another(record: Record) -> None:
    for when, found in record.seen.items():
        for asked, response in found.items():
            text = json.dumps(response).casefold()
            if isinstance(response, dict) and "question" in response:
                text = text.replace(json.dumps(response["question"]).casefold(), "")  # their own words come back
            assert not [word for word in PERSONAL if word in text], (when, asked)


def test_every_click_is_stored_and_learnt_from(record: Record) -> None:
    lines = list(map(json.loads, (record.folder / "feedback.jsonl").read_text().splitlines()))
    stored = {(line["question"], line["visit"], line["label"], line["comment"]) for line in lines}
    assert stored == {(question, f"visit-{number}", 1, COMMENT) for question in CLICKED for number in range(CLICKS)}
    assert len(lines) == len(stored)
    training = read_dataset(record.folder / "FAQ.csv", "train")
    learnt = add_feedback(training, Dataset("dev", [], []), record.folder / "feedback.jsonl")
    assert {question.text for question in learnt.questions} >= set(CLICKED)


def test_what_helped_is_listed_and_taken_back(record: Record) -> None:
    feedback = record.folder / "copy.jsonl"
    feedback.write_bytes((record.folder / "feedback.jsonl").read_bytes())
    listed = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["wordings", str(feedback)])
    assert CLICKED[0] in listed.output
    undone = CliRunner().invoke(app, ["wordings", str(feedback), "--remove", CLICKED[0]])
    assert f"{CLICKS} judgements taken back" in undone.output, undone.output
    assert f'"question": "{CLICKED[0]}"' not in feedback.read_text()
    assert CLICKED[0] in (record.folder / "copy.jsonl.removed").read_text()


def test_what_the_owner_accepts_counts(tmp_path: Path) -> None:
    """A file of wordings that the owner names, and adds a question to while it is served."""
    write_faq(tmp_path)
    write_search(tmp_path, "words")
    accepted = tmp_path / "wordings.csv"
    accepted.write_text("question,answer\n")
    with accepted.open("a", newline="") as file:
        csv.writer(file).writerow(["two wheels", f"{TEXTS[1]} my bike is where"])
    with serving(tmp_path, "--wordings", "wordings.csv") as server:
        [first] = ask(server, "api/search", question="two wheels")["answers"][:1]
        assert (first["question"], first["matched_wording"]) == (TEXTS[0], "two wheels")
        worst = ask(server, "api/search", question=CLICKED[0])["answers"][-1]
        with accepted.open("a", newline="") as file:
            csv.writer(file).writerow([CLICKED[0], worst["answer"]])
        [first] = ask(server, "api/search", question=ASKED[0])["answers"][:1]  # word for word: no model decides
        assert first["id"] == worst["id"]


@pytest.mark.parametrize("command", [["ask", "my bike"], ["serve", "--port", "0"], ["gaps", "questions.jsonl"]])
def test_a_feedback_file_is_no_file_of_wordings(
    tmp_path: Path, checkpoint: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connections, "run", lambda app, listening: listening.close())
    write_faq(tmp_path)
    judgement = {"question": "my bike", "answer": TEXTS[1], "label": 1, "visit": "v", "time": "", "comment": ""}
    Path("clicks.jsonl").write_text(json.dumps(judgement) + "\n")
    asked = {"time": "2026-01-01T00:00:00+00:00", "question": "x", "outcome": "refused", "score": None, "entry": ""}
    Path("questions.jsonl").write_text(json.dumps(asked) + "\n")
    options = ["--documents", "FAQ.csv", "--model", str(checkpoint), "--wordings", "clicks.jsonl"]
    error = CliRunner().invoke(app, [*command, *options]).exception
    assert isinstance(error, InputError)
    assert "clicks.jsonl: expected wordings" in str(error)
    assert "column label" in str(error)


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
