"""What visitors say of answers, over HTTP: it is kept, once a visit, within a quota, and only of what was shown."""

from __future__ import annotations

import json
import string
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from haystack import Document
from searches import ENTRIES, write_pipeline
from starlette.testclient import TestClient
from typer.testing import CliRunner

from ap_ranker.cli import main
from ap_ranker.data.reader import read_dataset
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import visitors
from ap_ranker.web.app import THREADS, build_app
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements

from .visiting import QUESTION, answers, click, client_of, judgements_of, kept, visit, write_feedback


@pytest.fixture
def client(search: DeclaredPipeline) -> TestClient:
    return client_of(search)


def test_feedback_is_training_data(client: TestClient, search: DeclaredPipeline, tmp_path: Path) -> None:
    found = answers(client)
    for one, helped in ((found[0], True), (found[1], False)):
        response = client.post("/api/feedback", json={"question": QUESTION, "id": one["id"], "helped": helped})
        assert (response.status_code, response.json()) == (200, {"status": "kept"})
    data = read_dataset(write_feedback(search, tmp_path / "feedback.jsonl"), "train")
    assert data.judged
    shown = [f"{one['question']}\n{one['answer']}" for one in found[:2]]
    assert [answer.text for answer in data.answers] == shown
    (question,) = data.questions
    assert (question.text, question.positives, question.negatives) == (QUESTION, (0,), (1,))


