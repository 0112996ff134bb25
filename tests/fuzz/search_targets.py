"""Readers of checkpoints, encodings, document stores and pipelines, each used for one search; the HTTP interface."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import yaml
from conftest import ROOT, settings_of, write_checkpoint
from haystack import Document
from hostile_tokenizers import hostile
from starlette.types import Message

from ap_ranker.data.faq import Entry, Match
from ap_ranker.ranking.bm25 import BM25_SCORE
from ap_ranker.ranking.checkpoint import read_checkpoint_config, write_checkpoint_config
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import FUSED, MODEL, Calibration
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.web.app import build_app
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

from .data_targets import ANSWERS, QUESTIONS
from .mutations import NASTY_TEXTS, mutate_content, mutate_folder
from .target import Nonsense, Target, expect, expect_finite

QUESTION = "where is my parcel and my money"
CHECKPOINTS = ("ap-cnn", "ap-transformer", "global-local", "abcnn-2", "bm25", "qa-lstm-cnn", "metzler-bendersky")
ENTRIES = [Entry(question, answer, {"topic": "bikes"}, "") for question, answer in zip(QUESTIONS, ANSWERS, strict=True)]
FIT = Calibration(score=2.0, margin=1.0, bias=-0.5, thresholds={"0.8": 0.1, "0.9": 0.2})


def write_calibrated(model: str, folder: Path) -> None:
    """A checkpoint of random weights, with every part that one may have."""
    write_checkpoint(model, folder / "checkpoint")
    config = replace(
        read_checkpoint_config(folder / "checkpoint"), bm25_weight=0.1, calibration={MODEL: FIT, FUSED: FIT}
    )
    write_checkpoint_config(folder / "checkpoint", config)


def use_checkpoint(folder: Path) -> None:
    """One ranking by each of the two interfaces."""
    expect_ranking(Ranker.from_pretrained(folder / "checkpoint", "cpu"))
    ranker = AnswerRanker(model=str(folder / "checkpoint"), fuse_scores=True, scale_score=True, precision=0.8)
    scores = [{"ap_ranker": {BM25_SCORE: 1.0 / n}} for n in range(1, len(ANSWERS) + 1)]
    documents = [Document(content=text, meta=meta) for text, meta in zip(ANSWERS, scores, strict=True)]
    for document in ranker.run(query=QUESTION, documents=documents)["documents"]:
        expect_finite(document.score)
        expect(0 <= (document.score or 0) <= 1, f"a probability of {document.score}")


def expect_ranking(ranker: Ranker) -> None:
    """All candidates once, best first, with finite scores that a second ranking (from a cache, if any) gives again."""
    first, second = (ranker.rank(QUESTION, ANSWERS) for _ in range(2))
    expect(sorted(one.index for one in first) == list(range(len(ANSWERS))), f"ranked {[one.index for one in first]}")
    expect_finite(*(one.score for one in first))
    expect(all(one.text == ANSWERS[one.index] for one in first), "the texts of a ranking are not the candidates'")
    expect(all(a.score >= b.score for a, b in pairwise(first)), "a worse answer above a better one")
    for one, other in zip(first, second, strict=True):
        expect(math.isclose(one.score, other.score, abs_tol=1e-3), f"first {one.score}, then {other.score}")


LONG_TEXTS = ("a" * 20_000, "a " * 10_000 + "b", "! " * 10_000, " " * 20_000 + "x")


def write_tokenizer(folder: Path) -> None:
    """A checkpoint that reads with an encoder, whose tokenizer is of any kind."""
    write_checkpoint("ap-transformer", folder / "checkpoint")


def mutate_tokenizer(folder: Path, rng: Random) -> None:
    """A part of another kind, as a stranger may write it, or damage."""
    path = folder / "checkpoint" / "tokenizer.json"
    if rng.random() < 0.7:
        valid = json.loads(path.read_text())
        cases = dict(hostile(valid))
        path.write_text(json.dumps(cases[rng.choice(sorted(cases))]))
    if rng.random() < 0.5:
        mutate_folder(folder, rng, only="**/tokenizer.json")


def use_tokenizer(folder: Path) -> None:
    """Texts that are hard to read."""
    ranker = Ranker.from_pretrained(folder / "checkpoint", "cpu")
    expect_finite(*ranker.score(QUESTION, LONG_TEXTS).tolist())


def write_store(folder: Path) -> None:
    store = BM25SDocumentStore(folder / "store")
    store.write_documents([Document(content=text, meta={"n": n}) for n, text in enumerate(ANSWERS)])
    store.bm25_retrieval(QUESTION)  # saves the index
    store.close()


def use_store(folder: Path) -> None:
    """Documents as SQLite itself finds them; a search gives documents of the store, with finite scores."""
    store = BM25SDocumentStore(folder / "store")
    try:
        documents = store.filter_documents()
        expect(store.count_documents() == len(documents), f"{store.count_documents()} counted, {len(documents)} read")
        found = BM25SRetriever(store, top_k=2).run(query=QUESTION)["documents"]
    finally:
        store.close()
    contents = [document.content for document in documents]
    expect(contents == _contents(folder / "store" / "documents.sqlite"), f"documents were read as {contents}")
    expect(all(content is None or isinstance(content, str) for content in contents), f"no text: {contents}")
    for document in found:
        expect_finite(document.score)
        expect(document.content in contents, f"found {document.content!r}")
    expect(len(found) <= 2 and sorted(-one.score for one in found) == [-one.score for one in found], "not in order")


def _contents(database: Path) -> list[Any]:
    connection = sqlite3.connect(database)
    try:
        return [content for (content,) in connection.execute("SELECT content FROM documents ORDER BY row")]
    finally:
        connection.close()


def write_pipeline(folder: Path, **ranker: Any) -> Path:
    """The project's own pipeline, with a checkpoint beside it."""
    write_calibrated("ap-cnn", folder)
    declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
    settings_of(declared)["ranker"] |= {"model": "checkpoint", **ranker}
    path = folder / "search.yaml"
    path.write_text(yaml.safe_dump(declared, sort_keys=False))
    return path


