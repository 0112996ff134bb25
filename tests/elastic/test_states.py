"""States travel in the documents of the index: a server encodes no answer, and takes no damaged or foreign states."""

from __future__ import annotations

import csv
import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from conftest import ROOT, write_checkpoint
from haystack import Document
from haystack.utils import ComponentDevice
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.ranking import loaded_checkpoints
from ap_ranker.ranking.cache import CacheInfo
from ap_ranker.ranking.quantization import QuantizedStates, StateDtype
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.state_bytes import STATES, StateSealer
from ap_ranker.ranking.text_encoder import TextEncoder
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.elasticsearch import build_index
from ap_ranker.search.elasticsearch.build_index import IndexTarget
from ap_ranker.search.elasticsearch.index_layout import SETTINGS
from elastic.conftest import Search
from elastic.test_index import FAQ, counts, entries, index, write
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import (
    AnswerSearch,
    ElasticsearchFAQRetriever,
    FAQSearch,
    HybridRetriever,
)
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

EXAMPLE = ROOT / "examples" / "faq"
CPU = ComponentDevice.from_str("cpu")
ALL = 200
"""More candidates than the example has entries."""


def questions(number: int) -> list[str]:
    with (EXAMPLE / "test.csv").open(encoding="utf-8", newline="") as file:
        return [row["question"] for row in islice(csv.DictReader(file), number)]


def made(search: Search, name: str, folder: Path) -> Path:
    """A checkpoint of a model, which the pipelines name from now on."""
    checkpoint = write_checkpoint(name, folder / name, bm25_language="english")
    search.write_pipelines(checkpoint)
    pipeline = yaml.safe_load(search.searching.read_text())
    parameters = pipeline["components"]["search"]["init_parameters"]
    parameters["retriever"]["init_parameters"]["top_k"] = ALL
    parameters["ranker"]["init_parameters"]["top_k"] = ALL
    search.searching.write_text(yaml.safe_dump(pipeline))
    return checkpoint


def index_example(search: Search, *options: str) -> list[int]:
    command = ["index", str(EXAMPLE / "answers.csv"), "--pipeline", str(search.indexing), *options]
    return counts(CliRunner().invoke(app, command, catch_exceptions=False).stdout)


def served(search: Search) -> DeclaredPipeline:
    """The search of a process that has encoded nothing."""
    loaded_checkpoints._loaded.clear()
    pipeline = DeclaredPipeline.load(search.searching)
    pipeline.prepare()
    return pipeline


def cache_of(pipeline: DeclaredPipeline) -> CacheInfo:
    info = pipeline.cache_info
    assert info is not None
    return info


def retriever_of(pipeline: DeclaredPipeline) -> ElasticsearchFAQRetriever:
    retriever = pipeline.index_retriever()
    assert retriever is not None
    return retriever


def answered(search: AnswerSearch | DeclaredPipeline, question: str) -> tuple[dict[str, float], str, float | None]:
    """The score of each answer, the outcome and its probability."""
    if isinstance(search, AnswerSearch):
        documents, decision = search.search(question, offer=True)
    else:
        documents, decision = search.answer(question, top_k=ALL)
    return {str(one.meta["aid"]): one.score for one in documents}, decision.outcome, decision.probability


