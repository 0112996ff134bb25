"""`cache: {folder: DIR}` keeps what a ranker encodes for the next start; whatever is in there, results are the same."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from conftest import TEXTS, write_checkpoint
from haystack import Document, Pipeline
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import ComponentDevice

from ap_ranker.ranking import loaded_checkpoints
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.ranker import Ranker
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import HybridRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

CPU = ComponentDevice.from_str("cpu")
QUERY = "Where is my parcel?"
DOCUMENTS = [Document(id=str(number), content=text) for number, text in enumerate(TEXTS)]

Ranked = list[tuple[str, float | None]]


@pytest.fixture(params=["qa-cnn", "ap-transformer"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_checkpoint(request.param, tmp_path / "checkpoint")


def started(pipeline: str, documents: Sequence[Document] = DOCUMENTS) -> tuple[Ranked, int]:
    """What a process that loads a pipeline ranks, and how many texts it encodes beside the empty one."""
    loaded_checkpoints._loaded.clear()  # as in a process of its own
    search = Pipeline.loads(pipeline)
    inputs: dict[str, Any] = {"ranker": {"query": QUERY, "documents": list(documents)}}
    if "retriever" in search.graph.nodes:
        search.get_component("retriever").document_store.write_documents(list(documents), DuplicatePolicy.SKIP)
        inputs = {"ranker": {"query": QUERY}, "retriever": {"query": QUERY}}
    with patch.object(Ranker, "encode_answers", autospec=True, side_effect=Ranker.encode_answers) as encode:
        ranked = search.run(inputs)["ranker"]["documents"]
    empty = search.get_component("ranker").loaded().tokenize([""])[0]
    texts = [ids for call in encode.call_args_list for ids in call.args[1] if list(ids) != empty]
    return [(document.id, document.score) for document in ranked], len(texts)


def ranking(model: Path, **cache: Any) -> str:
    pipeline = Pipeline()
    pipeline.add_component("ranker", AnswerRanker(model=model, device=CPU, cache=cache))
    return pipeline.dumps()


def searching(model: Path, store: Path, **cache: Any) -> str:
    pipeline = Pipeline()
    pipeline.add_component("retriever", HybridRetriever(BM25SDocumentStore(store), model=model, device=CPU))
    pipeline.add_component("ranker", AnswerRanker(model=model, device=CPU, cache=cache))
    pipeline.connect("retriever.documents", "ranker.documents")
    return pipeline.dumps()


@pytest.mark.parametrize("more", [{}, {"megabytes": 0}, {"dtype": "int4"}], ids=str)
def test_the_second_start_encodes_nothing(model: Path, tmp_path: Path, own_cache: Path, more: dict[str, Any]) -> None:
    pipeline = ranking(model, folder=str(tmp_path / "states"), **more)
    first, encoded = started(pipeline)
    assert encoded == len(TEXTS)
    second, encoded = started(pipeline)
    assert encoded == 0
    assert second == first
    without, _ = started(ranking(model, **more))
    assert second == without
    assert not own_cache.exists(), "nothing is kept elsewhere"


def test_an_edited_document_is_encoded_alone(model: Path, tmp_path: Path) -> None:
    pipeline = ranking(model, folder=str(tmp_path / "states"))
    started(pipeline)
    edited = [*DOCUMENTS[1:], Document(id="new", content="The battery is in the parcel.")]
    assert started(pipeline, edited)[1] == 1


def test_a_search_by_meaning_starts_warm(model: Path, tmp_path: Path) -> None:
    """What its retriever has encoded, before the ranker names the folder, is kept there, too."""
    pipeline = searching(model, tmp_path / "store", folder=str(tmp_path / "states"))
    first, encoded = started(pipeline)
    assert encoded == len(TEXTS)
    second, encoded = started(pipeline)
    assert (second, encoded) == (first, 0)
    assert started(searching(model, tmp_path / "other"))[0] == first


def test_only_its_owner_reads_what_is_kept_and_no_text_is_in_it(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "states"
    folder.mkdir(mode=0o755)
    started(ranking(model, folder=str(folder)))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755, "a folder that was there stays as it is"
    kept = list(folder.iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in kept] == [0o700] * len(kept)
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert content
    assert not any(text.encode() in content for text in [QUERY, *TEXTS])


def test_a_checkpoint_that_is_trained_again_encodes_anew(tmp_path: Path) -> None:
    model = write_checkpoint("qa-cnn", tmp_path / "checkpoint")
    pipeline = ranking(model, folder=str(tmp_path / "states"))
    started(pipeline)
    write_checkpoint("hyperqa", model)
    again, encoded = started(pipeline)
    assert encoded == len(TEXTS)
    assert again == started(ranking(model))[0]


@pytest.mark.parametrize("is_cut", [False, True])
def test_damage_costs_only_time(model: Path, tmp_path: Path, is_cut: bool, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = ranking(model, folder=str(tmp_path / "states"))
    first, _ = started(pipeline)
    for file in (tmp_path / "states").rglob("*.sqlite"):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if is_cut else b"x" * len(content))
    assert started(pipeline) == (first, len(TEXTS))
    assert "damaged" in caplog.text
    assert started(pipeline) == (first, 0)


def test_a_folder_that_cannot_be_made_costs_only_time(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "states").write_text("a file where the folder would be")
    pipeline = ranking(model, folder=str(tmp_path / "states"))
    for _ in range(2):
        caplog.clear()
        assert started(pipeline) == (started(ranking(model))[0], len(TEXTS))
        assert caplog.text.count("not kept") == 1


def test_what_the_command_has_encoded_is_read(model: Path, tmp_path: Path) -> None:
    encode_corpus(model, TEXTS[1:], tmp_path / "states", device="cpu")
    pipeline = ranking(model, folder=str(tmp_path / "states"))
    assert started(pipeline)[1] == 1
    assert started(pipeline)[1] == 0


def test_what_the_command_has_encoded_with_another_checkpoint_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = write_checkpoint("qa-cnn", tmp_path / "checkpoint")
    other = write_checkpoint("hyperqa", tmp_path / "other")
    encode_corpus(other, TEXTS, tmp_path / "states", device="cpu")
    first, encoded = started(ranking(model, folder=str(tmp_path / "states")))
    assert (first, encoded) == (started(ranking(model))[0], len(TEXTS))
    assert "hyperqa" in caplog.text


def test_a_copied_folder_serves_as_well(model: Path, tmp_path: Path) -> None:
    first, _ = started(ranking(model, folder=str(tmp_path / "states")))
    shutil.copytree(tmp_path / "states", tmp_path / "copy")
    assert started(ranking(model, folder=str(tmp_path / "copy"))) == (first, 0)
