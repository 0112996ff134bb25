"""Faults that were met on a real cluster; those of lost nodes are in test_cluster.py."""

from __future__ import annotations

import asyncio
import csv
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, write_checkpoint
from haystack import Pipeline
from haystack.core.errors import PipelineRuntimeError
from haystack.errors import FilterError
from haystack.utils import ComponentDevice
from naive import SMALL
from refusals import assert_refusal, refused
from typer.testing import CliRunner

from ap_ranker.cli.main import app
from ap_ranker.data.faq import Match
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.search.elasticsearch.index_cluster import Cluster
from ap_ranker.search.elasticsearch.index_layout import SETTINGS
from ap_ranker.search.load_pipeline import report_store_errors
from ap_ranker.search.setup import set_up
from elastic.conftest import Search
from elastic.test_index import FAQ, counts, entries, index, stored, write
from haystack_integrations.components.retrievers.ap_ranker import (
    AnswerSearch,
    ElasticsearchFAQRetriever,
    HybridRetriever,
)
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
from haystack_integrations.document_stores.ap_ranker.elasticsearch_faq import elasticsearch_library

CPU = ComponentDevice.from_str("cpu")
QUESTION = FAQ[0][0]
EXAMPLE = ROOT / "examples" / "faq"


@pytest.fixture
def by_meaning(search: Search, bi_encoder: Path) -> Search:
    search.write_pipelines(bi_encoder)
    return search


def run(*command: object) -> Any:
    return CliRunner().invoke(app, list(map(str, command)))


def answers(search: Search, question: str, *options: object) -> list[str]:
    """The answers of `ask`, best first."""
    result = run("ask", question, "--pipeline", search.searching, "--json", *options)
    assert result.exception is None, result.exception
    return [each["answer"] for each in json.loads(result.stdout)["answers"]]


def retriever_of(search: Search) -> ElasticsearchFAQRetriever:
    found = Pipeline.loads(search.searching.read_text()).get_component("search")
    assert isinstance(found, AnswerSearch)
    assert isinstance(found.retriever, ElasticsearchFAQRetriever)
    return found.retriever


# 2: deleted entries come back and stay


@pytest.mark.parametrize("kind", ["elasticsearch", "words"])
def test_a_reader_with_an_older_file_writes_nothing(search: Search, kind: str) -> None:
    made = replace(search, kind=kind)
    index(made, FAQ)
    index(made, FAQ[:2])
    before, bulks = made.documents(), made.proxy.bulks()
    older = write(made.folder / "older.csv", FAQ)
    assert_refusal(
        "1 more … ap-ranker index", run("ask", "b", "--documents", older, "--pipeline", made.searching).exception
    )
    with set_up(older, pipeline=made.searching) as setup, refused("1 more"):
        setup.load()  # as `serve`, and each of its workers
    assert made.proxy.bulks() == bulks
    assert made.documents() == before
    assert counts(index(made, FAQ[:2])) == [0, 0, 0, 2]


def test_a_reader_with_the_same_file_searches_the_index(search: Search) -> None:
    index(search, FAQ)
    bulks = search.proxy.bulks()
    assert FAQ[2][1] in answers(search, FAQ[2][0], "--documents", search.folder / "faq.csv")
    assert search.proxy.bulks() == bulks


def test_evaluate_writes_nothing(search: Search, checkpoint: Path) -> None:
    index(search, FAQ[:2])
    bulks = search.proxy.bulks()
    questions = write(search.folder / "dev.csv", FAQ)
    answers_file = write(search.folder / "answers.csv", FAQ)
    result = run("evaluate", checkpoint, questions, "--answers", answers_file, "--pipeline", search.searching)
    assert_refusal("more", result.exception)
    assert search.proxy.bulks() == bulks
    assert stored(search) == sorted(FAQ[:2])


# 3: readers create an index


