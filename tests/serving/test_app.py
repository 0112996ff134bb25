"""The HTTP interface, in process."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("hayhooks", reason="the extra serve is not installed")

from starlette.testclient import TestClient
from starlette.types import Message
from typer.testing import CliRunner

from ap_ranker.cli import main
from ap_ranker.data.faq import Match
from ap_ranker.data.reader import read_dataset
from ap_ranker.errors import InputError
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.serving import limits
from ap_ranker.serving import search as search_module
from ap_ranker.serving.app import HEADERS, THREADS, build_app
from ap_ranker.serving.feedback import FeedbackFile
from ap_ranker.serving.limits import MAX_BYTES, MAX_CLIENTS, Rate
from ap_ranker.serving.search import DeclaredPipeline, Ranked, to_document

from .conftest import ENTRIES, NASTY, filled, write_pipeline

QUESTION = "where is the parcel with my battery and my money"


def client_of(search: DeclaredPipeline, **options: Any) -> TestClient:
    app = build_app(search, FeedbackFile(search.path.with_name("feedback.jsonl")), **options)
    return TestClient(app, "http://localhost", raise_server_exceptions=False)


@pytest.fixture
def client(search: DeclaredPipeline) -> TestClient:
    return client_of(search)


def answers(client: TestClient, question: str = QUESTION) -> list[dict[str, Any]]:
    response = client.post("/api/search", json={"question": question})
    assert response.status_code == 200, response.text
    return response.json()["answers"]


def test_the_ranking_is_the_pipelines_own(client: TestClient, search: DeclaredPipeline) -> None:
    inputs = {"retriever": {"query": QUESTION}, "ranker": {"query": QUESTION}}
    results = search.pipeline.run(inputs, include_outputs_from={"retriever"})
    fetched = [document.id for document in results["retriever"]["documents"]]
    found = answers(client)
    assert len(found) > 2
    assert found == [
        {
            "id": document.id,
            "score": document.score,
            "question": document.meta["question"],
            "answer": document.meta["answer"],
            "bm25_rank": fetched.index(document.id) + 1,
        }
        for document in results["ranker"]["documents"]
    ]
    assert [one["bm25_rank"] for one in found] != sorted(one["bm25_rank"] for one in found)  # else it shows nothing


def test_hayhooks_route_asks_the_same_pipeline(client: TestClient) -> None:
    response = client.post("/search/run", json={"query": QUESTION})
    assert response.status_code == 200, response.text
    documents = response.json()["result"]["ranker"]["documents"]
    assert [one["id"] for one in documents] == [one["id"] for one in answers(client)]


@pytest.mark.parametrize("path", ["/deploy_files", "/deploy-yaml", "/undeploy/search", "/status", "/docs"])
def test_nothing_can_be_deployed(client: TestClient, path: str) -> None:
    for response in (client.get(path), client.post(path, json={})):
        assert response.status_code == 404
        assert response.json() == {"error": "Not Found"}


def test_no_good_answer(client: TestClient, search: DeclaredPipeline) -> None:
    nothing = client.post("/api/search", json={"question": "zebra"}).json()  # no entry has the word
    assert nothing == {"question": "zebra", "found": False, "answers": []}
    scores = [one["score"] for one in answers(client)]
    strict = client_of(search, limits={"score_threshold": scores[1]})
    assert [one["score"] for one in answers(strict)] == [score for score in scores if score >= scores[1]]
    assert answers(client_of(search, limits={"score_threshold": scores[0] + 0.001})) == []


def test_the_pipelines_own_threshold(tmp_path: Path, checkpoint: Path) -> None:
    assert answers(client_of(filled(write_pipeline(tmp_path, checkpoint, score_threshold=1.0)))) == []


def test_explain(client: TestClient, checkpoint: Path) -> None:
    best = answers(client)[0]
    reasons = client.post("/api/explain", json={"question": QUESTION, "id": best["id"]}).json()
    matched = f"{best['question']}\n{best['answer']}"
    expected = Ranker.from_pretrained(checkpoint, "cpu").explain(QUESTION, matched)
    assert reasons["score"] == pytest.approx(expected.score)
    for side, text, tokens in (("question", QUESTION, expected.question), ("answer", matched, expected.answer)):
        assert reasons[side]["text"] == text
        greatest = max(token.weight or 0 for token in tokens)
        shown = [(text[one["start"] : one["end"]], one["heat"]) for one in reasons[side]["tokens"]]
        assert [word for word, _ in shown] == [token.text for token in tokens]
        assert [heat for _, heat in shown] == pytest.approx([(token.weight or 0) / greatest for token in tokens])


def test_a_model_without_attention_says_so(tmp_path: Path, blind_checkpoint: Path) -> None:
    client = client_of(filled(write_pipeline(tmp_path, blind_checkpoint)))
    response = client.post("/api/explain", json={"question": QUESTION, "id": answers(client)[0]["id"]})
    assert response.status_code == 409
    assert "found qa-cnn, which has no such weights" in response.json()["error"]


def test_feedback_is_training_data(client: TestClient, search: DeclaredPipeline) -> None:
    found = answers(client)
    for one, helped in ((found[0], True), (found[1], False)):
        response = client.post("/api/feedback", json={"question": QUESTION, "id": one["id"], "helped": helped})
        assert (response.status_code, response.json()) == (200, {"status": "kept"})
    data = read_dataset(search.path.with_name("feedback.jsonl"), "train")
    assert data.judged
    assert [answer.text for answer in data.answers] == [f"{one['question']}\n{one['answer']}" for one in found[:2]]
    (question,) = data.questions
    assert (question.text, question.positives, question.negatives) == (QUESTION, (0,), (1,))


def test_train_learns_from_feedback(client: TestClient, tmp_path: Path) -> None:
    """By the command, beside the data that the search was filled with."""
    (tmp_path / "faq.csv").write_text(
        "question,answer\n" + "".join(f'"{entry.question}","{entry.answer}"\n' for entry in ENTRIES)
    )
    (tmp_path / "settings.yaml").write_text("options: {filters: 4}\nembedding_size: 4\nepochs: 1\n")
    shown = next(one for one in answers(client) if one["question"] == ENTRIES[2].question)
    judged = {"question": QUESTION, "id": shown["id"], "helped": True}
    assert client.post("/api/feedback", json=judged).status_code == 200
    files = {"--config": "settings.yaml", "--feedback": "feedback.jsonl", "--output": "ranker"}
    options = [str(part) for name, file in files.items() for part in (name, tmp_path / file)]
    result = CliRunner().invoke(main.app, ["train", str(tmp_path / "faq.csv"), *options, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "1 questions that users' feedback answers" in result.output
    assert "3 questions, 3 right answers among 3" in result.output  # three, less one for dev, and the one above


def test_many_at_once_get_the_same_answers(client: TestClient) -> None:
    """In threads on one model, one store and one cache."""
    questions = [QUESTION, "which battery", "refund", "zebra", NASTY.question] * 20
    alone = {question: answers(client, question) for question in set(questions)}
    with client, ThreadPoolExecutor(16) as pool:  # entered, the client has one event loop, as a server has
        found = list(pool.map(lambda question: answers(client, question), questions))
    for question, one in zip(questions, found, strict=True):
        assert [answer["id"] for answer in one] == [answer["id"] for answer in alone[question]]


def test_feedback_of_many_at_once(tmp_path: Path) -> None:
    file = FeedbackFile(tmp_path / "feedback.jsonl")
    (tmp_path / "feedback.jsonl").write_text('{"question": "a"}\n{"half a li')  # as a crash would leave it
    texts = [f"{number} \N{BICYCLE}\n" * 50 for number in range(60)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: file.append(question=text, answer="b", stored_question="", helped=True), texts))
    lines = [json.loads(line) for line in (tmp_path / "feedback.jsonl").read_text().splitlines()]
    assert sorted(line["question"] for line in lines) == sorted([*texts, "a"])


def test_a_feedback_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file for feedback that can be written"):
        FeedbackFile(tmp_path / "none" / "feedback.jsonl")


@pytest.mark.parametrize(("path", "more"), [("/api/explain", {}), ("/api/feedback", {"helped": True})])
def test_an_answer_that_was_not_given(
    client: TestClient, path: str, more: dict[str, bool], search: DeclaredPipeline
) -> None:
    response = client.post(path, json={"question": QUESTION, "id": "0" * 64, **more})
    assert response.status_code == 404
    assert response.json() == {"error": "Expected the id of an answer to this question, found another. Ask again."}
    assert search.path.with_name("feedback.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("status", "found", "request_"),
    [
        (415, "application/json", {"data": {"question": "x"}}),
        (415, "application/json", {"content": '{"question": "x"}', "headers": {"Content-Type": "text/plain"}}),
        (413, "16,384 bytes", {"json": {"question": "x" * MAX_BYTES}}),
        (422, "question:", {"json": {"question": "x" * 1001}}),
        (422, "question:", {"json": {"question": "  \n"}}),
        (422, "question:", {"json": {"question": 3}}),
        (422, "question:", {"json": {}}),
        (422, "top_k:", {"json": {"question": "x", "top_k": 10**9}}),
        (422, "question:", {"content": '{"question": "\\ud800"}', "headers": {"Content-Type": "application/json"}}),
        (400, "parsing", {"content": "[" * 16_000, "headers": {"Content-Type": "application/json"}}),
        (422, "JSON", {"content": "{", "headers": {"Content-Type": "application/json"}}),
    ],
)
def test_a_bad_request_is_one_sentence(client: TestClient, status: int, found: str, request_: dict[str, Any]) -> None:
    response = client.post("/api/search", **request_)
    assert response.status_code == status
    assert found in response.json()["error"]
    assert list(response.json()) == ["error"]
    assert "Traceback" not in response.text


def test_a_body_that_does_not_tell_its_size(client: TestClient) -> None:
    pieces = (b'{"question": "' + b"x" * 1000 for _ in range(20))
    response = client.post("/api/search", content=pieces, headers={"Content-Type": "application/json"})
    assert response.status_code == 413


def test_rate(search: DeclaredPipeline) -> None:
    client = client_of(search, rate=1)
    states = [client.post("/api/search", json={"question": "parcel"}).status_code for _ in range(3)]
    assert states == [200, 200, 429]
    assert client.get("/health").status_code == 200


def test_rate_counts_each_client_and_forgets() -> None:
    now = 0.0
    rate = Rate(2, lambda: now)
    assert [rate.allows("a") for _ in range(5)] == [True] * 4 + [False]
    assert rate.allows("b")
    now = 0.5  # time for one more
    assert [rate.allows("a") for _ in range(2)] == [True, False]
    for number in range(MAX_CLIENTS + 10):
        rate.allows(str(number))
    assert len(rate._clients) == MAX_CLIENTS


def test_a_search_that_fails(client: TestClient, search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a secret of the server")

    with monkeypatch.context() as patch:
        patch.setattr(search.pipeline, "run", fail)
        response = client.post("/api/search", json={"question": "x"})
    assert (response.status_code, list(response.json())) == (500, ["error"])
    assert "secret" not in response.text
    with monkeypatch.context() as patch:
        patch.setattr(search.pipeline, "run_async", fail)
        response = client.post("/search/run", json={"query": "x"})
    assert (response.status_code, list(response.json())) == (500, ["error"])
    assert "secret" not in response.text


@pytest.mark.parametrize(
    ("path", "body"), [("/api/search", {"question": QUESTION}), ("/search/run", {"query": QUESTION})]
)
def test_a_search_that_takes_too_long(
    client: TestClient, search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, str]
) -> None:
    enough = threading.Event()
    ranker = search.pipeline.get_component("ranker")
    run = ranker.run
    monkeypatch.setattr(ranker, "run", lambda **inputs: (enough.wait(20), run(**inputs))[1])
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 0.3)
    with client:
        response = client.post(path, json=body)
        assert not enough.is_set()
        enough.set()
    assert response.status_code == 503
    assert response.json() == {"error": "The search took longer than 0.3 seconds. Try again."}
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_a_request_that_trickles_in(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Message] = []
    waits = iter([{"type": "http.request", "body": b"{", "more_body": True}])

    async def receive() -> Message:
        for message in waits:
            return message
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(*_: object) -> None:
        raise AssertionError("nothing should have been passed on")

    monkeypatch.setattr(limits, "ARRIVAL_SECONDS", 0.05)
    headers = [(b"content-type", b"application/json")]
    await limits.Limits(app, None)({"type": "http", "method": "POST", "headers": headers}, receive, send)
    assert sent[0]["status"] == 408
    assert b"within 0.05 seconds" in sent[1]["body"]


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost:8000", True),
        ("LOCALHOST", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("192.168.0.7", True),
        ("faq.example:443", True),
        ("sub.faq.example", False),
        ("evil.example:8000", False),
        ("127.0.0.1.evil.example", False),
        ("localhost@evil.example", False),
        ("[::1", False),
        ("", False),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", "/api/search"), ("POST", "/search/run")])
def test_a_request_for_another_name(search: DeclaredPipeline, host: str, ours: bool, method: str, path: str) -> None:
    client = client_of(search, hosts=["FAQ.example"])
    body = {"query" if path == "/search/run" else "question": QUESTION}
    response = client.request(method, path, headers={"Host": host}, json=body if method == "POST" else None)
    assert response.status_code == (200 if ours else 400), response.text
    if not ours:
        assert f"faq.example, localhost or an IP address, found one for {host!r}" in response.json()["error"]
        assert response.headers["x-content-type-options"] == "nosniff"


async def test_searches_that_nobody_waits_for_do_not_pile_up(
    search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are given up, no more than a few run at once, and those that wait for a thread never run."""
    enough, lock, running, begun = threading.Event(), threading.Lock(), 0, []
    run = search.ranked

    def slow(question: str) -> list[Ranked]:
        nonlocal running
        with lock:
            running += 1
            begun.append(running)
        enough.wait(20)
        with lock:
            running -= 1
        return run(question)

    monkeypatch.setattr(DeclaredPipeline, "ranked", lambda _, question, limits: slow(question))
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 0.3)
    app = build_app(search, FeedbackFile(search.path.with_name("feedback.jsonl")))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as c,
    ):
        for _ in range(2):
            asked = (c.post("/api/search", json={"question": QUESTION}) for _ in range(2 * THREADS))
            assert {response.status_code for response in await asyncio.gather(*asked)} == {503}
        enough.set()
        monkeypatch.setattr(limits, "ANSWER_SECONDS", 20.0)
        assert (await c.post("/api/search", json={"question": QUESTION})).status_code == 200
    assert len(begun) == THREADS + 1
    assert max(begun) <= THREADS


