"""Three nodes, of which some are lost, paused or started again: `make cluster`, and all of it `make cluster-all`."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, write_checkpoint
from naive import SMALL
from refusals import assert_refusal, refused
from typer.testing import CliRunner
from waiting import wait_until

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Match
from ap_ranker.errors import InputError
from ap_ranker.ranking.outcome import Outcome
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.elasticsearch import index_layout
from ap_ranker.search.elasticsearch.index_layout import SETTINGS
from ap_ranker.search.load_pipeline import report_store_errors
from elastic.adapter import Adapter
from elastic.conftest import Search
from elastic.engine import WHOLE, Engine
from elastic.test_faults import answers
from elastic.test_index import counts
from elastic.test_owners_changes import answers_of, serving

pytestmark = pytest.mark.skipif(WHOLE not in os.environ, reason="three nodes, for minutes: run by `make cluster`")

CLIENTS = 8
RECOVERY, QUIET = 30.0, 5.0
"""Seconds after which no question may fail any more, and without a failure until a cluster counts as recovered."""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another checkpoint of the same FAQ."""
    return write_checkpoint(
        "qa-cnn", tmp_path_factory.mktemp("checkpoints") / "other", {**SMALL["qa-cnn"], "window": 3}
    )


def example() -> list[tuple[str, str]]:
    with (ROOT / "examples" / "faq" / "answers.csv").open(encoding="utf-8", newline="") as file:
        return [(row["question"], row["answer"]) for row in csv.DictReader(file)]


def write(path: Path, entries: Sequence[tuple[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "answer"), *entries])
    return path


def search_on(
    cluster: Engine, folder: Path, checkpoint: Path, *, name: str, replicas: int = 1, kind: str = "elasticsearch"
) -> Search:
    """Pipelines on an index of three shards, asked without a proxy."""
    settings = json.loads(SETTINGS.read_text())
    del settings["settings"]["auto_expand_replicas"]
    settings["settings"] |= {"number_of_shards": 3, "number_of_replicas": replicas}
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    made = Search(folder, cluster, Adapter(cluster.url), name, kind)
    made.proxy.close()
    made.write_pipelines(checkpoint, hosts=cluster.urls)
    pipeline = yaml.safe_load((folder / "faq_elasticsearch.yaml").read_text())
    store = pipeline["components"]["search"]["init_parameters"]["retriever"]["init_parameters"]["document_store"]
    store["init_parameters"]["settings"] = str(file)
    (folder / "faq_elasticsearch.yaml").write_text(yaml.safe_dump(pipeline))
    return made


def index(search: Search, entries: Sequence[tuple[str, str]], *options: object) -> list[int]:
    faq = write(search.folder / "faq.csv", entries)
    command = ["index", faq, "--pipeline", search.indexing, *options]
    result = CliRunner().invoke(app, list(map(str, command)), catch_exceptions=False)
    return counts(result.stdout)


def served(search: Search) -> DeclaredPipeline:
    made = DeclaredPipeline.load(search.searching)
    made.fill(None, Match.both)
    made.prepare()
    return made


@dataclass
class Log:
    """What became of questions: `right`, `wrong`, `none` or `error`, each with the time."""

    outcomes: list[tuple[float, str]] = field(default_factory=list)
    messages: Counter[str] = field(default_factory=Counter)

    def counts(self) -> Counter[str]:
        return Counter(outcome for _, outcome in self.outcomes)

    def last(self, outcome: str) -> float:
        return max((moment for moment, each in self.outcomes if each == outcome), default=0.0)


def ask(pipeline: DeclaredPipeline, entry: tuple[str, str], log: Log) -> None:
    question, answer = entry
    try:
        with report_store_errors(pipeline.path, pipeline.place):
            documents, decision = pipeline.answer(question)
    except InputError as error:
        log.messages[str(error)[:300]] += 1
        log.outcomes.append((time.monotonic(), "error"))
        return
    outcome = "right" if documents and documents[0].meta["answer"] == answer else "wrong"
    if decision.outcome is Outcome.NONE:
        outcome = "none"
    log.outcomes.append((time.monotonic(), outcome))


