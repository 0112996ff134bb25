"""What the owner changes on the website is in every index that is kept, and nothing else is written."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import write_checkpoint
from naive import SMALL
from waiting import wait_until

from ap_ranker.data.faq import Entry, Match
from ap_ranker.documents import read_entries
from ap_ranker.search import watch_search
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.setup import set_up
from ap_ranker.search.watch_search import SearchWatcher
from ap_ranker.web.changes import Action, Change, FileEntries, insert_change, owners_changes
from ap_ranker.web.database import open_database
from elastic.conftest import Search
from elastic.test_faults import other_checkpoint, run
from elastic.test_index import FAQ, counts, index, stored, write


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_search, "PAUSE", 0.05)
    monkeypatch.setattr(watch_search, "STILL", 0.05)
    monkeypatch.setattr(watch_search, "INDEX_SECONDS", 0.2)


@contextmanager
def serving(search: Search, faq: Path) -> Iterator[DeclaredPipeline]:
    """A running server's search of a file with the owner's changes."""
    overlay = owners_changes(str(search.folder / "owner.db"))
    with set_up(faq, pipeline=search.searching, overlay=overlay) as setup:
        pipeline, documents = setup.load()
        setup.warm_up(pipeline, documents)
        watcher = SearchWatcher(pipeline, setup)
        try:
            yield pipeline
        finally:
            watcher.close()


def change(search: Search, action: Action, **fields: Any) -> None:
    with open_database(str(search.folder / "owner.db")).writing("changes") as connection:
        insert_change(connection, Change.make(action, **fields))


def key_of(faq: Path, question: str) -> str:
    entries: Sequence[Entry] = read_entries(faq)
    return next(keyed.key for keyed in FileEntries(entries).keyed if keyed.entry.question == question)


def answers_of(pipeline: DeclaredPipeline, question: str) -> set[str]:
    return {document.meta["answer"] for document in pipeline.answer(question)[0]}


def loaded(search: Search) -> DeclaredPipeline:
    pipeline = DeclaredPipeline.load(search.searching)
    pipeline.fill(None, Match.both)
    pipeline.prepare()
    return pipeline


def test_changes_are_in_every_index_that_is_kept(search: Search, bi_encoder: Path, tmp_path: Path) -> None:
    """A server of the checkpoint of before writes them; what the FAQ's name means stays."""
    search.write_pipelines(bi_encoder)
    faq = write(search.folder / "faq.csv", FAQ)
    index(search, FAQ)
    with serving(search, faq) as old:
        search.write_pipelines(other_checkpoint(tmp_path))
        index(search, FAQ)
        current = search.current()
        new = loaded(search)
        change(search, Action.delete_entry, entry=key_of(faq, FAQ[0][0]), of=FAQ[0][0])
        changed = {"entry": key_of(faq, FAQ[1][0]), "of": FAQ[1][0], "question": FAQ[1][0], "answer": "Ten days."}
        change(search, Action.change_entry, **changed)
        change(search, Action.add_entry, question="Do you ship abroad?", answer="Everywhere.")
        expected = sorted([(FAQ[1][0], "Ten days."), FAQ[2], ("Do you ship abroad?", "Everywhere.")])
        wait_until(lambda: stored(search) == expected)
        for name in search.indexes():
            wait_until(lambda name=name: len(search.documents(name)) == 3)
        for pipeline in (old, new):
            assert "Everywhere." in answers_of(pipeline, "Do you ship abroad?")
            assert "Ten days." in answers_of(pipeline, FAQ[1][0])
            for question, _ in FAQ:
                assert not answers_of(pipeline, question) & {FAQ[0][1], FAQ[1][1]}
    assert len(search.indexes()) == 2
    assert search.current() == current


def test_a_server_of_a_file_waits_for_the_index_of_a_new_checkpoint(
    search: Search, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on with the one before, and takes the new one once `ap-ranker index` has made its index."""
    caplog.set_level("INFO")
    served = tmp_path / "served"
    write_checkpoint("qa-cnn", served)
    search.write_pipelines(served)
    faq = write(search.folder / "faq.csv", FAQ)
    index(search, FAQ)
    first = search.current()
    with serving(search, faq) as pipeline:
        new = write_checkpoint("qa-cnn", tmp_path / "new", {**SMALL["qa-cnn"], "window": 3})
        served.rename(tmp_path / "former")
        new.rename(served)
        wait_until(lambda: "goes on with the checkpoint" in caplog.text)
        assert FAQ[1][1] in answers_of(pipeline, FAQ[1][0])
        index(search, FAQ)
        assert search.current() != first
        wait_until(lambda: "ranks from now on" in caplog.text)
        assert FAQ[1][1] in answers_of(pipeline, FAQ[1][0])


def test_a_server_with_an_older_file_writes_the_change_alone(search: Search) -> None:
    faq = write(search.folder / "served.csv", FAQ)
    index(search, FAQ)
    with serving(search, faq):
        index(search, FAQ[:1])
        change(search, Action.add_entry, question="Do you ship abroad?", answer="Everywhere.")
        expected = sorted([FAQ[0], ("Do you ship abroad?", "Everywhere.")])
        wait_until(lambda: len(stored(search)) > 1)
        assert stored(search) == expected


def test_a_change_of_the_file_is_not_written(search: Search) -> None:
    """Also together with one of the owner's: it waits for `ap-ranker index`."""
    faq = write(search.folder / "served.csv", FAQ)
    index(search, FAQ)
    with serving(search, faq):
        write(faq, [*FAQ, ("Do you buy old bikes?", "No.")])
        change(search, Action.add_entry, question="Do you ship abroad?", answer="Everywhere.")
        wait_until(lambda: len(stored(search)) > len(FAQ))
        time.sleep(1)
        assert stored(search) == sorted([*FAQ, ("Do you ship abroad?", "Everywhere.")])


def test_a_change_waits_for_the_cluster(search: Search) -> None:
    faq = write(search.folder / "served.csv", FAQ)
    index(search, FAQ)
    refused: list[str] = []

    def refuse(method: str, path: str) -> tuple[int, dict[str, object]] | None:
        if "/_bulk" not in path:
            return None
        refused.append(path)
        return 403, {"error": {"type": "cluster_block_exception", "reason": "index write"}, "status": 403}

    with serving(search, faq):
        search.proxy.before = refuse
        change(search, Action.add_entry, question="Do you ship abroad?", answer="Everywhere.")
        wait_until(lambda: len(refused) > 1)
        assert stored(search) == sorted(FAQ)
        search.proxy.before = lambda method, path: None
        wait_until(lambda: len(stored(search)) == len(FAQ) + 1)


def test_index_with_the_owners_database(search: Search) -> None:
    """The command writes the changes, too, so that a server with both searches the index."""
    faq = write(search.folder / "faq.csv", FAQ)
    index(search, FAQ)
    change(search, Action.delete_entry, entry=key_of(faq, FAQ[0][0]), of=FAQ[0][0])
    change(search, Action.add_entry, question="Do you ship abroad?", answer="Everywhere.")
    command = ["index", faq, "--pipeline", search.indexing, "--database", search.folder / "owner.db"]
    assert counts(run(*command).stdout) == [1, 0, 1, 2]
    assert counts(run(*command).stdout) == [0, 0, 0, 3]
    bulks = search.proxy.bulks()
    with serving(search, faq) as pipeline:
        assert "Everywhere." in answers_of(pipeline, "Do you ship abroad?")
        assert FAQ[0][1] not in answers_of(pipeline, FAQ[0][0])
    assert search.proxy.bulks() == bulks
