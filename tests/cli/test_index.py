"""`ap-ranker index` into our own store, and what it refuses; tests/elastic has the same into Elasticsearch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest
import yaml
from conftest import ROOT, TEXTS, settings_of, write_checkpoint
from haystack import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import ComponentDevice
from refusals import absent, assert_refusal, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.search.sync_store import MARK, IndexChanges, sync_documents
from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

STORE = "haystack_integrations.document_stores.ap_ranker.bm25s.BM25SDocumentStore"
WRITER = "haystack.components.writers.document_writer.DocumentWriter"
EMBEDDER = "haystack_integrations.components.embedders.ap_ranker.document_embedder.APDocumentEmbedder"


@pytest.fixture
def pipeline(tmp_path: Path, checkpoint: Path) -> Callable[[str | None], Path]:
    """The project's file with a path for its store."""

    def write(path: str | None) -> Path:
        declared = yaml.safe_load((ROOT / "pipelines" / "faq_search.yaml").read_text())
        store = settings_of(declared)["retriever"]["document_store"]
        store["init_parameters"] = {"path": path}
        settings_of(declared)["ranker"]["model"] = str(checkpoint)
        file = tmp_path / "search.yaml"
        file.write_text(yaml.safe_dump(declared))
        return file

    return write


def invoke(*command: object) -> str:
    return CliRunner().invoke(app, list(map(str, command)), catch_exceptions=False).stdout


def test_index_then_ask(tmp_path: Path, pipeline: Callable[[str | None], Path]) -> None:
    """A file changes; the folder follows; questions are asked without it."""
    search, faq = pipeline(str(tmp_path / "index")), tmp_path / "faq.csv"
    faq.write_text("question,answer,topic\nwhere is it,on its way,post\n" + "how much,nothing,price\n" * 2)
    line = invoke("index", faq, "--pipeline", search)
    assert not absent("2 entries", line)
    assert not absent("2 added … 0 changed … 0 removed … 0 unchanged … 1 duplicates", line)
    assert "0 added, 0 changed, 0 removed, 2 unchanged." in invoke("index", faq, "--pipeline", search)
    faq.write_text("question,answer,topic\nhow much,a lot,price\nis it blue,it is red,colour\nis it new,it is,age\n")
    assert "2 added, 1 changed, 1 removed, 0 unchanged." in invoke("index", faq, "--pipeline", search)
    found = json.loads(invoke("ask", "how much is the blue one", "--pipeline", search, "--json"))
    assert {answer["answer"] for answer in found["answers"]} == {"a lot", "it is red", "it is"}