def ask_all(pipeline: DeclaredPipeline, entries: Sequence[tuple[str, str]], times: int = 1) -> Log:
    """By 8 clients at once."""
    log = Log()
    with ThreadPoolExecutor(CLIENTS) as clients:
        for entry in list(entries) * times:
            clients.submit(ask, pipeline, entry, log)
    return log


def ask_until(
    pipeline: DeclaredPipeline, entries: Sequence[tuple[str, str]], happens: Callable[[], None], least: int
) -> Log:
    """
    While something happens, and until as many questions have been asked, and then until none fails any more.

    Fails if one still does after the time of recovery.
    """
    log, ended = Log(), threading.Event()

    def client(number: int) -> None:
        place = number
        while not ended.is_set():
            ask(pipeline, entries[place % len(entries)], log)
            place += CLIENTS

    clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in clients:
        thread.start()
    time.sleep(1)
    try:
        happens()
        end = time.monotonic() + RECOVERY
        while time.monotonic() - log.last("error") < QUIET or len(log.outcomes) < least:
            assert log.last("error") < end, log.messages
            time.sleep(0.5)
    finally:
        ended.set()
        for thread in clients:
            thread.join()
    print(dict(log.counts()), dict(log.messages.most_common(4)))
    return log


def health(cluster: Engine, status: str) -> None:
    """Wait until the cluster is so, with all nodes."""
    url = f"_cluster/health?wait_for_status={status}&wait_for_nodes=3&timeout=120s"
    assert not Search(Path(), cluster, None, "").request("GET", url)["timed_out"]  # type: ignore[arg-type]


def right(log: Log) -> None:
    """No answer is wrong, and none is missing: what could not be answered is an error."""
    found = log.counts()
    assert found["wrong"] == found["none"] == 0, found
    assert found["right"]


# 1: partial results


