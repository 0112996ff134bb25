"""What visitors say and ask changes nothing that others see, and none of their sentences is shown to anybody else."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, TEXTS, settings_of, write_checkpoint
from searches import write_pipeline
from starlette.testclient import TestClient
from typer.testing import CliRunner

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from sqlalchemy import insert

from ap_ranker.cli.main import app
from ap_ranker.data.dataset import Dataset
from ap_ranker.data.faq import DEFAULT_MATCH
from ap_ranker.data.feedback import add_feedback
from ap_ranker.data.reader import read_dataset
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.setup import SearchSetup
from ap_ranker.web import suggestions
from ap_ranker.web.app import build_app
from ap_ranker.web.database import changes, decisions, judgements, metadata, open_database, questions
from ap_ranker.web.question_log import QuestionLog
from ap_ranker.web.workers import SearchWorkers

from .visiting import judgements_of, visit, write_feedback

pytestmark = pytest.mark.usefixtures("forking")

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

Seen = dict[str, Any]


def seen(client: TestClient) -> Seen:
    """All that the page and the route of the pipeline give to somebody who has not clicked."""
    found: Seen = {
        path: client.get(path).text for path in ("/", "/page/main.js", "/page/texts.js", "/page/texts/en.json")
    }
    for question in ASKED:
        shown = client.post("/api/search", json={"question": question}).json()
        found[question] = {**shown, "answers": [{**one, "receipt": None} for one in shown["answers"]]}
        found[f"run: {question}"] = client.post("/search/run", json={"query": question}).json()
        for one in shown["answers"][:1]:
            asked = {"question": question, "id": one["id"]}
            found[f"explain: {question}"] = client.post("/api/explain", json=asked).json()
    for text in TYPED:
        found[f"suggest: {text}"] = client.post("/api/suggest", json={"text": text}).json()
    return found


def judge(client: TestClient, question: str, name: str) -> None:
    """Say that the worst answer helped."""
    worst = client.post("/api/search", json={"question": question}).json()["answers"][-1]
    given = {"question": question, "id": worst["id"], "receipt": worst["receipt"], "visit": name}
    assert client.post("/api/feedback", json=given | {"helped": True, "comment": COMMENT}).status_code == 200


def write_faq(folder: Path) -> Path:
    rows = [(question, f"{answer} my bike is where") for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True)]
    rows += [
        (f"Which battery fits bike {number}?", f"The bike {number} is where my parcel is.") for number in range(40)
    ]
    with (folder / "FAQ.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *rows])
    return folder / "FAQ.csv"


def write_search(folder: Path, kind: str) -> Path:
    """A pipeline that retrieves few candidates, and a ranker that goes by known wordings above all."""
    checkpoint = write_checkpoint("ap-transformer", folder / "checkpoint", wording_weight=100.0)
    if kind == "words":
        return write_pipeline(folder, checkpoint)
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search_hybrid.yaml").read_text())
    parts = settings_of(declared)
    parts["ranker"] |= {"model": str(checkpoint), "top_k": 9}
    parts["retriever"] |= {"model": str(checkpoint), "top_k": 3, "rank_all": 0}
    (folder / "search.yaml").write_text(yaml.safe_dump(declared))
    return folder / "search.yaml"


def set_up(folder: Path, kind: str) -> SearchSetup:
    documents = WatchedFolder(write_faq(folder), None, None)
    documents.read()
    return SearchSetup(write_search(folder, kind), documents, DEFAULT_MATCH, (), {})


@pytest.fixture(scope="module", params=[("words", 1), ("hybrid", 2)], ids=["words", "hybrid in two processes"])
def record(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Seen], DeclaredPipeline]]:
    """What others see before any click, after fifty to each of some questions, and of a server started again."""
    kind, count = request.param
    setup = set_up(tmp_path_factory.mktemp(kind), kind)
    search, _ = setup.load()
    when: dict[str, Seen] = {}
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(suggestions, "LOOK_SECONDS", 0.0)
        workers = SearchWorkers(setup, count) if count > 1 else None
        stack.callback(workers.close if workers else lambda: None)
        log = QuestionLog(open_database(search.path.with_name("faq.db")))
        server = build_app(search, judgements_of(search), workers=workers, question_log=log)
        when["before"] = seen(visit(server))
        for question in CLICKED:
            judge(visit(server), question, "first")
        when["after a click"] = seen(visit(server))
        for number in range(1, CLICKS):
            for question in CLICKED:
                judge(visit(server, f"203.0.{number}.9"), question, f"visit-{number}")
        when["after many"] = seen(visit(server))
        log.close()
        when["after a restart"] = seen(visit(build_app(search, judgements_of(search), workers=workers)))
        plant(search)
        when["with sentences in all tables"] = seen(visit(build_app(search, judgements_of(search), workers=workers)))
    yield when, search


def plant(search: DeclaredPipeline) -> None:
    """Write a visitor's sentence into every text of every table that visitors or decisions on them fill."""
    database = open_database(search.path.with_name("faq.db"))
    for table in (judgements, questions, decisions):
        fixed = {
            "id": 10**6,
            "time": int(time.time()),
            "helped": True,
            "counts": True,
            "score": 0.5,
            "visit": "planted",
        }
        fixed |= {"outcome": "none", "network": "n"}
        row = {column.name: fixed.get(column.name, SECRET) for column in table.columns}
        row |= {name: "0" * 32 for name in row if name.endswith("_key")}
        with database.writing("judgements") as connection:
            connection.execute(insert(table), row)
    filled = {judgements, questions, decisions}
    known = {table.name.removeprefix("ap_ranker_") for table in metadata.tables.values() if table not in filled}
    assert known == {"facts", "revisions", "owners", "sessions", "quotas", changes.name.removeprefix("ap_ranker_")}