@pytest.mark.parametrize("kind", ["elasticsearch", "words", "hybrid"])
def test_a_deleted_index_stays_deleted(search: Search, bi_encoder: Path, kind: str) -> None:
    search.write_pipelines(bi_encoder)
    made = replace(search, kind=kind)
    index(made, FAQ)
    served = DeclaredPipeline.load(made.searching)
    served.fill(None, Match.both)
    served.prepare()
    assert served.answer(QUESTION)[0]
    made.request("DELETE", made.current())
    for _ in range(2):
        with pytest.raises(ValueError), report_store_errors(served.path, served.place):
            served.answer(QUESTION)
        with refused("index"):
            served.check()
        if kind != "elasticsearch":
            inputs = {name: {"query": QUESTION} for name in ("ranker", "retriever", "scores")}
            by_words = {
                "words": inputs,
                "hybrid": {
                    "embedder": {"text": QUESTION},
                    "by_words": {"query": QUESTION},
                    "lucene_scores": {"query": QUESTION},
                    "scores": {"query": QUESTION},
                    "ranker": {"query": QUESTION},
                },
            }
            with pytest.raises(PipelineRuntimeError):
                asyncio.run(served.pipeline.run_async(by_words[kind]))
        assert_refusal("ap-ranker index", run("ask", QUESTION, "--pipeline", made.searching).exception)
    assert made.indexes() == []


def test_an_index_that_is_being_made_anew_has_no_answers(search: Search) -> None:
    """A server goes on while its index is deleted and made again: what is not there yet is no "none"."""
    index(search, FAQ)
    served = DeclaredPipeline.load(search.searching)
    served.prepare()
    current = search.current()
    made = search.request("GET", current)[current]
    settings = {"analysis": made["settings"]["index"]["analysis"]}
    search.request("DELETE", current)
    search.request("PUT", current, {"mappings": made["mappings"], "settings": settings})
    for refusing in (served.check, lambda: served.answer("battery")):
        with refused("complete"):
            refusing()
    index(search, FAQ)
    served.check()
    assert served.answer("battery")[0]


# 4: vectors of another checkpoint


def other_checkpoint(folder: Path) -> Path:
    return write_checkpoint("qa-cnn", folder / "other", {**SMALL["qa-cnn"], "window": 3})


def test_each_checkpoint_has_an_index(by_meaning: Search, bi_encoder: Path, tmp_path: Path) -> None:
    index(by_meaning, FAQ)
    first = by_meaning.current()
    old = retriever_of(by_meaning)
    expected = [document.id for document in old.run(query=QUESTION)["documents"]]
    by_meaning.write_pipelines(other_checkpoint(tmp_path))
    assert_refusal("ap-ranker index", run("ask", QUESTION, "--pipeline", by_meaning.searching).exception)
    assert counts(index(by_meaning, FAQ)) == [3, 0, 0, 0]
    second = by_meaning.current()
    assert by_meaning.indexes() == sorted([first, second])
    assert first != second
    assert [document.id for document in old.run(query=QUESTION)["documents"]] == expected
    for made in (first, second):
        assert len({fields["embedded_by"] for fields in by_meaning.documents(made).values()}) == 1
    assert first in run("index", "--back", "--pipeline", by_meaning.indexing).stdout
    assert by_meaning.current() == first
    assert second in run("index", "--back", "--pipeline", by_meaning.indexing).stdout
    assert by_meaning.current() == second


def test_what_is_deleted_is_in_no_index_that_is_kept(by_meaning: Search, tmp_path: Path) -> None:
    index(by_meaning, FAQ)
    first = by_meaning.current()
    by_meaning.write_pipelines(other_checkpoint(tmp_path))
    index(by_meaning, [*FAQ[:2], ("Do you ship abroad?", "Yes.")])
    assert {fields["answer"] for fields in by_meaning.documents(first).values()} == {FAQ[0][1], FAQ[1][1], "Yes."}