def test_a_lost_shard_is_an_error(
    cluster: Engine, tmp_path: Path, bi_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three shards without replicas, of which a node takes one with it: by our retriever, and by Haystack's own."""
    pipelines = {}
    for kind in ("elasticsearch", "words", "hybrid"):
        folder = tmp_path / kind
        folder.mkdir()
        search = search_on(cluster, folder, bi_encoder, name=f"lost-{kind}", replicas=0, kind=kind)
        monkeypatch.setattr(index_layout, "SETTINGS", folder / "settings.json")  # for pipelines that name no file
        index(search, example())
        shards: Any = search.request("GET", f"_cat/shards/{search.current()}?format=json")
        assert len({shard["node"] for shard in shards}) == 3
        pipelines[kind] = served(search)
    entries = example()[:42]
    before = {kind: ask_all(pipeline, entries).counts() for kind, pipeline in pipelines.items()}
    cluster.run("kill", 3)
    try:
        for pipeline in pipelines.values():
            with pytest.raises(InputError):
                pipeline.check()
            assert ask_all(pipeline, entries).counts() == {"error": 42}
        with refused("shards … health"):  # 10: and not "Start the server"
            pipelines["elasticsearch"].check()
    finally:
        cluster.run("up", 3)
        health(cluster, "green")
    for kind, pipeline in pipelines.items():
        pipeline.check()
        assert ask_all(pipeline, entries).counts() == before[kind]
        assert before[kind]["right"]


@pytest.mark.by_hand
@pytest.mark.parametrize("kind", ["elasticsearch", "words", "hybrid"])
def test_a_lost_node_with_replicas_changes_nothing(
    cluster: Engine, tmp_path: Path, bi_encoder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Also for a pipeline that is loaded afterwards: of the hosts that it names, the dead one is passed over."""
    search = search_on(cluster, tmp_path, bi_encoder, name=f"replicated-{kind}", kind=kind)
    monkeypatch.setattr(index_layout, "SETTINGS", tmp_path / "settings.json")  # for pipelines that name no file
    index(search, example())
    pipeline = served(search)
    entries = example()[:42]
    before = ask_all(pipeline, entries).counts()
    cluster.run("kill", 1)
    try:
        wait_until(lambda: not pipeline_errors(pipeline, entries[:8]), RECOVERY)
        later = served(search)
        for each in (pipeline, later):
            each.check()
            assert ask_all(each, entries).counts() == before
    finally:
        cluster.run("up", 1)
        health(cluster, "green")


def pipeline_errors(pipeline: DeclaredPipeline, entries: Sequence[tuple[str, str]]) -> int:
    return ask_all(pipeline, entries).counts()["error"]


# nodes that are lost, paused, started again


@pytest.mark.by_hand
@pytest.mark.parametrize("replicas", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_node_is_killed_under_load(cluster: Engine, tmp_path: Path, bi_encoder: Path, replicas: int) -> None:
    search = search_on(cluster, tmp_path, bi_encoder, name=f"killed-{replicas}", replicas=replicas)
    index(search, example())
    pipeline = served(search)

    def happens() -> None:
        cluster.run("kill", 2)
        time.sleep(5)
        cluster.run("up", 2)
        health(cluster, "green")

    log = ask_until(pipeline, example(), happens, least=2000)
    right(log)


@pytest.mark.slow
def test_a_node_is_paused_under_load(cluster: Engine, tmp_path: Path, bi_encoder: Path) -> None:
    search = search_on(cluster, tmp_path, bi_encoder, name="paused")
    index(search, example())
    pipeline = served(search)

    def happens() -> None:
        cluster.run("pause", 2)
        time.sleep(15)
        cluster.run("go", 2)

    log = ask_until(pipeline, example(), happens, least=500)
    right(log)
    health(cluster, "green")


@pytest.mark.slow
def test_the_whole_cluster_is_stopped_and_started(cluster: Engine, tmp_path: Path, bi_encoder: Path) -> None:
    search = search_on(cluster, tmp_path, bi_encoder, name="stopped")
    index(search, example())
    pipeline = served(search)

    def happens() -> None:
        cluster.run("stop")
        time.sleep(3)
        starting = [threading.Thread(target=cluster.run, args=("up", node)) for node in (1, 2, 3)]
        for each in starting:
            each.start()
            time.sleep(1)  # so that each counts those that run before it
        for each in starting:
            each.join()
        health(cluster, "green")

    log = ask_until(pipeline, example(), happens, least=100)
    right(log)
    assert log.counts()["error"]


def test_a_node_is_killed_during_index(cluster: Engine, tmp_path: Path, bi_encoder: Path) -> None:
    search = search_on(cluster, tmp_path, bi_encoder, name="index-killed")
    entries = [(f"Question {i}", f"Answer {i}") for i in range(4000)]
    faq = write(tmp_path / "faq.csv", entries)
    command = [sys.executable, "-m", "ap_ranker", "index", faq, "--pipeline", search.indexing]
    running = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not any(name.startswith("index-killed-") for name in search.indexes()):
        time.sleep(0.2)
    cluster.run("kill", 3)
    printed, _ = running.communicate(timeout=300)
    cluster.run("up", 3)
    health(cluster, "green")
    print(printed[-500:])
    if running.returncode:
        assert running.returncode == 2, printed  # one sentence, and the next run goes on
        index(search, entries)
    assert len({fields["answer"] for fields in search.documents().values()}) == 4000
    assert index(search, entries) == [0, 0, 0, 4000]


@pytest.mark.slow
def test_index_is_killed_and_run_again(cluster: Engine, tmp_path: Path, bi_encoder: Path) -> None:
    search = search_on(cluster, tmp_path, bi_encoder, name="run-killed")
    entries = [(f"Question {i}", f"Answer {i}") for i in range(4000)]
    faq = write(tmp_path / "faq.csv", entries)
    command = [sys.executable, "-m", "ap_ranker", "index", faq, "--pipeline", search.indexing]
    for seconds in (1, 3):
        running = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
        while running.poll() is None and not any(name.startswith("run-killed-") for name in search.indexes()):
            time.sleep(0.1)
        time.sleep(seconds)
        running.kill()
        running.wait()
    index(search, entries)
    assert index(search, entries) == [0, 0, 0, 4000]


# exact counts


@pytest.mark.slow
def test_counts_are_exact_and_nothing_deleted_answers(cluster: Engine, tmp_path: Path, bi_encoder: Path) -> None:
    """`index` ten times; every answer changed, five times; 1 % deleted; older files read in between."""
    search = search_on(cluster, tmp_path, bi_encoder, name="exact")
    entries = [(f"Question {i}", f"Answer {i}") for i in range(1000)]
    assert index(search, entries) == [1000, 0, 0, 0]
    for _ in range(10):
        assert index(search, entries) == [0, 0, 0, 1000]
    older = write(tmp_path / "older.csv", entries)
    kept = [(question, f"{answer}, version 4") for question, answer in entries[10:]]
    with serving(search, older) as first, serving(search, older) as second:
        for version in range(5):
            changed = [(question, f"{answer}, version {version}") for question, answer in entries]
            assert index(search, changed) == [0, 1000, 0, 0]
            read_older(search, older, bi_encoder)
            assert index(search, changed) == [0, 0, 0, 1000]
        assert index(search, kept) == [0, 0, 10, 990]
        read_older(search, older, bi_encoder)
        for question, _ in entries[:10]:
            for pipeline in (first, second, served(search)):
                assert answers_of(pipeline, question) <= {answer for _, answer in kept}
            assert set(answers(search, question)) <= {answer for _, answer in kept}
    assert sorted(fields["answer"] for fields in search.documents().values()) == sorted(answer for _, answer in kept)


def read_older(search: Search, older: Path, checkpoint: Path) -> None:
    """Everything that reads with an older file refuses, and writes nothing."""
    questions = write(search.folder / "questions.csv", [("Question 3", "Answer 3")])
    commands = (
        ["ask", "Question 3", "--documents", older, "--pipeline", search.searching],
        ["evaluate", checkpoint, questions, "--answers", older, "--pipeline", search.searching],
        ["serve", older, "--pipeline", search.searching, "--port", "0"],
        ["serve", older, "--pipeline", search.searching, "--port", "0", "--workers", "2"],
    )
    for command in commands:
        result = CliRunner().invoke(app, list(map(str, command)))
        assert_refusal("more", result.exception)


# a roll-out


def test_a_roll_out_under_load(cluster: Engine, tmp_path: Path, bi_encoder: Path, other: Path) -> None:
    """No question mixes checkpoints, none is lost; the way back is one command."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = search_on(cluster, tmp_path / "old", bi_encoder, name="roll-out")
    new = search_on(cluster, tmp_path / "new", other, name="roll-out")
    index(old, example())
    pipeline, first = served(old), old.current()

    def happens() -> None:
        index(new, example())

    log = ask_until(pipeline, example(), happens, least=500)
    right(log)
    assert log.counts().keys() == {"right"}
    second = new.current()
    assert first != second
    for search, name in ((old, first), (new, second)):
        answering = served(search)
        origins = {document.meta["embedded_by"] for document in answering.answer("Where is my parcel?")[0]}
        assert len(origins) == 1
        assert origins == {fields["embedded_by"] for fields in search.documents(name).values()}
    assert first in CliRunner().invoke(app, ["index", "--back", "--pipeline", str(new.indexing)]).stdout
    assert new.current() == first


# snapshots


@pytest.mark.slow
def test_a_restored_snapshot_gives_the_same_answers(cluster: Engine, tmp_path: Path, bi_encoder: Path) -> None:
    search = search_on(cluster, tmp_path, bi_encoder, name="snapshot")
    repository = cluster.folder / "repository"
    repository.mkdir()
    if not os.geteuid():
        shutil.chown(repository, "nobody")
    for node in (1, 2, 3):  # the tool's nodes have no place for snapshots
        with (cluster.folder / f"node-{node}" / "config" / "elasticsearch.yml").open("a") as file:
            file.write(f"path.repo: {repository}\n")
        cluster.run("kill", node)
        cluster.run("up", node)
        health(cluster, "green")
    index(search, example())

    def answers() -> list[Any]:
        pipeline = served(search)
        found = [pipeline.answer(question)[0] for question, _ in example()[:40]]
        return [[(one.id, one.score) for one in documents] for documents in found]

    before, current = answers(), search.current()
    made = {"type": "fs", "settings": {"location": str(repository)}}
    assert search.request("PUT", "_snapshot/tests", made)["acknowledged"]
    body = {"indices": f"{search.index}*", "include_global_state": False}
    assert search.request("PUT", "_snapshot/tests/one?wait_for_completion=true", body)["snapshot"]["state"] == "SUCCESS"
    search.request("DELETE", current)
    with pytest.raises(InputError):
        served(search)
    search.request("POST", "_snapshot/tests/one/_restore?wait_for_completion=true", {"indices": current})
    assert search.current() == current
    assert answers() == before