def test_a_folder_is_not_written_by_who_searches_files(
    tmp_path: Path, pipeline: Callable[[str | None], Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A deleted entry does not come back, and the file's entries are found."""
    search, faq, older = pipeline(str(tmp_path / "index")), tmp_path / "faq.csv", tmp_path / "older.csv"
    older.write_text("question,answer\nwhere is it,on its way\nhow much,nothing\n")
    faq.write_text("question,answer\nwhere is it,on its way\n")
    invoke("index", faq, "--pipeline", search)
    found = json.loads(invoke("ask", "how much", "--documents", older, "--pipeline", search, "--json"))
    assert [answer["answer"] for answer in found["answers"]] == ["nothing"]
    assert "1 more" in caplog.text
    assert json.loads(invoke("ask", "how much", "--pipeline", search, "--json"))["answers"] == []
    assert "0 added, 0 changed, 0 removed, 1 unchanged." in invoke("index", faq, "--pipeline", search)


def test_an_id_tells_a_change_from_another_entry(tmp_path: Path, pipeline: Callable[[str | None], Path]) -> None:
    search, faq = pipeline(str(tmp_path / "index")), tmp_path / "faq.csv"
    faq.write_text("aid,answer\n1,on its way\n2,nothing\n")
    invoke("index", faq, "--pipeline", search)
    faq.write_text("aid,answer\n1,it is lost\n3,nothing\n")
    assert "1 added, 1 changed, 1 removed, 0 unchanged." in invoke("index", faq, "--pipeline", search)


def documents(*texts: str) -> list[Document]:
    return [Document(content=text, meta={"question": text, "answer": text}) for text in texts]


def test_documents_of_others_stay() -> None:
    store = BM25SDocumentStore()
    others = documents("theirs", "both")
    store.write_documents(others)
    assert sync_documents(store, documents("ours", "both")) == IndexChanges(2, 0, 0, 0)  # what both wrote becomes ours
    assert sync_documents(store, documents("ours")) == IndexChanges(0, 0, 1, 1)
    assert {document.content for document in store.filter_documents()} == {"theirs", "ours"}
    assert MARK not in store.filter_documents({"field": "id", "operator": "==", "value": others[0].id})[0].meta


def test_what_is_only_embedded_anew_is_changed(tmp_path: Path) -> None:
    """Passages of a section have one identity: one that is gone is not replaced by those that are embedded anew."""
    model = write_checkpoint("qa-cnn", tmp_path / "qa-cnn")
    device = ComponentDevice.from_str("cpu")
    before, after = (APDocumentEmbedder(model=model, device=device, prefix=prefix) for prefix in ("", "passage: "))
    section = {"title": "Parcels", "file_path": "post.md"}
    passages = [Document(content=text, meta={"answer": text, **section}) for text in TEXTS[:3]]
    store = BM25SDocumentStore()
    assert sync_documents(store, passages, before) == IndexChanges(3, 0, 0, 0)
    assert sync_documents(store, passages[:2], after) == IndexChanges(0, 2, 1, 0)
    assert {document.meta["embedded_by"] for document in store.filter_documents()} == {after.embedded_by}


class Interrupted(BM25SDocumentStore):
    """A store whose user loses patience after some writes and deletes."""

    left = 10**6

    def _step(self) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        self._step()
        return super().write_documents(documents, policy)

    def delete_documents(self, document_ids: list[str]) -> None:
        self._step()
        super().delete_documents(document_ids)


@pytest.mark.parametrize("steps", range(4))  # two batches to write, two to delete
def test_interrupted_anywhere(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any of its steps an entry that stays is there, and the next run ends where an undisturbed one does."""
    store, old, new = Interrupted(), documents(*"abcdefgh"), documents(*"efghijkl")
    sync_documents(store, old)
    monkeypatch.setattr("ap_ranker.search.sync_store.BATCH", 2)
    store.left = steps
    with pytest.raises(KeyboardInterrupt):
        sync_documents(store, new)
    assert set("efgh") <= {document.content for document in store.filter_documents()}
    store.left = 4
    assert sync_documents(store, new).total == 8
    assert sorted(document.content or "" for document in store.filter_documents()) == list("efghijkl")
    assert sync_documents(store, new) == IndexChanges(0, 0, 0, 8)


def test_a_list_with_a_document_twice_is_asked_for_again() -> None:
    """Pages in no set order: one twice may mean that another one is missing."""

    class Shuffled(BM25SDocumentStore):
        bad = 0

        def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
            found = super().filter_documents(filters)
            self.bad -= 1
            return [found[0], *found[:-1]] if self.bad >= 0 and len(found) > 1 else found

    store = Shuffled()
    sync_documents(store, documents(*"abcdef"))
    store.bad = 2
    assert sync_documents(store, documents(*"abc")) == IndexChanges(0, 0, 3, 3)
    assert store.count_documents() == 3
    store.bad = 100
    with refused("twice … 5"):
        sync_documents(store, documents(*"abc"))


def refusing(facts: str, *command: object) -> None:
    result = CliRunner().invoke(app, list(map(str, command)))
    assert_refusal(facts, result.exception)


def test_what_cannot_last_is_refused(tmp_path: Path, pipeline: Callable[[str | None], Path]) -> None:
    faq = tmp_path / "faq.csv"
    faq.write_text("question,answer\na,b\n")
    refusing("store", "index", faq, "--pipeline", pipeline(None))
    lasting = pipeline(str(tmp_path / "index"))
    for option, value in (
        ("--test", faq),
        ("--test", tmp_path / "nowhere"),
        ("--part", "1/2"),
        ("--language", "german"),
    ):
        refusing(f"{option} … BM25SDocumentStore", "index", faq, "--pipeline", lasting, option, value)
    refusing("search.yaml … --back … BM25SDocumentStore", "index", "--pipeline", lasting, "--back")
    assert not (tmp_path / "index").exists()
    refusing("BM25SDocumentStore … none", "ask", "a", "--pipeline", pipeline(None))


def test_other_pipelines_are_refused(tmp_path: Path, checkpoint: Path) -> None:
    faq, file = tmp_path / "faq.csv", tmp_path / "index.yaml"
    faq.write_text("question,answer\na,b\n")
    store = {"type": STORE, "init_parameters": {"path": str(tmp_path / "index")}}
    writer = {"type": WRITER, "init_parameters": {"document_store": store, "policy": "OVERWRITE"}}
    cleaner = {"type": "haystack.components.preprocessors.document_cleaner.DocumentCleaner", "init_parameters": {}}

    def write(components: dict[str, Any], connections: list[dict[str, str]]) -> None:
        file.write_text(yaml.safe_dump({"components": components, "connections": connections}))

    write({"cleaner": cleaner}, [])
    refusing("store … none", "index", faq, "--pipeline", file)
    write({"cleaner": cleaner, "writer": writer}, [{"sender": "cleaner.documents", "receiver": "writer.documents"}])
    refusing("DocumentCleaner", "index", faq, "--pipeline", file)
    assert not (tmp_path / "index").exists()
    embedder = {"type": EMBEDDER, "init_parameters": {"model": str(checkpoint)}}
    write(
        {"first": embedder, "second": embedder, "writer": writer},
        [
            {"sender": "first.documents", "receiver": "second.documents"},
            {"sender": "second.documents", "receiver": "writer.documents"},
        ],
    )
    refusing("APDocumentEmbedder, APDocumentEmbedder", "index", faq, "--pipeline", file)
    assert not (tmp_path / "index").exists()
    write({"writer": writer}, [])
    assert "1 added" in invoke("index", faq, "--pipeline", file)


def test_missing_extra(tmp_path: Path) -> None:
    """The pip command, rather than the name of a module."""
    faq = tmp_path / "faq.csv"
    faq.write_text("question,answer\na,b\n")
    pipeline = ROOT / "pipelines" / "faq_index_elasticsearch.yaml"
    without = (
        "import sys; sys.modules['elasticsearch'] = sys.modules['elastic_transport'] = None; "
        "from ap_ranker.cli.main import main; main()"
    )
    result = forked.run(without, "index", faq, "--pipeline", pipeline)
    assert result.returncode == 2
    assert not absent('Elasticsearch … pip install "ap-ranker[elasticsearch]"', " ".join(result.stderr.split()))


def test_a_refusal_without_a_reason() -> None:
    """What elasticsearch-haystack raises when it overwrites and the server refuses a document."""

    class Silent(BM25SDocumentStore):
        def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
            raise DuplicateDocumentError if policy == DuplicatePolicy.FAIL else KeyError("create")

    with refused("p.yaml … here"), report_store_errors(Path("p.yaml"), "here"):
        sync_documents(Silent(), documents("a"))


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), report_store_errors(Path("p.yaml"), "here"):
        raise ZeroDivisionError
