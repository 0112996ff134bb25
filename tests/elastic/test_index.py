"""`ap-ranker index` and `ap-ranker ask` on Elasticsearch: every test on each server there is."""

from __future__ import annotations

import csv
import json
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import forked
import pytest
import snowballstemmer
from haystack import Document, Pipeline
from refusals import absent, assert_refusal, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.search import sync_store
from ap_ranker.search.load_pipeline import find_stores, report_store_errors
from ap_ranker.search.sync_store import IndexChanges
from elastic.adapter import Adapter
from elastic.conftest import Search
from elastic.servers import Server

FAQ = [
    ("Where is my parcel?", "Open the tracking link in your e-mail."),
    ("How do I get my money back?", "Send the goods to us; the refund arrives within five days."),
    ("Which battery fits my bike?", "Only the original battery fits."),
]


def sync_documents(
    store: Any, documents: Any, *, listed: int = 5_000, batch: int = 500, **options: Any
) -> IndexChanges:
    """With so many documents a list and a request."""
    with patch.multiple(sync_store, LISTED=listed, BATCH=batch):
        return sync_store.sync_documents(store, documents, **options)


def write(path: Path, entries: Sequence[tuple[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *entries])
    return path


def index(search: Search, entries: Sequence[tuple[str, str]], *options: str) -> str:
    """The command's last line."""
    faq = write(search.folder / "faq.csv", entries)
    result = CliRunner().invoke(
        app, ["index", str(faq), "--pipeline", str(search.indexing), *options], catch_exceptions=False
    )
    return result.stdout


def counts(line: str) -> list[int]:
    """Added, changed, removed, unchanged."""
    return [int(re.search(rf"([\d,]+) {word}", line)[1]) for word in ("added", "changed", "removed", "unchanged")]  # type: ignore[index]


def stored(search: Search) -> list[tuple[str, str]]:
    return sorted((fields["question"], fields["answer"]) for fields in search.documents().values())


def test_the_file_is_what_the_index_holds(search: Search) -> None:
    """Added, then nothing to do, then each kind of change at once."""
    assert counts(index(search, FAQ)) == [3, 0, 0, 0]
    assert stored(search) == sorted(FAQ)
    bulks = search.proxy.bulks()
    before = search.documents()
    assert counts(index(search, FAQ)) == [0, 0, 0, 3]
    assert search.proxy.bulks() == bulks  # nothing written
    assert search.documents() == before

    later = [FAQ[0], (FAQ[1][0], "Ten days now."), ("Do you ship abroad?", "Yes [everywhere].")]
    assert counts(index(search, later)) == [1, 1, 1, 1]
    assert stored(search) == sorted(later)


def test_equal_entries_are_one(search: Search) -> None:
    line = index(search, [*FAQ, FAQ[0]])
    assert counts(line) == [3, 0, 0, 0]
    assert "1 duplicates left out" in line
    both = [*FAQ, (FAQ[0][0], "Ask the courier.")]  # a question may have two answers
    assert counts(index(search, both)) == [1, 0, 0, 3]
    assert stored(search) == sorted(both)


def test_other_matched_text_is_a_change(search: Search) -> None:
    index(search, FAQ)
    assert counts(index(search, FAQ, "--match", "question")) == [0, 3, 0, 0]
    assert {fields["content"] for fields in search.documents().values()} == {question for question, _ in FAQ}


def test_documents_of_others_stay(search: Search) -> None:
    index(search, FAQ)
    other = {"id": "x", "content": "Ours.", "topic": "other"}
    search.request("PUT", f"{search.index}/_doc/x?refresh=true", other)
    assert counts(index(search, FAQ[:1])) == [0, 0, 2, 1]
    assert search.documents()["x"] == other
    assert len(search.documents()) == 2


def test_what_ask_wrote_is_taken_over(search: Search) -> None:
    """`ask --documents` writes the same documents without the mark, and leaves marked ones as they are."""
    faq = write(search.folder / "faq.csv", FAQ)
    ask = ["ask", "refund", "--documents", str(faq), "--pipeline", str(search.searching)]
    CliRunner().invoke(app, ask, catch_exceptions=False)
    assert len(search.documents()) == 3
    assert counts(index(search, FAQ)) == [3, 0, 0, 0]
    CliRunner().invoke(app, ask, catch_exceptions=False)
    assert len(search.documents()) == 3
    assert counts(index(search, FAQ[:1])) == [0, 0, 2, 1]
    assert stored(search) == FAQ[:1]


def test_search(search: Search) -> None:
    """Both files end to end; the ranker sees what Elasticsearch found and no more."""
    index(search, FAQ)
    ask = ["ask", "batteries", "parcel, refund, battery?", "--pipeline", str(search.searching), "--json"]
    batteries, everything = json.loads(CliRunner().invoke(app, ask, catch_exceptions=False).stdout)
    assert [(found["question"], found["answer"]) for found in batteries["answers"]] == [FAQ[2]]  # stemmed
    assert {found["question"] for found in everything["answers"]} == {question for question, _ in FAQ}


def test_fuzziness_is_off(search: Search) -> None:
    index(search, FAQ)
    ask = ["ask", "batterx", "--pipeline", str(search.searching), "--json"]
    assert json.loads(CliRunner().invoke(app, ask, catch_exceptions=False).stdout)["answers"] == []


STOP_WORDS = re.findall(
    r"\w+",
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with",
)
"""Of Lucene's EnglishAnalyzer."""


def english(text: str) -> list[str]:
    """What the analyzer `english` makes of a text without possessives."""
    words = re.findall(r"\w+", text.lower())
    return snowballstemmer.stemmer("porter").stemWords([word for word in words if word not in STOP_WORDS])


def test_scores_are_lucenes(search: Search) -> None:
    """What `fuse_scores` adds, by the formula of Lucene since version 8: without Elasticsearch's factor k1 + 1."""
    if not search.server.lucene:
        pytest.skip("this stand-in's scores are not Lucene's")
    index(search, FAQ)
    pipeline = Pipeline.loads(search.searching.read_text())
    texts = [english(f"{question} {answer}") for question, answer in FAQ]
    mean = sum(map(len, texts)) / len(texts)
    for query in ("battery", "my money", "47", "where is my bike", "batteries for the bikes"):
        expected = {}
        for (question, _), text in zip(FAQ, texts, strict=True):
            score = 0.0
            for word in english(query):
                having = sum(word in other for other in texts)
                often = text.count(word)
                if often:
                    length = 1.2 * (1 - 0.75 + 0.75 * len(text) / mean)
                    score += math.log(1 + (len(texts) - having + 0.5) / (having + 0.5)) * often / (often + length)
            if score:
                expected[question] = score
        run = pipeline.run({"retriever": {"query": query}, "ranker": {"query": query}}, include_outputs_from={"scores"})
        found = {document.meta["question"]: document.score for document in run["scores"]["documents"]}
        assert found == pytest.approx(expected, rel=1e-5), query


def documents(number: int) -> list[Document]:
    return [
        Document(content=f"Question {i}\nAnswer {i}", meta={"question": f"Question {i}", "answer": f"Answer {i}"})
        for i in range(number)
    ]


def test_lists_piece_by_piece(search: Search) -> None:
    """Elasticsearch lists 10,000 documents at most, so that a large index is listed by ranges of keys."""
    store = find_stores(Pipeline.loads(search.indexing.read_text()))[0]
    progress: list[tuple[int, int]] = []
    changes = sync_documents(
        store, documents(60), listed=7, batch=25, on_progress=lambda done, total: progress.append((done, total))
    )
    assert changes == IndexChanges(60, 0, 0, 0)
    assert [done for done, _ in progress[-3:]] == [25, 50, 60]
    assert {total for _, total in progress} == {60}
    assert sync_documents(store, documents(50), listed=7, batch=4) == IndexChanges(0, 0, 10, 50)
    assert len(search.documents()) == 50


def test_a_killed_server_loses_and_duplicates_nothing(search: Search) -> None:
    """It dies when it has written the second batch, before the client hears of it; both kinds of work are left over."""
    if not search.server.command:
        pytest.skip("this server is not ours to kill")
    old, new = documents(40), documents(70)[10:]
    store = find_stores(Pipeline.loads(search.indexing.read_text()))[0]
    sync_documents(store, old, batch=20)
    if search.server.lasting:  # noida-db writes to the disk later than it answers
        search.server.stop()
        search.server.start()
    started = search.proxy.bulks()

    def kill(method: str, path: str) -> None:
        if search.proxy.bulks() == started + 2:
            search.server.kill()
            raise ConnectionError

    search.proxy.after = kill
    with refused("docker compose up"), report_store_errors(search.indexing, "here"):
        sync_documents(store, new, batch=10)
    assert search.server.process is None
    search.proxy.after = lambda method, path: None
    search.server.start()
    if search.server.lasting:
        kept = search.documents()
        assert {document.id for document in old} <= set(kept)  # new ones are written first, so none is missing
        assert set(kept) <= {document.id for document in [*old, *new]}
        assert all(fields["answer"] for fields in kept.values())  # no half document

    store = find_stores(Pipeline.loads(search.indexing.read_text()))[0]
    assert sync_documents(store, new, batch=10).total == 60
    assert {name: fields["content"] for name, fields in search.documents().items()} == {
        document.id: document.content for document in new
    }
    assert sync_documents(store, new) == IndexChanges(0, 0, 0, 60)


@pytest.mark.parametrize("batch", [1, 2, 3, 4])
def test_a_dropped_connection_loses_and_duplicates_nothing(search: Search, batch: int) -> None:
    """Also to a server that we cannot kill; in each of the writes and of the deletes."""
    old, new = documents(20), documents(30)[10:]
    store = find_stores(Pipeline.loads(search.indexing.read_text()))[0]
    sync_documents(store, old)
    started = search.proxy.bulks()

    def drop(method: str, path: str) -> None:
        if search.proxy.bulks() >= started + batch:
            raise ConnectionError

    search.proxy.after = drop
    with refused("docker compose up"), report_store_errors(search.indexing, "here"):
        sync_documents(store, new, batch=5)
    search.proxy.after = lambda method, path: None
    held = set(search.documents())
    assert {document.id for document in old[10:]} <= held  # no entry that the file still has was ever missing
    sync_documents(store, new, batch=5)
    assert set(search.documents()) == {document.id for document in new}


def failing(search: Search, facts: str, faq: str) -> str:
    """The message of `ap-ranker index`, which must fail, and tell these facts."""
    result = CliRunner().invoke(app, ["index", faq, "--pipeline", str(search.indexing)])
    assert_refusal(facts, result.exception)
    assert result.stdout == ""
    return str(result.exception)


def test_server_down(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user sees it: one message, exit code 2, no log of attempts."""
    proxy = Adapter("http://127.0.0.1")
    search = Search(tmp_path, Server(proxy.url, lucene=False, mapped_only=False, lasting=False), proxy, "faq")
    search.write_pipelines(checkpoint)
    proxy.close()
    faq = write(tmp_path / "faq.csv", FAQ)
    expected = f"'faq' … {proxy.url} … docker compose up --detach --wait elasticsearch … hosts"
    monkeypatch.setenv("COLUMNS", "200")
    result = forked.run(forked.MAIN, "index", faq, "--pipeline", search.indexing)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.strip().startswith(f"Error: {search.indexing}: ")
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    asked = CliRunner().invoke(app, ["ask", "parcel", "--pipeline", str(search.searching)])
    for message in (result.stderr, str(asked.exception)):
        assert not absent(expected, message)


def test_authentication(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key comes from the environment; no other file or message names it."""

    def guard(method: str, path: str) -> tuple[int, dict[str, object]] | None:
        allowed = search.proxy.authorization[-1] == "ApiKey right-key"
        reason = {"type": "security_exception", "reason": "missing or invalid credentials"}
        return None if allowed else (401, {"error": reason, "status": 401})

    faq = str(write(search.folder / "faq.csv", FAQ))
    search.proxy.before = guard
    for key in (None, "wrong-key"):
        if key:
            monkeypatch.setenv("ELASTIC_API_KEY", key)
        assert "wrong-key" not in failing(search, "ELASTIC_API_KEY", faq)
    monkeypatch.delenv("ELASTIC_API_KEY")
    monkeypatch.setenv("ELASTIC_API_KEY_ID", "half")
    failing(search, "api_key", faq)
    monkeypatch.delenv("ELASTIC_API_KEY_ID")
    if search.server.command:  # another server would want a key of its own
        monkeypatch.setenv("ELASTIC_API_KEY", "right-key")
        assert counts(index(search, FAQ)) == [3, 0, 0, 0]


def test_forbidden(search: Search) -> None:
    """A key that may read only."""
    index(search, FAQ)
    cause = {"type": "security_exception", "reason": "action [indices:data/write/bulk] is unauthorized"}
    reason = {"root_cause": [cause], **cause}
    search.proxy.before = lambda method, path: (403, {"error": reason}) if "/_bulk" in path else None
    failing(search, "permission … unauthorized", str(write(search.folder / "faq.csv", FAQ[:2])))
    assert stored(search) == sorted(FAQ)


def test_not_deleted(search: Search) -> None:
    """The client keeps quiet about a document that a server does not delete; the command must not."""
    index(search, FAQ)
    failed = {"errors": True, "items": [{"delete": {"_id": "1", "status": 429, "error": {"type": "busy"}}}]}
    search.proxy.before = lambda method, path: (200, dict(failed)) if "/_bulk" in path else None
    failing(search, "1 … 1", str(write(search.folder / "faq.csv", FAQ[:2])))
    search.proxy.before = lambda method, path: None
    assert counts(index(search, FAQ[:2])) == [0, 0, 1, 2]


def test_time_out(search: Search, checkpoint: Path) -> None:
    search.write_pipelines(checkpoint, request_timeout=0.3)
    search.proxy.before = lambda method, path: time.sleep(1)
    failing(search, "request_timeout", str(write(search.folder / "faq.csv", FAQ)))


def test_time_out_while_searching(search: Search, checkpoint: Path) -> None:
    """Inside the pipeline, which wraps what a component raises."""
    index(search, FAQ)
    search.write_pipelines(checkpoint, request_timeout=0.5)
    search.proxy.before = lambda method, path: time.sleep(2) if "/_search" in path else None
    result = CliRunner().invoke(app, ["ask", "parcel", "--pipeline", str(search.searching)])
    assert_refusal("request_timeout", result.exception)


def test_wrong_index_name(search: Search, checkpoint: Path) -> None:
    search.index = "Not A Name"
    search.write_pipelines(checkpoint)
    failing(search, "'Not A Name'", str(write(search.folder / "faq.csv", FAQ)))
    search.index = "not-there"


def test_wrong_mapping(search: Search) -> None:
    """An index that refuses the documents."""
    mapping = {"dynamic": "strict", "properties": {"content": {"type": "text"}, "ap_ranker_key": {"type": "long"}}}
    search.request("PUT", search.index, {"mappings": mapping})
    failing(search, "strict_dynamic_mapping_exception", str(write(search.folder / "faq.csv", FAQ)))
    assert search.documents() == {}


def test_mapping_without_the_mark(search: Search) -> None:
    """Otherwise a removed entry would never be found."""
    if not search.server.mapped_only:
        pytest.skip("this stand-in finds documents by fields that its mapping leaves out, too")
    search.request("PUT", search.index, {"mappings": {"dynamic": False, "properties": {"content": {"type": "text"}}}})
    failing(search, "ap_ranker_key … {type: long}", str(write(search.folder / "faq.csv", FAQ)))


def test_empty_index(search: Search) -> None:
    result = CliRunner().invoke(app, ["ask", "parcel", "--pipeline", str(search.searching)])
    assert_refusal("--documents … ap-ranker index", result.exception)
