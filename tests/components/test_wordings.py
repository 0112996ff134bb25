"""The ranker's known wordings: in the documents' meta, and in files that it follows."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from both_pipelines import assembled
from conftest import TEXTS, write_checkpoint
from haystack import Document, Pipeline
from refusals import refused

from ap_ranker.data.faq import Match, read_faq
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import (
    BM25SRetriever,
    ElasticsearchFAQRetriever,
    FAQSearch,
    HybridRetriever,
)
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore, ElasticsearchFAQStore

QUERY = "Is my bike here?"
STORED = [TEXTS[0], "", TEXTS[4]]
DOCUMENTS = [
    Document(content=text, meta={"aid": f"a{i}", "question": question, "answer": text})
    for i, (question, text) in enumerate(zip(STORED, TEXTS[1::2], strict=True))
]


@pytest.fixture(scope="module")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with a weight for wordings."""
    return write_checkpoint("ap-transformer", tmp_path_factory.mktemp("weighted") / "c", wording_weight=2.0)


def expected(checkpoint: Path, *wordings: list[str]) -> dict[str, tuple[float, str | None]]:
    """Content -> score and matched wording, by the library."""
    texts = [document.content or "" for document in DOCUMENTS]
    ranker = Ranker.from_pretrained(checkpoint, "cpu", cache=EncodingCache(0))
    ranked = ranker.rank(QUERY, texts, wordings=wordings, scale_score=True)
    return {answer.text: (answer.score, answer.wording) for answer in ranked}


def ranked(ranker: AnswerRanker, documents: list[Document] = DOCUMENTS) -> dict[str, tuple[float, str | None]]:
    found = ranker.run(query=QUERY, documents=documents)["documents"]
    return {
        document.content or "": (document.score or 0.0, document.meta.get("ap_ranker", {}).get("matched_wording"))
        for document in found
    }


def write_pairs(path: Path, *pairs: tuple[str, str]) -> Path:
    path.write_text("".join(json.dumps({"question": pair[0], "answer": pair[1]}) + "\n" for pair in pairs))
    return path


def test_the_stored_question_and_the_documents_wordings_count(weighted: Path) -> None:
    known = [["bike"], ["my bike", QUERY], []]
    documents = [
        replace(document, meta={**document.meta, "wordings": each})
        for document, each in zip(DOCUMENTS, known, strict=True)
    ]
    found = ranked(AnswerRanker(model=weighted, wordings=[]), documents)
    assert found == expected(weighted, [STORED[0], "bike"], ["my bike", QUERY], [STORED[2]])
    assert found[TEXTS[3]][1] == QUERY


@pytest.mark.parametrize("odd", ["text", 5, None, [1, None, "bike"]])
def test_other_things_in_these_fields_are_no_wordings(weighted: Path, odd: object) -> None:
    documents = [replace(DOCUMENTS[0], meta={"question": 7, "wordings": odd}), *DOCUMENTS[1:]]
    own = ["bike"] if isinstance(odd, list) else []
    assert ranked(AnswerRanker(model=weighted, wordings=[]), documents) == expected(weighted, own, [], [STORED[2]])


def test_files_are_followed(weighted: Path, tmp_path: Path) -> None:
    train = tmp_path / "train.csv"
    train.write_text("qid,question,answer_ids\n1,bike,a0 a1\n")
    more = write_pairs(tmp_path / "more.jsonl", ("bike", TEXTS[1]))
    ranker = AnswerRanker(model=weighted, wordings=[str(train), str(more)])
    before = expected(weighted, [STORED[0], "bike"], ["bike"], [STORED[2]])
    assert ranked(ranker) == before
    write_pairs(more, (QUERY, TEXTS[3]))
    started = time.monotonic()
    after = ranked(ranker)
    assert time.monotonic() - started < 1
    assert after == expected(weighted, [STORED[0], "bike"], ["bike", QUERY], [STORED[2]])
    assert (next(iter(after)), after[TEXTS[3]][1]) == (TEXTS[3], QUERY)
    write_pairs(more, ("bike", TEXTS[3]))
    assert ranked(ranker) == before


def test_a_file_may_be_added_before_and_after_loading(weighted: Path, tmp_path: Path) -> None:
    first = write_pairs(tmp_path / "a.jsonl", ("bike", TEXTS[1]))
    second = write_pairs(tmp_path / "b.jsonl", (QUERY, TEXTS[3]))
    ranker = AnswerRanker(model=weighted)
    ranker.add_wordings(first)
    assert ranked(ranker) == expected(weighted, [STORED[0], "bike"], [], [STORED[2]])
    ranker.add_wordings(second)
    assert ranked(ranker) == expected(weighted, [STORED[0], "bike"], [QUERY], [STORED[2]])
    assert ranked(copy.deepcopy(ranker)) == ranked(ranker)
    assert ranker.wordings == [str(first), str(second)]