def test_answers_are_encoded_before_the_first_question(search: DeclaredPipeline, tmp_path: Path) -> None:
    documents = [to_document(entry, Match.both) for entry in [*ENTRIES, NASTY]]
    search.warm_up(documents)
    ranker = search.ranker()
    assert ranker is not None
    assert ranker.cache_info is not None
    assert ranker.cache_info.entries == len(documents)
    missed = ranker.cache_info.misses
    search.ranked(QUESTION)
    assert ranker.cache_info.misses == missed


def test_a_start_encodes_for_a_limited_time(search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "ENCODING_SECONDS", -1.0)
    search.warm_up([to_document(entry, Match.both) for entry in [*ENTRIES, NASTY]])
    ranker = search.ranker()
    assert ranker is not None
    assert ranker.cache_info is not None
    assert ranker.cache_info.entries <= 2  # what the first question found


def test_the_page_needs_no_other_host(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    files = [page, *(client.get(f"/{name}") for name in re.findall(r'(?:href|src)="([^"]+)"', page.text))]
    assert len(files) == 3
    for file in files:
        assert file.status_code == 200
        assert not re.search(r"https?:|//\w+\.|url\(|@import|innerHTML|insertAdjacentHTML|document\.write", file.text)
        assert {name: file.headers[name] for name in HEADERS} == HEADERS
    for inline in (r"<script>", r"<style", r" style=", r" on\w+="):
        assert not re.search(inline, page.text)  # the policy would block it


def test_text_travels_as_it_is(client: TestClient) -> None:
    response = client.post("/api/search", json={"question": NASTY.question})
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.json()["question"] == NASTY.question
    assert (NASTY.question, NASTY.answer) in [(one["question"], one["answer"]) for one in response.json()["answers"]]


def test_health(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}


def test_precision_is_the_rankers(search: DeclaredPipeline) -> None:
    """The checkpoint is not calibrated, so it cannot promise any: the server's fault, and no answers."""
    refused = client_of(search, limits={"precision": 0.9}).post("/api/search", json={"question": QUESTION})
    assert (refused.status_code, list(refused.json())) == (503, ["error"])
