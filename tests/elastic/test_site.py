"""The website on Elasticsearch: two servers, as on two machines, which share the cluster and a database alone."""

from __future__ import annotations

import csv
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml
from forked import Forked, served
from typer.testing import CliRunner
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, expect
from web.browsing import ask, opened
from web.conftest import browser, postgres  # noqa: F401  fixtures
from web.desk import KEY, logged_in
from web.visiting import client_of

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Entry, Match
from ap_ranker.errors import InputError
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web.browse import Catalogue
from ap_ranker.web.page.settings import PageSettings
from ap_ranker.web.suggestions import Suggestions
from elastic.adapter import Adapter
from elastic.conftest import Search
from haystack_integrations.common.ap_ranker.entries import to_document

LATER = 2.0
"""Seconds after which a change at one server is seen at the other, on a machine that has time for it."""

FAQ = [
    ("Where is my parcel?", "Open the tracking link in your e-mail.", "Delivery"),
    ("When does my parcel arrive?", "Within five days.", "Delivery"),
    ("Which battery fits my bike?", "Only the original battery fits.", "Bikes"),
    ("How do I get my money back?", "Send the goods to us.", "Money"),
    ("Über welche Länder liefern Sie?", "Über keine.", ""),
]
NEW = ("Do you rent tandems for a day?", "Yes, for 40 euros.")


def write(path: Path, rows: Sequence[tuple[str, ...]] = FAQ) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("question", "answer", "category"), *rows])
    return path


def index(search: Search, rows: Sequence[tuple[str, ...]] = FAQ, *options: str) -> None:
    command = ["index", str(write(search.folder / "FAQ.csv", rows)), "--pipeline", str(search.indexing), *options]
    CliRunner().invoke(app, command, catch_exceptions=False)


def loaded(search: Search) -> DeclaredPipeline:
    pipeline = DeclaredPipeline.load(search.searching)
    pipeline.fill(None, Match.both)
    pipeline.prepare()
    return pipeline


@dataclass(frozen=True)
class Server:
    """A server of the site.

    Attributes:
        address: of its page.
        process: what runs it.
        proxy: through which alone it reaches the cluster.
        client: a visitor who may have the owner's key.
    """

    address: str
    process: Forked
    proxy: Adapter
    client: httpx.Client

    def post(self, path: str, **body: Any) -> Any:
        response = self.client.post(path, json=body)
        assert response.status_code == 200, response.text
        return response.json()

    def desk(self, name: str, **body: Any) -> Any:
        return self.post(f"owner/api/{name}", **body)

    def answers(self, question: str) -> list[str]:
        return [answer["answer"] for answer in self.post("api/search", question=question)["answers"]]

    def add(self, entry: tuple[str, str] = NEW) -> None:
        self.desk("change", action="add entry", question=entry[0], answer=entry[1])


@contextmanager
def serving(
    search: Search, number: int, place: str, hosts: Sequence[str] = (), *, file: bool = True
) -> Iterator[Server]:
    """A server with a folder of its own, whose machine has a name of its own."""
    proxy = Adapter(search.server.url)
    folder = search.folder / f"server {number}"
    folder.mkdir()
    write(folder / "FAQ.csv")
    pipeline = yaml.safe_load(search.searching.read_text())
    store = pipeline["components"]["search"]["init_parameters"]["retriever"]["init_parameters"]["document_store"]
    store["init_parameters"]["hosts"] = list(hosts) or proxy.url
    (folder / "search.yaml").write_text(yaml.safe_dump(pipeline))
    options = [*(["FAQ.csv"] if file else []), "--pipeline", "search.yaml", "--database", place]
    machine = f"import platform; platform.node = lambda: 'machine-{number}'\n"
    headers = {"Authorization": f"Bearer {KEY}"}
    with (
        served(*options, "--log-questions", "--rate", "0", folder=folder, before=machine) as server,
        httpx.Client(base_url=server.address, headers=headers, timeout=60) as client,
    ):
        yield Server(server.address, server.process, proxy, client)
    proxy.close()