def test_a_missing_file_is_named_when_the_checkpoint_is_loaded(weighted: Path) -> None:
    with refused("none.csv"):
        AnswerRanker(model=weighted, wordings="none.csv").warm_up()


def test_a_pipeline_in_yaml_keeps_the_files(weighted: Path, tmp_path: Path) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", AnswerRanker(model=weighted, wordings=tmp_path / "train.csv"))
    loaded = Pipeline.loads(pipeline.dumps()).get_component("ranker")
    assert loaded.wordings == [str(tmp_path / "train.csv")]


def test_faq_search_reads_the_columns_of_a_faq_and_files(weighted: Path, tmp_path: Path) -> None:
    faq = tmp_path / "FAQ.csv"
    faq.write_text(f'question,answer,wordings\n{TEXTS[0]},{TEXTS[1]},"my bike\nbike"\n{TEXTS[4]},"{TEXTS[5]}",\n')
    entry = read_faq(faq)[0]
    assert to_document(entry, Match.both).meta["wordings"] == ["my bike", "bike"]
    more = write_pairs(tmp_path / "more.jsonl", (QUERY, TEXTS[5]))
    search = FAQSearch(model=weighted, documents=faq, wordings=more)
    found = search.run(query=QUERY)["documents"]
    assert {document.meta["answer"]: document.meta.get("ap_ranker", {}).get("matched_wording") for document in found}[
        TEXTS[5]
    ] == QUERY
    assert search.to_dict()["init_parameters"]["wordings"] == [str(more)]


def test_a_wording_in_the_meta_and_in_a_file_counts_once(weighted: Path, tmp_path: Path) -> None:
    """As in an evaluation: counted twice, it would raise the soft maximum of its entry."""
    documents = [replace(DOCUMENTS[0], meta={**DOCUMENTS[0].meta, "wordings": ["my bike"]}), *DOCUMENTS[1:]]
    same = write_pairs(tmp_path / "same.jsonl", ("my bike", TEXTS[1]), (STORED[0], TEXTS[1]))
    alone = ranked(AnswerRanker(model=weighted, wordings=[]), documents)
    assert alone == expected(weighted, [STORED[0], "my bike"], [], [STORED[2]])
    assert ranked(AnswerRanker(model=weighted, wordings=same), documents) == alone


def retriever_of(kind: str, checkpoint: Path) -> BM25SRetriever | HybridRetriever | ElasticsearchFAQRetriever:
    if kind == "words":
        return BM25SRetriever(BM25SDocumentStore(), wordings=[])
    if kind == "hybrid":
        return HybridRetriever(BM25SDocumentStore(), model=checkpoint)
    pytest.importorskip("elasticsearch", reason="the extra is not installed")
    return ElasticsearchFAQRetriever(ElasticsearchFAQStore(hosts="http://127.0.0.1:9", index="i"), model=checkpoint)


@pytest.mark.parametrize("kind", ["ranker", "words", "hybrid", "Elasticsearch"])
def test_an_added_file_is_a_parameter_like_the_others(weighted: Path, tmp_path: Path, kind: str) -> None:
    component = AnswerRanker(model=weighted, wordings=[]) if kind == "ranker" else retriever_of(kind, weighted)
    more = write_pairs(tmp_path / "more.jsonl", (QUERY, TEXTS[3]))
    with refused("none.csv"):
        component.add_wordings(tmp_path / "none.csv")
    for _ in range(2):
        component.add_wordings(more)
    assert component.wordings == [str(more)]
    assert component.to_dict()["init_parameters"]["wordings"] == [str(more)]
    assert copy.deepcopy(component).file_wordings.of("", TEXTS[3]) == (QUERY,)


def test_a_retriever_by_bm25_alone_stays_so_in_a_search_with_wordings(weighted: Path, tmp_path: Path) -> None:
    retriever = BM25SRetriever(BM25SDocumentStore())
    ranker = AnswerRanker(model=weighted, wordings=[])
    pipeline = assembled({"retriever": retriever, "ranker": ranker}, "retriever > ranker")
    search = DeclaredPipeline(
        tmp_path / "a.yaml", pipeline, query=["retriever.query"], last="ranker", takes_threshold=True
    )
    more = write_pairs(tmp_path / "more.jsonl", (QUERY, TEXTS[3]))
    search.add_wordings([more])
    assert ranker.wordings == [str(more)]
    assert retriever.wordings is None
