"""`ap-ranker index` and `ap-ranker ask` on a real Elasticsearch."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import forked
import pytest
from haystack import Pipeline
from refusals import absent, assert_refusal
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.search.elasticsearch.index_cluster import make_index
from elastic.adapter import Adapter
from elastic.conftest import Search
from elastic.engine import Engine

FAQ = [
    ("Where is my parcel?", "Open the tracking link in your e-mail."),
    ("How do I get my money back?", "Send the goods to us; the refund arrives within five days."),
    ("Which battery fits my bike?", "Only the original battery fits."),
]


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
    return [
        int(re.search(rf"([\d,]+) {word}", line)[1].replace(",", ""))
        for word in ("added", "changed", "removed", "unchanged")
    ]  # type: ignore[index]


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
    assert search.documents()["x"].items() >= other.items()
    assert len(search.documents()) == 2


def test_search(search: Search) -> None:
    """Both files end to end; the ranker sees what Elasticsearch found and no more."""
    index(search, FAQ)
    ask = ["ask", "battery", "parcel, refund, battery?", "--pipeline", str(search.searching), "--json"]
    one, everything = json.loads(CliRunner().invoke(app, ask, catch_exceptions=False).stdout)
    assert [(found["question"], found["answer"]) for found in one["answers"]] == [FAQ[2]]
    assert {found["question"] for found in everything["answers"]} == {question for question, _ in FAQ}


def test_fuzziness_is_off(search: Search) -> None:
    index(search, FAQ)
    ask = ["ask", "batterx", "--pipeline", str(search.searching), "--json"]
    assert json.loads(CliRunner().invoke(app, ask, catch_exceptions=False).stdout)["answers"] == []


def test_scores_of_haystacks_components_are_nearly_ours(search: Search, checkpoint: Path) -> None:
    """What `fuse_scores` adds: by BM25 of the same words, without Elasticsearch's factor k1 + 1."""
    words = replace(search, kind="words")
    index(words, FAQ)
    pipeline = Pipeline.loads(words.searching.read_text())
    texts = [f"{question}\n{answer}" for question, answer in FAQ]
    ours = BM25(texts, language="english")
    for query in ("battery", "my money", "where is my bike", "batteries for the bikes"):
        inputs = {name: {"query": query} for name in ("retriever", "scores", "ranker")}
        run = pipeline.run(inputs, include_outputs_from={"scores"})
        found = {document.content: document.score for document in run["scores"]["documents"]}
        expected = {text: score for text, score in zip(texts, ours.scores(query).tolist(), strict=True) if score}
        assert found == pytest.approx(expected, rel=0.05), query  # "e-mail" is one word more


@pytest.mark.parametrize("batch", [1, 2])
def test_a_dropped_connection_loses_and_duplicates_nothing(search: Search, batch: int) -> None:
    """In each of the writes and of the deletes."""
    old, new = entries(0, 20), entries(10, 30)
    index(search, old)
    started = search.proxy.bulks()

    def drop(method: str, path: str) -> None:
        if search.proxy.bulks() >= started + batch:
            raise ConnectionError

    search.proxy.after = drop
    failing(search, "docker compose up", str(write(search.folder / "faq.csv", new)))
    search.proxy.after = lambda method, path: None
    assert set(old[10:]) <= set(stored(search))  # no entry that the file still has was ever missing
    index(search, new)
    assert stored(search) == sorted(new)
    assert counts(index(search, new)) == [0, 0, 0, 20]


def entries(first: int, end: int) -> list[tuple[str, str]]:
    return [(f"Question {i}", f"Answer {i}") for i in range(first, end)]


def failing(search: Search, facts: str, faq: str) -> str:
    """The message of `ap-ranker index`, which must fail, and tell these facts."""
    result = CliRunner().invoke(app, ["index", faq, "--pipeline", str(search.indexing)])
    assert_refusal(facts, result.exception)
    assert result.stdout == ""
    return str(result.exception)


def test_server_down(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user sees it: one message, exit code 2, no log of attempts."""
    proxy = Adapter("http://127.0.0.1")
    search = Search(tmp_path, Engine(tmp_path, [proxy.url]), proxy, "faq")
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


def test_forbidden(search: Search) -> None:
    """A key that may read only."""
    index(search, FAQ)
    cause = {"type": "security_exception", "reason": "action [indices:data/write/bulk] is unauthorized"}
    reason = {"root_cause": [cause], **cause}
    search.proxy.before = lambda method, path: (403, {"error": reason}) if "/_bulk" in path else None
    failing(search, "privilege … deploy", str(write(search.folder / "faq.csv", FAQ[:2])))
    assert stored(search) == sorted(FAQ)


def test_time_out_while_searching(search: Search, checkpoint: Path) -> None:
    """Inside the pipeline, which wraps what a component raises."""
    index(search, FAQ)
    search.write_pipelines(checkpoint, request_timeout=0.5)
    search.proxy.before = lambda method, path: time.sleep(2) if "/_msearch" in path else None
    result = CliRunner().invoke(app, ["ask", "parcel", "--pipeline", str(search.searching)])
    assert_refusal("request_timeout", result.exception)


def test_wrong_index_name(search: Search, checkpoint: Path) -> None:
    search.index = "Not A Name"
    search.write_pipelines(checkpoint)
    failing(search, "'Not A Name'", str(write(search.folder / "faq.csv", FAQ)))
    search.index = "not-there"


def test_no_index(search: Search) -> None:
    """Whoever reads makes none."""
    for kind in ("elasticsearch", "words"):
        searching = replace(search, kind=kind).searching
        result = CliRunner().invoke(app, ["ask", "parcel", "--pipeline", str(searching)])
        assert_refusal("ap-ranker index", result.exception)
    assert search.indexes() == []


def test_making_an_index_that_is_there(search: Search) -> None:
    """A reply may be lost, as when a node dies, and the client asks again; or another machine's run is faster."""
    library = pytest.importorskip("elasticsearch", reason="elasticsearch-haystack is not installed")
    with library.Elasticsearch(search.server.url) as client:
        name = f"{search.index}-twice"
        assert make_index(client, name, settings={"number_of_replicas": 0})
        assert not make_index(client, name, settings={"number_of_replicas": 0})
        with pytest.raises(library.BadRequestError):
            make_index(client, name.upper())