def assert_same(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    """The same, in an order that differs at most where scores do not."""
    scores, outcome, probability = found
    assert scores == pytest.approx(expected[0], abs=1e-6)
    falling = [expected[0][name] for name in scores]
    assert all(better >= worse - 1e-6 for better, worse in pairwise(falling))
    assert outcome == expected[1]
    assert probability == pytest.approx(expected[2], abs=1e-6)


@pytest.mark.parametrize("name", ["ap-transformer", "ap-cnn", "qa-cnn"])
def test_a_server_encodes_no_answer(search: Search, tmp_path: Path, name: str) -> None:
    """And it answers as a search in memory does that has encoded all of them."""
    checkpoint = made(search, name, tmp_path)
    with patch.object(TextEncoder, "encode_answers", autospec=True, side_effect=TextEncoder.encode_answers) as encode:
        assert index_example(search) == [168, 0, 0, 0]
    encoded = [len(call.args[1]) for call in encode.call_args_list]
    assert 168 <= sum(encoded) <= 168 + encoded.count(1), "each once, beside the empty text"
    pipeline = served(search)
    found = [answered(pipeline, question) for question in questions(40)]
    assert cache_of(pipeline).encoded == 0
    assert cache_of(pipeline).fetched == cache_of(pipeline).entries > 100
    loaded_checkpoints._loaded.clear()
    memory = in_memory(checkpoint, by_meaning=name != "ap-cnn")
    for question, answer in zip(questions(40), found, strict=True):
        assert_same(answer, answered(memory, question))
    info = memory.ranker.cache_info
    assert info is not None
    assert info.fetched == 0


def in_memory(checkpoint: Path, *, by_meaning: bool) -> AnswerSearch:
    """The example in a store of this process."""
    documents = EXAMPLE / "answers.csv"
    if by_meaning:
        store = BM25SDocumentStore(documents=documents, language="english")
        retriever = HybridRetriever(store, model=checkpoint, device=CPU, top_k=ALL)
        ranker = AnswerRanker(model=checkpoint, device=CPU, top_k=ALL, fuse_scores=True)
        made = AnswerSearch(retriever, ranker)
    else:
        made = FAQSearch(model=checkpoint, documents=documents, device=CPU, candidates=ALL, top_k=ALL)
    made.warm_up()
    return made


def paths(search: Search) -> list[str]:
    """Of the requests since the last call."""
    asked = [path.partition("?")[0].rpartition("/")[2] for _, path in search.proxy.requests]
    search.proxy.requests.clear()
    return asked


def test_two_requests_for_what_is_new_and_one_for_what_is_known(search: Search, tmp_path: Path) -> None:
    made(search, "ap-transformer", tmp_path)
    index_example(search)
    pipeline = served(search)
    paths(search)
    search.proxy.traffic = 0
    expected = answered(pipeline, questions(1)[0])
    whole = search.proxy.traffic
    assert paths(search) == ["_msearch", "_mget"]
    assert search.proxy.encodings[-2:] == ["gzip", "gzip"]
    assert answered(pipeline, questions(1)[0]) == expected
    assert paths(search) == ["_msearch"]
    cache = pipeline.ranker().loaded().cache  # type: ignore[union-attr]
    assert cache is not None
    cache.clear()
    search.proxy.traffic = 0
    assert answered(pipeline, questions(1)[0]) == expected
    assert paths(search) == ["_msearch", "_mget"]
    assert search.proxy.traffic < whole, "the texts are known, so that only states are fetched"
    assert cache_of(pipeline).encoded == 0


Damage = Callable[[StateSealer, str, QuantizedStates, str], Any]
"""What another writer puts in place of the sealed states of a text: (sealer, text, states, sealed)."""


def of_another_checkpoint(sealer: StateSealer, text: str, states: QuantizedStates, sealed: str) -> Any:
    other = StateSealer("0" * 64, sealer._layouts, sealer._largest_id)
    return other.seal([text], states, StateDtype.int8)[0]


def of_fewer_bits(sealer: StateSealer, text: str, states: QuantizedStates, sealed: str) -> Any:
    four_bits = states.converted(StateDtype.int4, states.per_text["pooled"].device)
    return sealer.seal([text], four_bits, StateDtype.int4)[0]


def of_another_text(sealer: StateSealer, text: str, states: QuantizedStates, sealed: str) -> Any:
    return sealer.seal([text + "!"], states, StateDtype.int8)[0]


def truncated(sealer: StateSealer, text: str, states: QuantizedStates, sealed: str) -> Any:
    return sealed[:-8]


def one_byte(sealer: StateSealer, text: str, states: QuantizedStates, sealed: str) -> Any:
    content = bytearray(b64decode(sealed))
    content[-5] ^= 4
    return b64encode(content).decode()


def no_base64(sealer: StateSealer, text: str, states: QuantizedStates, sealed: str) -> Any:
    return "where is my parcel?"


def a_list(sealer: StateSealer, text: str, states: QuantizedStates, sealed: str) -> Any:
    return [sealed, sealed]


def a_huge_length(sealer: StateSealer, text: str, states: QuantizedStates, sealed: str) -> Any:
    content = b64decode(sealed)
    row = 2**32 - 1, content[21:]
    return b64encode(sealer._seal_of(text, StateDtype.int8, row) + b"\x08\xff\xff\xff\xff" + row[1]).decode()


def not_a_number(sealer: StateSealer, text: str, states: QuantizedStates, sealed: str) -> Any:
    """With a seal that fits."""
    content = b64decode(sealed)
    [length] = states.lengths.tolist()
    row = length, content[21:-2] + b"\xff\xff"  # the last tensor is a scale in half precision
    return b64encode(sealer._seal_of(text, StateDtype.int8, row) + content[16:21] + row[1]).decode()


@pytest.fixture
def good(search: Search, tmp_path: Path) -> tuple[Any, ...]:
    """What a search answers that has encoded its answers, and the pipelines for another index of the same name."""
    made(search, "ap-transformer", tmp_path)
    faq = entries(0, 12)
    index(search, faq)
    expected = answer_of(served(search))
    for name in search.indexes():
        search.request("DELETE", name)
    return expected


def answer_of(pipeline: DeclaredPipeline) -> tuple[Any, ...]:
    documents, decision = pipeline.answer("Question 7", top_k=ALL)
    scores = {one.meta["answer"]: one.score for one in documents}
    return scores, decision.outcome, decision.probability


@pytest.mark.parametrize(
    "damage",
    [
        of_another_checkpoint,
        of_fewer_bits,
        of_another_text,
        truncated,
        one_byte,
        no_base64,
        a_list,
        a_huge_length,
        not_a_number,
    ],
    ids=lambda damage: damage.__name__,
)
def test_states_that_are_not_of_a_text_are_encoded_here(
    search: Search, good: tuple[Any, ...], damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    seal = StateSealer.seal

    def damaged(sealer: StateSealer, texts: Sequence[str], states: QuantizedStates, dtype: StateDtype) -> list[Any]:
        fields = []
        for text, alone, field in zip(texts, states.split(), seal(sealer, texts, states, dtype), strict=True):
            assert field is not None
            with patch.object(StateSealer, "seal", seal):
                fields.append(damage(sealer, text, alone, field))
        return fields

    with patch.object(StateSealer, "seal", damaged):
        index(search, entries(0, 12))
    pipeline = served(search)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert_same(answer_of(pipeline), good)
    assert cache_of(pipeline).encoded == 12
    assert cache_of(pipeline).fetched == 0
    [warning] = [record.getMessage() for record in caplog.records if "ap-ranker index" in record.getMessage()]
    assert "12 of 12" in warning


def test_a_cache_that_is_too_small_for_one_question(search: Search, good: tuple[Any, ...]) -> None:
    index(search, entries(0, 12))
    pipeline = served(search)
    cache = pipeline.ranker().loaded().cache  # type: ignore[union-attr]
    assert cache is not None
    cache.max_bytes = 20_000
    for _ in range(2):
        assert_same(answer_of(pipeline), good)
        assert 0 < cache_of(pipeline).entries < 12
        assert cache_of(pipeline).bytes <= 20_000


def as_before(monkeypatch: pytest.MonkeyPatch, search: Search, checkpoint: Path) -> None:
    """Let `index` write as it did before documents had states."""
    settings = json.loads(SETTINGS.read_text())
    del settings["mappings"]["properties"][STATES]
    file = search.folder / "settings.json"
    file.write_text(json.dumps(settings))
    search.write_pipelines(checkpoint, settings=str(file))
    monkeypatch.setattr(IndexTarget, "made_by", property(lambda target: target.maker))
    monkeypatch.setattr(Ranker, "sealed_states", lambda ranker, texts, batch_size: [None] * len(texts))


@pytest.mark.parametrize("parts", [["1/1"], ["1/2", "2/2"]], ids=["whole", "parts"])
def test_an_index_without_states(search: Search, checkpoint: Path, parts: list[str]) -> None:
    """It is searched, and `index` writes all of it again, also in parts; documents of others get states, too."""
    with pytest.MonkeyPatch.context() as patching:
        as_before(patching, search, checkpoint)
        index(search, entries(0, 12))
    before = served(search)
    expected = answer_of(before)
    assert cache_of(before).encoded == 12
    assert cache_of(before).fetched == 0
    search.write_pipelines(checkpoint)
    written = [counts(index(search, entries(0, 12), "--part", part)) for part in parts]
    assert sum(changed for _, changed, _, _ in written) == 12
    assert counts(index(search, entries(0, 12))) == [0, 0, 0, 12]
    mapping = search.request("GET", f"{search.current()}/_mapping")[search.current()]["mappings"]
    assert mapping["properties"][STATES] == {"type": "binary"}
    assert all(isinstance(source[STATES], str) for source in search.documents().values())
    after = served(search)
    assert_same(answer_of(after), expected)
    assert cache_of(after).encoded == 0
    theirs = {"id": "theirs", "content": "Question of others"}
    search.request("PUT", f"{search.current()}/_doc/theirs?refresh=true", theirs)
    index(search, entries(0, 12))
    assert STATES in search.documents()["theirs"]


def test_states_are_in_nothing_that_is_returned(search: Search, tmp_path: Path) -> None:
    pytest.importorskip("hypercorn", reason="the extra serve is not installed")
    from web.visiting import client_of

    local = "127.0.0.1"  # which may run the pipeline

    made(search, "ap-transformer", tmp_path)
    index(search, FAQ)
    pipeline = served(search)
    retriever = retriever_of(pipeline)
    store = retriever.document_store
    with patch.object(type(store), "search", autospec=True, side_effect=type(store).search) as ask:
        found: list[Document] = [*store.filter_documents(), *store.first_documents(retriever.index, 10)]
    assert len(found) == 2 * len(FAQ)
    for call in ask.call_args_list:
        for body in call.args[2]:
            assert body["_source"] == {"excludes": [STATES]}, "the server leaves them out"
    found += retriever.run(query="battery")["documents"]
    found += pipeline.answer("battery")[0]
    assert not [one for one in found if STATES in str(one.to_dict())]
    with client_of(pipeline, local) as client:
        for path, body in (
            ("/api/search", {"question": "battery"}),
            (f"/{search.searching.stem}/run", {"query": "battery"}),
        ):
            reply = client.post(path, json=body)
            assert reply.status_code == 200
            assert "original battery" in reply.text
            assert STATES not in reply.text


def test_an_interrupted_part_goes_on(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has written is not encoded again.

    Three batches of ten are written, and up to three more: those under way when the first of them fails.
    """
    monkeypatch.setattr(build_index, "BATCH", 10)
    faq = write(search.folder / "faq.csv", entries(0, 240))
    command = ["index", str(faq), "--pipeline", str(search.indexing), "--part", "1/2"]
    started = search.proxy.bulks()

    def stop(method: str, path: str) -> None:
        if search.proxy.bulks() > started + 3:
            raise ConnectionError

    search.proxy.after = stop
    assert CliRunner().invoke(app, command).exception is not None
    search.proxy.after = lambda method, path: None
    [name] = search.indexes()
    written = len(search.documents(name))
    assert 0 < written <= 60
    loaded_checkpoints._loaded.clear()
    with patch.object(TextEncoder, "encode_answers", autospec=True, side_effect=TextEncoder.encode_answers) as encode:
        changes = counts(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    assert changes[3] == written
    assert changes[0] > 0
    encoded = [len(call.args[1]) for call in encode.call_args_list]
    assert sum(encoded) - encoded.count(1) <= changes[0] <= sum(encoded)