@pytest.mark.parametrize("when", ["after a click", "after many", "after a restart", "with sentences in all tables"])
def test_other_visitors_see_what_they_saw_before(record: tuple[dict[str, Seen], object], when: str) -> None:
    before, after = record[0]["before"], record[0][when]
    assert before.keys() == after.keys()
    for asked, expected in before.items():
        assert after[asked] == expected, asked


def test_no_visitor_reads_the_sentence_of_another(record: tuple[dict[str, Seen], object]) -> None:
    for when, found in record[0].items():
        for asked, response in found.items():
            text = json.dumps(response).casefold()
            if isinstance(response, dict) and "question" in response:
                text = text.replace(json.dumps(response["question"]).casefold(), "")  # their own words come back
            assert not [word for word in PERSONAL if word in text], (when, asked)


def test_every_click_is_stored_and_learnt_from(record: tuple[object, DeclaredPipeline], tmp_path: Path) -> None:
    search = record[1]
    kept = [one for one in judgements_of(search).records() if one["answer"] != SECRET]
    assert sorted(one["question"] for one in kept) == sorted(CLICKED * CLICKS)
    assert {one["label"] for one in kept} == {1}
    training = read_dataset(search.path.with_name("FAQ.csv"), "train")
    learnt = add_feedback(training, Dataset("dev", [], []), write_feedback(search, tmp_path / "feedback.jsonl"))
    assert {question.text for question in learnt.questions} >= set(CLICKED)


def test_what_the_owner_accepts_counts(tmp_path: Path) -> None:
    """In a file of wordings that the owner names, and adds a question to."""
    search, _ = set_up(tmp_path, "words").load()
    accepted = tmp_path / "wordings.csv"
    accepted.write_text(f'question,answer\ntwo wheels,"{TEXTS[1]} my bike is where"\n')
    search.add_wordings([accepted])
    client = visit(build_app(search, judgements_of(search)))
    first = client.post("/api/search", json={"question": "two wheels"}).json()["answers"][0]
    assert (first["question"], first["matched_wording"]) == (TEXTS[0], "two wheels")
    worst = client.post("/api/search", json={"question": CLICKED[0]}).json()["answers"][-1]
    with accepted.open("a", newline="") as file:
        csv.writer(file).writerow([CLICKED[0], worst["answer"]])
    deadline = time.monotonic() + 20
    while (first := client.post("/api/search", json={"question": ASKED[0]}).json()["answers"][0])["id"] != worst["id"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert first["matched_wording"] == CLICKED[0]  # word for word: no model decides


def test_a_feedback_file_is_no_file_of_wordings(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_faq(tmp_path)
    judgement = {"question": "my bike", "answer": TEXTS[1], "label": 1, "time": "", "comment": ""}
    Path("clicks.jsonl").write_text(json.dumps(judgement) + "\n")
    options = ["--documents", "FAQ.csv", "--model", str(checkpoint), "--wordings", "clicks.jsonl"]
    error = CliRunner().invoke(app, ["ask", "my bike", *options]).exception
    assert isinstance(error, InputError)
    assert "clicks.jsonl: expected wordings" in str(error)