def test_train_learns_from_feedback(client: TestClient, search: DeclaredPipeline, tmp_path: Path) -> None:
    """By the command, beside the data that the search was filled with."""
    (tmp_path / "faq.csv").write_text(
        "question,answer\n" + "".join(f'"{entry.question}","{entry.answer}"\n' for entry in ENTRIES)
    )
    (tmp_path / "settings.yaml").write_text("model: ap-cnn\noptions: {filters: 4}\nembedding_size: 4\nepochs: 1\n")
    shown = next(one for one in answers(client) if one["question"] == ENTRIES[2].question)
    assert click(client, shown) == 200
    write_feedback(search, tmp_path / "feedback.jsonl")
    files = {"--config": "settings.yaml", "--feedback": "feedback.jsonl", "--output": "ranker"}
    options = [str(part) for name, file in files.items() for part in (name, tmp_path / file)]
    result = CliRunner().invoke(main.app, ["train", str(tmp_path / "faq.csv"), *options, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "1 questions that users' feedback answers" in result.output
    assert "3 questions, 3 right answers among 3" in result.output  # three, less one for dev, and the one above


def test_a_click_needs_no_search(client: TestClient, search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = answers(client)[:2]
    monkeypatch.setattr(DeclaredPipeline, "answer", lambda *_: pytest.fail("searched"))
    search.pipeline.get_component("search").retriever.document_store.delete_all_documents()
    assert click(client, first) == 200
    assert click(client_of(search), second) == 200  # another server with the same database, or the same one restarted
    texts = [f"{one['question']}\n{one['answer']}" for one in (first, second)]
    assert [(row["answer"], row["stored_question"]) for row in kept(search)] == [
        (text, one["question"]) for text, one in zip(texts, (first, second), strict=True)
    ]


def test_a_click_while_all_threads_search(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(search) as client, ThreadPoolExecutor(4 * THREADS) as users:
        first = answers(client)[0]
        enough = threading.Event()
        ranked = DeclaredPipeline.answer
        monkeypatch.setattr(DeclaredPipeline, "answer", lambda *given: (enough.wait(120), ranked(*given))[1])
        waiting = [users.submit(answers, client) for _ in range(4 * THREADS)]
        try:
            assert click(client, first) == 200
            assert len(kept(search)) == 1
        finally:
            enough.set()
        assert all(one.result() for one in waiting)


@pytest.mark.parametrize("receipt", [None, "", "x", "AAAA", "\N{BICYCLE}", "=" * 40, "A" * 4000, "a.b.c"])
def test_a_click_without_a_receipt_is_searched_for(client: TestClient, search: DeclaredPipeline, receipt: Any) -> None:
    first, second = answers(client)[:2]
    assert click(client, first, receipt=receipt) == 200
    assert click(client, first, receipt=second["receipt"], visit="w") == 200  # of another answer
    assert [row["answer"] for row in kept(search)] == [f"{first['question']}\n{first['answer']}"] * 2


def test_nobody_judges_what_was_never_shown(client: TestClient, search: DeclaredPipeline, tmp_path: Path) -> None:
    """Neither with a receipt for another question, nor with one that another server signed."""
    first = answers(client)[0]
    theirs = Judgements(open_database(tmp_path / "theirs.db"))
    forged = answers(visit(build_app(search, theirs)))[0]["receipt"]
    assert click(client, first, question="zebra") == 404
    assert click(client, first, question="zebra", receipt=forged) == 404
    assert click(client, first, id="0" * 64) == 404
    assert kept(search) == []


def test_a_visit_judges_an_answer_once(client: TestClient, search: DeclaredPipeline) -> None:
    first = answers(client)[0]
    for name, helped in (("a", True), ("a", True), ("b", True), ("a", False)):
        assert click(client, first, visit=name, helped=helped) == 200
    assert sorted(row["label"] for row in kept(search)) == [0, 1]


def test_a_click_is_taken_back(client: TestClient, search: DeclaredPipeline) -> None:
    first, second = answers(client)[:2]
    for one, name in ((first, "v"), (second, "v"), (first, "w")):
        assert click(client, one, visit=name) == 200
    assert click(client, first, helped=None) == 200
    assert [row["stored_question"] for row in kept(search)] == [second["question"], first["question"]]
    assert click(client, first, helped=None) == 200  # there is nothing left to take back
    assert click(client, first, helped=None, visit="") == 422  # whose?
    assert len(kept(search)) == 2


def test_a_comment(client: TestClient, search: DeclaredPipeline) -> None:
    first = answers(client)[0]
    for comment in ({}, {"comment": " too  long ago\n"}):
        assert click(client, first, helped=False, **comment) == 200
    assert [(row["label"], row["comment"]) for row in kept(search)] == [(0, "too  long ago")]
    assert click(client, first, comment="x" * 301) == 422


def test_no_visitor_sees_another_ones_words(client: TestClient, search: DeclaredPipeline) -> None:
    """However many write the same: neither what they were looking for, nor their question."""
    first = answers(client)[0]
    words = "the wheels of a tandem"
    app = build_app(search, judgements_of(search))
    for number in range(10):
        them = visit(app, f"192.0.{number}.1")
        assert click(them, first, helped=False, comment=words, visit=f"v{number}") == 200
    for path, body in (
        ("search", {"question": words}),
        ("search", {"question": QUESTION}),
        ("suggest", {"text": "the wheels"}),
        ("browse", {}),
    ):
        response = visit(app, "198.51.100.7").post(f"/api/{path}", json=body)
        assert response.status_code == 200
        assert "tandem" not in response.text.replace(json.dumps(words), "")  # but as the question that was just asked


@pytest.mark.parametrize("name", ["x" * 65, "a b", "\n", "<script>"])
def test_a_visit_is_a_word(client: TestClient, name: str) -> None:
    assert click(client, answers(client)[0], visit=name) == 422


def test_a_long_answer_can_be_judged(tmp_path: Path, checkpoint: Path) -> None:
    """Longer than a request may be, and longer than a receipt may be."""
    search = DeclaredPipeline.load(write_pipeline(tmp_path, checkpoint))
    random = Random(0)
    texts = ["parcel " + "".join(random.choices(string.printable, k=length)) for length in (60_000, 300_000)]
    search.index([Document(content=text, meta={"answer": "short"}) for text in texts])
    search.prepare()  # as `serve` does: to read so much text takes a part of the 20 seconds of an answer
    client = client_of(search)
    found = answers(client, "parcel")
    assert [one["receipt"] is None for one in found].count(True) == 1
    for one in found:
        assert click(client, one, question="parcel") == 200
    assert sorted(row["answer"] for row in kept(search)) == sorted(texts)


def test_a_network_has_a_quota(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """With any number of visits, and also for taking back; others are not concerned."""
    monkeypatch.setitem(visitors.QUOTAS, "judgement", 6)
    app = build_app(search, judgements_of(search))
    client = visit(app)
    first = answers(client)[0]
    said = [click(client, first, visit=f"v{number}", helped=None if number % 2 else True) for number in range(8)]
    assert said == [200] * 6 + [429] * 2
    assert click(visit(app, "192.0.2.200"), first) == 429  # of the same network
    assert click(visit(app, "198.51.100.7"), first) == 200
    refusals = 'ap_ranker_request_seconds_count{route="/api/feedback",status="429"} 3.0'
    assert refusals in visit(app, "127.0.0.1").get("/metrics").text
    assert len(kept(search)) == 4


def test_a_database_that_cannot_be_written(
    client: TestClient, search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise InputError("no space left on the device")

    first = answers(client)[0]
    monkeypatch.setattr(Judgements, "keep", fail)
    assert click(client, first) == 503
    assert "no space left" in caplog.text
    assert answers(client)