def _pipeline(name: str, folder: Path) -> None:
    """As the project has it, with all that a ranker may be told, and the short form."""
    settings: dict[str, Any] = {
        "batch_size": 8,
        "cache": {"megabytes": 16},
        "score_threshold": 0.0,
        "scale_score": True,
    }
    path = write_pipeline(folder, **(settings if name == "settings" else {}))
    if name == "store":
        declared = yaml.safe_load(path.read_text())
        store = settings_of(declared)["retriever"]["document_store"]
        store["init_parameters"] = {"path": "faq-index", "k1": 1.2, "b": 0.75}
        path.write_text(yaml.safe_dump(declared, sort_keys=False))


def use_pipeline(folder: Path) -> None:
    """One question to it, as `ap-ranker ask` puts one."""
    search = DeclaredPipeline.load(folder / "search.yaml")
    with report_store_errors(search.path, search.place):
        search.fill(ENTRIES, Match.both)
        found = search.run(QUESTION)
    expected = {entry.text(Match.both) for entry in ENTRIES}
    for document in found:
        expect_finite(document.score)
        expect(document.content in expected, f"found {document.content!r}")


ROUTES = (
    "/api/search",
    "/api/suggest",
    "/api/browse",
    "/api/explain",
    "/api/feedback",
    "/search/run",
    "/",
    "/page/main.js",
    "/page/colours.css",
    "/widget.js",
    "/openapi.json",
    "/health",
    "/health/ready",
    "/metrics",
    "/nothing",
)
METHODS = ("POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "get", "")


@cache
def _app() -> tuple[Any, Sequence[Document]]:
    """One application for all requests, as a server has it."""
    folder = Path(mkdtemp(prefix="ap-ranker-fuzz-"))
    search = DeclaredPipeline.load(write_pipeline(folder, model=str(folder / "checkpoint")))
    documents = search.fill(ENTRIES, Match.both)
    return build_app(search, Judgements(open_database(folder / "faq.db")), hosts=["search.example"]), documents


def _request(route: str, folder: Path) -> None:
    one = _app()[1][0]
    bodies: dict[str, dict[str, Any]] = {
        "/api/search": {"question": QUESTION},
        "/api/suggest": {"text": QUESTION[:5]},
        "/api/browse": {"topic": QUESTION},
        "/api/explain": {"question": QUESTION, "id": one.id},
        "/api/feedback": {"question": QUESTION, "id": one.id, "helped": True},
        "/search/run": {"query": QUESTION},
    }
    headers = {"host": "localhost", "content-type": "application/json"}
    head = {"method": "POST" if route in bodies else "GET", "path": route, "query": "", "headers": headers}
    (folder / "request.json").write_text(json.dumps(head))
    (folder / "body.json").write_text(json.dumps(bodies.get(route, {})))


def mutate_request(folder: Path, rng: Random) -> None:
    """The body mostly; sometimes another route or method, or a header that makes no sense."""
    head = json.loads((folder / "request.json").read_text())
    kind = rng.randrange(8)
    if kind == 0:
        head["path"] = rng.choice((*ROUTES, "/" + rng.choice(NASTY_TEXTS)[:500]))
    elif kind == 1:
        head["method"] = rng.choice(METHODS)
    elif kind == 2:
        name = rng.choice(("host", "content-type", "content-length", "authorization", "x-api-key", "cookie", "accept"))
        head["headers"][name] = rng.choice((*NASTY_TEXTS, "application/json; charset=utf-16", "[::1"))[:5000]
    elif kind == 3:
        head["query"] = rng.choice(NASTY_TEXTS)[:5000]
    (folder / "request.json").write_text(json.dumps(head))
    if kind > 1:
        body = folder / "body.json"
        body.write_bytes(mutate_content(body.name, body.read_bytes(), rng))


def use_http(folder: Path) -> None:
    """No request makes the server fail; what it answers is JSON, finite scores and the question as it was asked."""
    head, body = json.loads((folder / "request.json").read_text()), (folder / "body.json").read_bytes()
    status, answer = asyncio.run(_ask(head, body))
    expect(100 <= status < 500, f"status {status}: {answer[:300]!r}")
    if head["path"].startswith(("/api/", "/search/")) and head["method"] == "POST":
        found = json.loads(answer, parse_constant=_no_constant)
        if status == 200 and head["path"] == "/api/search":
            expect(found["question"] == json.loads(body)["question"].strip(), f"{found['question']!r} was answered")
            expect_finite(*(one["score"] for one in found["answers"]))


def _no_constant(name: str) -> None:
    raise Nonsense(f"{name} in a response")


async def _ask(head: dict[str, Any], body: bytes) -> tuple[int, bytes]:
    """A request as a server hands it to the application, which a client library would not send."""
    headers = [(name.encode(), value.encode("utf-8", "replace")) for name, value in head["headers"].items()]
    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": ""},
        **{"method": head["method"].upper(), "path": head["path"], "raw_path": head["path"].encode("utf-8", "replace")},
        **{"query_string": head["query"].encode("utf-8", "replace"), "headers": headers},
        **{"client": ("127.0.0.1", 4242), "server": ("127.0.0.1", 8000)},
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await _app()[0](scope, receive, send)
    status = next(message["status"] for message in sent if message["type"] == "http.response.start")
    return status, b"".join(message.get("body", b"") for message in sent)


TARGETS = [
    Target("checkpoint", {name: partial(write_calibrated, name) for name in CHECKPOINTS}, use_checkpoint, weight=6),
    Target("tokenizer", {"": write_tokenizer}, use_tokenizer, mutate_tokenizer, weight=3),
    Target("store", {"": write_store}, use_store, weight=3),
    Target(
        "pipeline",
        {name: partial(_pipeline, name) for name in ("plain", "settings", "store")},
        use_pipeline,
        partial(mutate_folder, only="search.yaml"),
        weight=3,
    ),
    Target("http", {route: partial(_request, route) for route in ROUTES[:8]}, use_http, mutate_request, weight=5),
]