@pytest.fixture
def place(postgres: str) -> str:  # noqa: F811
    import psycopg

    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(postgres.format(name="postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return postgres.format(name=name)


@pytest.fixture
def owned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AP_RANKER_OWNER_KEY", KEY)


@contextmanager
def two_servers(search: Search, place: str, hosts: Sequence[str] = ()) -> Iterator[tuple[Server, Server]]:
    with ExitStack() as stack:
        first = stack.enter_context(serving(search, 1, place, hosts))
        yield first, stack.enter_context(serving(search, 2, place, hosts))


def suggested(server: Server, typed: str) -> list[str]:
    suggestions: list[str] = server.post("api/suggest", text=typed)["suggestions"]
    return suggestions


def test_suggestions_are_those_of_a_store_in_memory(search: Search) -> None:
    rows = [
        (f"{verb} I {what} {thing}?", f"{verb} {what} {thing}", "")
        for verb in ("Can", "May", "Should")
        for what in ("return", "rent", "repair")
        for thing in ("a bike", "my Räder", "two C++ books")
    ]
    rows.append(("x" * 151, "too long", ""))
    index(search, rows)
    in_memory = Suggestions(question for question, _, _ in rows)
    with client_of(loaded(search)) as client:
        for typed in ("can", "re", "MY", "rad", "Can I rent a", "bi ren", "c++", "xxx", "?", "i i i", "two books may"):
            expected = in_memory.find(typed, 100)
            found = client.post("/api/suggest", json={"text": typed}).json()["suggestions"]
            assert len(found) == min(6, len(expected)), typed
            assert set(found) <= set(expected), typed
        first = client.post("/api/suggest", json={"text": "may i re"}).json()["suggestions"]
        assert all(text.startswith("May I re") for text in first)


def test_browsing_is_that_of_a_store_in_memory(search: Search) -> None:
    index(search)
    documents = []
    for question, answer, category in FAQ:
        documents.append(to_document(Entry(question, answer, {"category": category}, ""), Match.both))
    in_memory = Catalogue(documents)
    with client_of(loaded(search)) as client:
        opened_with = client.post("/api/browse", json={}).json()
        assert opened_with["topics"] == in_memory.topics == {"Delivery": 2, "Bikes": 1, "Money": 1}
        assert sorted(opened_with["questions"]) == sorted(question for question, _, _ in FAQ)
        for topic, questions in in_memory.by_topic.items():
            if topic:
                found = client.post("/api/browse", json={"topic": topic}).json()["questions"]
                assert sorted(found) == sorted(questions)
        assert client.post("/api/browse", json={"topic": "Others"}).status_code == 404


def test_a_category_of_another_column_must_be_a_field(search: Search, checkpoint: Path) -> None:
    index(search)
    page = PageSettings(categories="answer")
    with pytest.raises(InputError, match="Expected the page's category 'answer' as a keyword") as refused:
        client_of(loaded(search), page=page)
    assert "answer: {type: keyword}" in str(refused.value)
    search.write_pipelines(checkpoint, fields={"answer": {"type": "keyword"}})
    index(search)
    with client_of(loaded(search), page=page) as client:
        assert client.post("/api/browse", json={}).json()["topics"]["Within five days."] == 1
        found = client.post("/api/browse", json={"topic": "Within five days."}).json()
        assert found["questions"] == ["When does my parcel arrive?"]


def test_an_index_of_an_earlier_release(search: Search, caplog: pytest.LogCaptureFixture) -> None:
    """It says once what it lacks, and the next `ap-ranker index` adds it."""
    index(search)
    name = search.current()
    fields = ("ap_ranker_beginnings", "ap_ranker_topic")
    described = search.request("GET", name)[name]
    mapping = described["mappings"]
    for field in fields:
        del mapping["properties"][field]
        mapping["_source"]["excludes"].remove(field)
    settings = {"analysis": described["settings"]["index"]["analysis"], "number_of_shards": 1}
    search.request("DELETE", name)
    search.request("PUT", name, {"mappings": mapping, "settings": settings, "aliases": {search.index: {}}})
    assert "ap_ranker_topic" not in search.request("GET", name)[name]["mappings"]["properties"]
    pipeline = None
    for _ in range(2):
        index(search)
        pipeline = loaded(search)
    assert pipeline is not None
    with client_of(pipeline) as client:
        assert client.post("/api/suggest", json={"text": "which"}).json() == {"suggestions": [FAQ[2][0]]}
        for document in pipeline.answer(FAQ[2][0])[0]:
            assert not set(fields) & document.meta.keys()


def test_an_index_without_the_fields_says_so_once(search: Search, caplog: pytest.LogCaptureFixture) -> None:
    index(search)
    pipeline = loaded(search)
    retriever = pipeline.index_retriever()
    assert retriever is not None
    read = type(retriever.document_store)._read_facts

    def without(store: Any, name: str) -> Any:
        facts = read(store, name)
        fields = {
            field: kind for field, kind in facts.fields.items() if not field.startswith(("ap_ranker_b", "ap_ranker_t"))
        }
        return type(facts)(facts.notes, fields)

    with pytest.MonkeyPatch.context() as patch, client_of(pipeline) as client:
        patch.setattr(type(retriever.document_store), "_read_facts", without)
        retriever.document_store.forget(retriever.index)
        for _ in range(3):
            assert client.post("/api/suggest", json={"text": "which"}).json() == {"suggestions": []}
            assert client.post("/api/browse", json={}).json() == {"questions": [], "topics": {}}
        assert caplog.text.count("of an earlier release offers no suggestions and no topics") == 1
        patch.undo()
        assert client.post("/api/suggest", json={"text": "which"}).json() == {"suggestions": [FAQ[2][0]]}


def test_a_cluster_that_does_not_answer_holds_no_page(search: Search, caplog: pytest.LogCaptureFixture) -> None:
    index(search)
    with client_of(loaded(search)) as client:
        assert client.post("/api/browse", json={}).json()["topics"]

        def drop(method: str, path: str) -> None:
            raise ConnectionError

        search.proxy.before = drop
        assert client.post("/api/suggest", json={"text": "secretly typed"}).json() == {"suggestions": []}
        assert client.post("/api/browse", json={"topic": "Bikes"}).status_code == 503
        assert "secretly" not in caplog.text
        assert "Traceback" not in caplog.text


@pytest.mark.usefixtures("owned")
def test_two_servers_are_one_site(
    search: Search,
    bi_encoder: Path,
    place: str,
    browser: Browser,  # noqa: F811
) -> None:
    search.write_pipelines(bi_encoder)
    index(search)
    with two_servers(search, place) as (first, second):
        # The page of the second opens with topics and suggests.
        assert second.post("api/browse")["topics"] == {"Delivery": 2, "Bikes": 1, "Money": 1}
        assert suggested(second, "where") == ["Where is my parcel?"]

        # A session of the first counts at the second, and so do the entries.
        with httpx.Client(base_url=first.address, timeout=60) as owner:
            assert owner.post("owner/login", data={"key": KEY}).status_code == 303
            cookies = dict(owner.cookies)
        session = httpx.post(f"{second.address}owner/api/entries", json={"words": ""}, cookies=cookies)
        assert session.json()["count"] == len(FAQ)

        # The owner adds an entry at the first; a visitor of the second finds it.
        with logged_in(browser, first.address, section="entries") as desk:
            desk.get_by_role("button", name="New entry").click()
            desk.get_by_label("Question", exact=True).fill(NEW[0])
            desk.get_by_label("Answer", exact=True).fill(NEW[1])
            desk.get_by_role("button", name="Save").click()
            expect(desk.locator("#editor")).to_be_hidden()
            wait_until(lambda: NEW[1] in second.answers(NEW[0]))
        assert suggested(second, "do you rent") == [NEW[0]]
        with opened(browser, second.address, "en-GB") as page:
            ask(page, NEW[0])
            expect(page.get_by_text(NEW[1])).to_be_visible()

        # A click at the second, with an answer that the first has shown.
        sentence = "tandems for hire please"
        [shown] = [each for each in first.post("api/search", question=sentence)["answers"] if each["answer"] == NEW[1]]
        asked = len(second.proxy.requests)
        given = {"question": sentence, "id": shown["id"], "receipt": shown["receipt"], "helped": True}
        assert second.post("api/feedback", **given) == {"status": "kept"}
        assert len(second.proxy.requests) == asked, "it trusts the receipt and searches for nothing"

        # The feedback has its entry, and the owner accepts the sentence at the second.
        [row] = first.desk("feedback")
        assert row["key"], row
        keys = {name: row[name] for name in ("question_key", "answer_key")}
        second.desk("decide", state="accepted", wording=sentence, entry=row["key"], **keys)

        def is_known() -> bool:
            asked = first.post("api/search", question=sentence)
            return (asked["basis"], asked["answers"][0]["answer"]) == ("known question", NEW[1])

        wait_until(is_known)
        asked_vectors = {
            "nested": {"path": "ap_ranker_asked", "query": {"exists": {"field": "ap_ranker_asked.vector"}}}
        }
        counted = search.request("POST", f"{search.current()}/_search", {"query": asked_vectors, "size": 100})
        [changed] = [hit["_source"] for hit in counted["hits"]["hits"] if hit["_source"]["question"] == NEW[0]]
        assert changed["wordings"] == [sentence]
        assert sentence in suggested(first, "tandems for")

        # A gap has its nearest entry at both.
        for server in (first, second):
            server.post("api/search", question="qwertz uiop")

        def gaps(server: Server) -> list[Any]:
            found = server.desk("gaps")
            return [] if found["grouping"] else found["gaps"]

        for server in (first, second):
            wait_until(lambda server=server: bool(gaps(server)))
            assert {gap["nearest_entry"] is not None for gap in gaps(server)} == {True}

        # Each has written a change once.
        assert first.proxy.bulks() + second.proxy.bulks() == 2, "an entry; its wording"

        # What changes in the file alone is said, not written.
        write(search.folder / "server 1" / "FAQ.csv", [*FAQ, ("Is it open?", "No.", "")])
        wait_until(lambda: first.desk("server")["hints"] == [{"text": "unwritten", "count": 1}])
        assert second.desk("server")["hints"] == []
        with logged_in(browser, first.address) as desk:
            expect(desk.locator("#hints")).to_contain_text("not searched yet: 1")
        index(search, [*FAQ, ("Is it open?", "No.", "")], "--database", place)
        assert first.desk("server")["hints"] == []


def before_the_first_write(servers: Sequence[Server], met: Sequence[Server], happens: Callable[[Server], None]) -> None:
    """Let something happen to the first server that is about to write, which it adds to those it has met."""

    def before_of(server: Server) -> Callable[[str, str], None]:
        def before(method: str, path: str) -> None:
            if "/_bulk" in path and not met:
                happens(server)

        return before

    for server in servers:
        server.proxy.before = before_of(server)


def the_other_after_a_change(servers: Sequence[Server], met: Sequence[Server]) -> Server:
    """The server that something did not happen to, once `before_the_first_write` has met a change of an entry."""
    servers[0].add()
    wait_until(lambda: bool(met))
    [other] = [server for server in servers if server not in met]
    return other


@pytest.mark.usefixtures("owned")
def test_a_writer_that_slept_undoes_nothing(search: Search, checkpoint: Path, place: str) -> None:
    """It awakes with the lock of before, when the other server has deleted what it is about to write."""
    search.write_pipelines(checkpoint)
    index(search)
    with two_servers(search, place) as servers:
        asleep: list[Server] = []

        def sleep(server: Server) -> None:
            asleep.append(server)
            os.kill(server.process.pid, signal.SIGSTOP)
            wait_until(lambda: len(asleep) > 1)

        before_the_first_write(servers, asleep, sleep)
        awake = the_other_after_a_change(servers, asleep)
        wait_until(lambda: NEW[1] in awake.answers(NEW[0]))
        [entry] = awake.desk("entries", words="tandems")["entries"]
        awake.desk("change", action="delete entry", entry=entry["key"], version=entry["version"])
        wait_until(lambda: NEW[1] not in awake.answers(NEW[0]))
        asleep.append(awake)  # the request of the one that sleeps goes on
        os.kill(asleep[0].process.pid, signal.SIGCONT)
        time.sleep(LATER)
        wait_until(lambda: NEW[0] not in [each["question"] for each in search.documents().values()])


@pytest.mark.usefixtures("owned")
def test_a_server_without_the_file_says_what_it_cannot_do(search: Search, browser: Browser, place: str) -> None:  # noqa: F811
    index(search)
    with serving(search, 1, place, file=False) as server:
        assert server.desk("server")["hints"] == [{"text": "needsFile"}]
        response = server.client.post("owner/api/change", json={"action": "add entry", "question": "q", "answer": "a"})
        assert "Start it with the file: ap-ranker serve FAQ.csv" in response.json()["error"]
        assert suggested(server, "where") == ["Where is my parcel?"]
        with logged_in(browser, server.address) as desk:
            expect(desk.locator("#hints")).to_contain_text("started without the FAQ's file")


@pytest.mark.usefixtures("owned")
def test_a_change_that_a_killed_server_has_not_written(search: Search, place: str) -> None:
    """The next start writes it."""
    index(search)
    with serving(search, 1, place) as server:

        def kill(method: str, path: str) -> None:
            if "/_bulk" in path:
                server.process.kill()
                raise ConnectionError

        server.proxy.before = kill
        server.add()
        wait_until(lambda: server.process.returncode is not None)
    with serving(search, 2, place) as server:
        assert NEW[1] in server.answers(NEW[0])