def test_haystacks_components_refuse_vectors_of_another_checkpoint(by_meaning: Search, tmp_path: Path) -> None:
    hybrid = replace(by_meaning, kind="hybrid")
    index(hybrid, FAQ)
    served = DeclaredPipeline.load(hybrid.searching)
    assert served.answer(QUESTION)[0]
    hybrid.write_pipelines(other_checkpoint(tmp_path))
    index(hybrid, FAQ)
    with refused("another"):
        served.answer(QUESTION)


def test_the_faq_of_a_checkpoint_is_compared(by_meaning: Search) -> None:
    index(by_meaning, FAQ)
    assert sorted(retriever_of(by_meaning).contents(10)) == sorted("\n".join(entry) for entry in FAQ)


# 5: listings


def test_a_listing_has_each_document_once(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three shards, many pages; nothing is written where nothing has changed."""
    settings = json.loads(_settings())
    settings["settings"] |= {"number_of_shards": 3}
    file = search.folder / "settings.json"
    file.write_text(json.dumps(settings))
    pipeline = yaml.safe_load(search.searching.read_text())
    store = pipeline["components"]["search"]["init_parameters"]["retriever"]["init_parameters"]["document_store"]
    store["init_parameters"]["settings"] = str(file)
    search.searching.write_text(yaml.safe_dump(pipeline))
    monkeypatch.setattr("ap_ranker.search.elasticsearch.index_cluster.PAGE", 50)
    index(search, entries(0, 320))
    for _ in range(2):
        assert counts(index(search, entries(0, 320))) == [0, 0, 0, 320]
    assert counts(index(search, entries(300, 620))) == [300, 0, 300, 20]
    assert len(search.documents()) == 320


LOST: dict[str, object] = {
    "error": {
        "type": "search_phase_execution_exception",
        "reason": "all shards failed",
        "root_cause": [{"type": "search_context_missing_exception", "reason": "No search context found for id [7]"}],
    },
    "status": 404,
}
"""What Elasticsearch answers where a point in time went with its node."""


def test_a_listing_begins_anew_where_a_node_was_lost(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ap_ranker.search.elasticsearch.index_cluster.LISTING_PAUSES", (0.1, 0.1, 0.1))
    index(search, FAQ)
    replies = iter([(404, LOST)] * 3)
    search.proxy.before = lambda method, path: next(replies, None) if path.startswith("/_search") else None
    assert counts(index(search, FAQ)) == [0, 0, 0, 3]
    assert next(replies, None) is None


def test_an_index_that_is_not_there_is_not_waited_for(search: Search) -> None:
    cluster = Cluster(elasticsearch_library().Elasticsearch(search.proxy.url), search.index)
    with pytest.raises(elasticsearch_library().NotFoundError):
        cluster.list_ids(f"{search.index}-nowhere")
    assert sum("/_pit" in path for _, path in search.proxy.requests) == 1


def _settings() -> str:
    return SETTINGS.read_text()


def test_an_unchanged_faq_costs_few_requests(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 for ten pages, which 100,000 entries have, and an empty one."""
    monkeypatch.setattr("ap_ranker.search.elasticsearch.index_cluster.PAGE", 10)
    index(search, entries(0, 100))
    search.proxy.requests.clear()
    index(search, entries(0, 100))
    assert len(search.proxy.requests) <= 30, search.proxy.requests


# 6: two runs at once


def test_two_runs_at_once(search: Search) -> None:
    """The second is told who writes; what the first wrote is there."""
    index(search, FAQ)
    waiting, going_on = threading.Event(), threading.Event()

    def stop_the_first(method: str, path: str) -> None:
        if "/_bulk" in path:
            search.proxy.before = lambda method, path: None
            waiting.set()
            assert going_on.wait(60)

    search.proxy.before = stop_the_first
    first, second = entries(0, 40), entries(100, 140)
    faq = write(search.folder / "first.csv", first)
    thread = threading.Thread(target=run, args=("index", faq, "--pipeline", search.indexing))
    thread.start()
    assert waiting.wait(60)
    assert_refusal(
        "process", run("index", write(search.folder / "second.csv", second), "--pipeline", search.indexing).exception
    )
    going_on.set()
    thread.join()
    assert stored(search) == sorted(first)
    assert counts(index(search, second)) == [40, 0, 40, 0]
    assert stored(search) == sorted(second)


def test_machines_share_the_work(search: Search) -> None:
    faq = write(search.folder / "faq.csv", entries(0, 60))
    for part in ("1/3", "3/3"):
        assert run("index", faq, "--pipeline", search.indexing, "--part", part).exception is None
        assert search.request("GET", f"_alias/{search.index}").get("status") == 404, "not complete yet"
    assert run("index", faq, "--pipeline", search.indexing, "--part", "2/3").exception is None
    assert stored(search) == sorted(entries(0, 60))
    assert_refusal("2/4", run("index", faq, "--pipeline", search.indexing, "--part", "4/3").exception)


# 7: counts that are read back


def test_an_index_of_an_earlier_release_is_taken_over(search: Search) -> None:
    """Whatever its mapping says of our fields; documents of others come along."""
    properties = {"content": {"type": "text"}, "ap_ranker_key": {"type": "keyword"}}
    search.request("PUT", search.index, {"mappings": {"dynamic": False, "properties": properties}})
    old = {"id": "old", "content": "Gone\nsince long", "question": "Gone", "answer": "since long", "ap_ranker_key": 7}
    search.request("PUT", f"{search.index}/_doc/old", old)
    search.request("PUT", f"{search.index}/_doc/theirs?refresh=true", {"id": "theirs", "content": "A word of others"})
    assert counts(index(search, FAQ)) == [3, 0, 0, 0]
    found = search.documents()
    assert len(found) == 4
    assert "old" not in found
    assert found["theirs"]["content"] == "A word of others"
    assert search.current() in search.indexes()
    assert search.index not in search.indexes()
    assert [document.id for document in retriever_of(search).run(query="others")["documents"]] == ["theirs"]
    assert answers(replace(search, kind="words"), "battery") == [FAQ[2][1]], "YAML that names it goes on working"


def test_an_index_of_another_layout_is_refused(search: Search) -> None:
    index(search, FAQ)
    current = search.current()
    mapping = search.request("GET", f"{current}/_mapping")[current]["mappings"]
    mapping["properties"]["ap_ranker_key"] = {"type": "keyword"}
    search.request("DELETE", current)
    search.request("PUT", current, {"mappings": mapping, "settings": json.loads(_settings())["settings"]})
    result = run("index", search.folder / "faq.csv", "--pipeline", search.indexing)
    assert_refusal("ap_ranker_key … keyword … long", result.exception)


# 8: values that are missing or malformed


def with_fields(search: Search, fields: dict[str, Any]) -> None:
    pipeline = yaml.safe_load(search.searching.read_text())
    store = pipeline["components"]["search"]["init_parameters"]["retriever"]["init_parameters"]["document_store"]
    store["init_parameters"]["fields"] = fields
    search.searching.write_text(yaml.safe_dump(pipeline))


def test_an_empty_cell_is_a_missing_field(search: Search) -> None:
    with_fields(search, {"since": {"type": "date"}})
    faq = search.folder / "faq.csv"
    faq.write_text("question,answer,since\na,first,2024-01-05\nb,second,\n")
    for expected in ([2, 0, 0, 0], [0, 0, 0, 2]):
        assert counts(run("index", faq, "--pipeline", search.indexing).stdout) == expected
    newer = {"field": "meta.since", "operator": ">=", "value": "2024-01-01"}
    assert [one.meta["answer"] for one in retriever_of(search).run(query="a first", filters=newer)["documents"]] == [
        "first"
    ]
    with_fields(search, {"since": {"type": "date"}, "topic": {"type": "keyword"}})
    assert counts(run("index", faq, "--pipeline", search.indexing).stdout) == [0, 2, 0, 0]  # a new field: all again


def test_malformed_documents_of_others_are_left_out(search: Search, caplog: pytest.LogCaptureFixture) -> None:
    index(search, FAQ)
    for name, fields in (("list", {"content": ["battery"]}), ("text", {"content": "battery", "meta": "a text"})):
        source = {"id": name, **fields, "ap_ranker_words": "battery", "ap_ranker_length": 1}
        search.request("PUT", f"{search.current()}/_doc/{name}?refresh=true", source)
    assert answers(search, "battery") == [FAQ[2][1]]
    assert "'list'" in caplog.text or "list" in caplog.text


# 9: one request


def test_a_question_is_one_request(search: Search, tmp_path: Path) -> None:
    """Of at most 15,000 bytes, both ways, with 384 numbers a vector, once what is found was fetched."""
    options = {**SMALL["qa-cnn"], "filters": 384}
    search.write_pipelines(write_checkpoint("qa-cnn", tmp_path / "384", options, bm25_language="english"))
    assert counts(run("index", EXAMPLE / "answers.csv", "--pipeline", search.indexing).stdout)[0] == 168
    pipeline = DeclaredPipeline.load(search.searching)
    pipeline.prepare()
    with (EXAMPLE / "test.csv").open(encoding="utf-8", newline="") as file:
        questions = [row["question"] for row in islice(csv.DictReader(file), 20)]
    for question in questions:
        pipeline.answer(question)
    for question in questions:
        search.proxy.requests.clear()
        search.proxy.traffic = 0
        documents, _ = pipeline.answer(question)
        assert documents
        assert [path.partition("?")[0] for _, path in search.proxy.requests] == ["/_msearch"]
        assert search.proxy.traffic <= 15_000


def test_it_finds_what_the_store_in_memory_finds(by_meaning: Search, bi_encoder: Path) -> None:
    """The same candidates with the same scores, by words, meaning and known wordings."""
    index(by_meaning, FAQ)
    store = BM25SDocumentStore(documents=by_meaning.folder / "faq.csv")
    memory = HybridRetriever(store, model=bi_encoder, device=CPU)
    retriever = retriever_of(by_meaning)
    for question in ("battery", "where is my parcel", "money, battery, e-mail", "nothing of this kind", "?!"):
        ours, theirs = (
            {one.content: one.meta["ap_ranker"] for one in each.run(query=question)["documents"]}
            for each in (retriever, memory)
        )
        assert ours.keys() == theirs.keys()
        for content, data in ours.items():
            assert data["bm25_score"] == pytest.approx(theirs[content]["bm25_score"], rel=1e-5, abs=1e-6)
            assert data["embedding_score"] == pytest.approx(theirs[content]["embedding_score"], abs=0.02)


def test_files_of_wordings(by_meaning: Search, bi_encoder: Path) -> None:
    index(by_meaning, entries(0, 120))
    file = by_meaning.folder / "wordings.csv"
    write(file, [("xyzzy plugh", "Answer 77")])
    retriever = retriever_of(by_meaning)
    retriever.top_k = 5
    retriever.add_wordings(file)
    found = retriever.run(query="Xyzzy plugh!")["documents"]
    by_wording = [one.meta["answer"] for one in found if one.meta["ap_ranker"]["wording_rank"] == 1]
    assert by_wording == ["Answer 77"]


# 10: messages


@pytest.mark.parametrize("length", [1_000, 20_000])
def test_a_question_of_any_length(search: Search, length: int) -> None:
    index(search, FAQ)
    words = [f"word{i}" for i in range(length)]
    words[3] = "tracking-link-in-your-e-mail"
    found = retriever_of(search).run(query=" ".join([*words, "battery"]))["documents"]
    assert {document.meta["question"] for document in found} >= {FAQ[2][0]}


def test_filters(search: Search) -> None:
    with_fields(search, {"topic": {"type": "keyword"}})
    faq = search.folder / "faq.csv"
    faq.write_text("question,answer,topic\nwhich battery,this one,bikes\nno battery,that one,cars\n")
    run("index", faq, "--pipeline", search.indexing)
    retriever = retriever_of(search)
    filters = {"field": "meta.topic", "operator": "==", "value": "cars"}
    assert [one.meta["topic"] for one in retriever.run(query="battery", filters=filters, top_k=3)["documents"]] == [
        "cars"
    ]
    assert len(retriever.run(query="battery", top_k=1)["documents"]) == 1
    for wrong in (
        {"field": "meta.price", "operator": "==", "value": 1},
        {"field": "content", "operator": "==", "value": "a"},
    ):
        with pytest.raises(FilterError, match="mapping"):
            retriever.run(query="battery", filters=wrong)
    for malformed in ({"field": "meta.topic"}, {"operator": "AND"}, {"field": "topic", "operator": "=?", "value": 1}):
        with pytest.raises((FilterError, ValueError)):
            retriever.run(query="battery", filters=malformed)


def test_several_event_loops(search: Search) -> None:
    index(search, FAQ)
    retriever = retriever_of(search)

    async def ask(question: str) -> Sequence[Any]:
        found = await asyncio.gather(*(retriever.run_async(query=question) for _ in range(8)))
        return [each["documents"][0].content for each in found]

    for _ in range(3):
        assert asyncio.run(ask("battery")) == ["\n".join(FAQ[2])] * 8


def test_serialisation(search: Search, checkpoint: Path) -> None:
    index(search, FAQ)
    retriever = retriever_of(search)
    again = ElasticsearchFAQRetriever.from_dict(retriever.to_dict())
    assert again.to_dict() == retriever.to_dict()
    assert [one.id for one in again.run(query="battery")["documents"]] == [
        one.id for one in retriever.run(query="battery")["documents"]
    ]
    assert "ELASTIC_API_KEY" in json.dumps(retriever.to_dict())


def test_an_alias_of_two_indexes_is_named(search: Search) -> None:
    index(search, FAQ)
    search.request("PUT", f"{search.index}-other", {"aliases": {search.index: {}}})
    result = run("index", search.folder / "faq.csv", "--pipeline", search.indexing)
    assert_refusal(f"{search.index}-other", result.exception)
    words = replace(search, kind="words")
    assert_refusal(f"{search.index}-other", run("ask", "battery", "--pipeline", words.searching).exception)


def test_a_closed_index(search: Search) -> None:
    index(search, FAQ)
    served = DeclaredPipeline.load(search.searching)
    served.prepare()
    search.request("POST", f"{search.current()}/_close")
    with refused("closed"):
        served.check()
    assert_refusal("closed", run("ask", "battery", "--pipeline", search.searching).exception)


def test_a_misspelt_setting_of_the_client(search: Search, checkpoint: Path) -> None:
    search.write_pipelines(checkpoint, request_timeou=3)
    words = replace(search, kind="words")
    assert_refusal(
        "request_timeou", run("index", write(search.folder / "faq.csv", FAQ), "--pipeline", words.indexing).exception
    )
    assert_refusal("request_timeou", run("ask", "battery", "--pipeline", search.searching).exception)


def test_vectors_are_those_of_the_checkpoint(by_meaning: Search, bi_encoder: Path) -> None:
    """Each document's, and those of its known wordings; no vector is in the source."""
    index(by_meaning, FAQ)
    ranker = Ranker.from_pretrained(bi_encoder, "cpu")
    for name, fields in by_meaning.documents().items():
        assert "embedding" not in fields
        [vector] = ranker.embed_answers([fields["content"]]).tolist()
        script = {"source": "cosineSimilarity(params.v, 'embedding') + 1", "params": {"v": vector}}
        body = {"query": {"script_score": {"query": {"ids": {"values": [name]}}, "script": script}}}
        [hit] = by_meaning.request("POST", f"{by_meaning.index}/_search", body)["hits"]["hits"]
        assert hit["_score"] == pytest.approx(2, abs=1e-4)
        assert fields["embedded_by"] == ranker.fingerprint
