"""What stands behind the ranker: rankers by a field or for a prompt, windows and parents of passages, evaluators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from both_pipelines import assembled, ids, run_both
from haystack import Document
from haystack.components.converters import TextFileToDocument
from haystack.components.evaluators import DocumentMRREvaluator, DocumentRecallEvaluator
from haystack.components.preprocessors import DocumentSplitter, HierarchicalDocumentSplitter
from haystack.components.rankers import LostInTheMiddleRanker, MetaFieldRanker
from haystack.components.retrievers import AutoMergingRetriever, SentenceWindowRetriever
from haystack.components.writers import DocumentWriter
from haystack.document_stores.types import DuplicatePolicy

from haystack_integrations.components.embedders.ap_ranker import APDocumentEmbedder
from haystack_integrations.components.rankers.ap_ranker import APRanker
from haystack_integrations.components.retrievers.ap_ranker import AnswerSearch, BM25SRetriever, HybridRetriever
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore
from pipelines.conftest import BY_MEANING, CPU, ENTRIES

MakeRanker = Callable[..., APRanker]
QUERY = "the parcel, the bike and the shop"


def asked(query: str, *names: str) -> dict[str, dict[str, str]]:
    return {name: {"query": query} for name in names}


def test_a_ranker_by_a_field_behind_ours(store: BM25SDocumentStore, ranker: MakeRanker) -> None:
    """Of the three that answer best, the newest comes first."""
    pipeline = assembled(
        {
            "retriever": BM25SRetriever(store),
            "ranker": ranker(top_k=3),
            "newest": MetaFieldRanker("day", weight=1.0, meta_value_type="date"),
        },
        "retriever > ranker",
        "ranker > newest",
    )
    found = run_both(pipeline, asked(QUERY, "retriever", "ranker"), include_outputs_from={"ranker"})
    best = ids(found["ranker"]["documents"])
    assert len(best) == 3
    assert ids(found["newest"]["documents"]) == sorted(best, key=lambda name: ENTRIES[name][3], reverse=True)


def test_scores_are_mixed_with_a_field(
    documents: list[Document], ranker: MakeRanker, caplog: pytest.LogCaptureFixture
) -> None:
    """`linear_score` takes numbers from 0 to 1, which ours are: of others, Haystack warns."""
    given = [Document(id=one.id, content=one.content, meta={"clicks": n}) for n, one in enumerate(documents)]
    by_clicks = MetaFieldRanker("clicks", weight=0.5, ranking_mode="linear_score")
    pipeline = assembled({"ranker": ranker(), "mixed": by_clicks}, "ranker > mixed")
    inputs = {"ranker": {"query": "brakes", "documents": given}}
    found = run_both(pipeline, inputs, include_outputs_from={"ranker"})
    scores = {one.id: one.score for one in found["ranker"]["documents"]}
    assert len(scores) == len(given)
    most = sorted(scores, key=lambda name: list(ENTRIES).index(name), reverse=True)
    expected = {name: 0.5 * score + 0.5 * (len(most) - most.index(name)) / len(most) for name, score in scores.items()}
    assert ids(found["mixed"]["documents"]) == sorted(expected, key=lambda name: expected[name], reverse=True)
    assert not caplog.records


def test_the_best_stand_at_both_ends_of_a_prompt(store: BM25SDocumentStore, ranker: MakeRanker) -> None:
    pipeline = assembled(
        {"retriever": BM25SRetriever(store), "ranker": ranker(top_k=5), "ends": LostInTheMiddleRanker()},
        "retriever > ranker",
        "ranker > ends",
    )
    found = run_both(pipeline, asked(QUERY, "retriever", "ranker"), include_outputs_from={"ranker"})
    first, second, third, fourth, fifth = ids(found["ranker"]["documents"])
    assert ids(found["ends"]["documents"]) == [first, third, fifth, fourth, second]


STORY = [
    "We opened the shop in spring.",
    "At first we sold helmets and locks.",
    "One night thieves broke the window and took nine bicycles.",
    "The police found seven of them in a barn.",
    "Since then a dog sleeps behind the door.",
    "Customers bring it sausages.",
]


def test_files_become_passages_with_their_neighbours(tmp_path: Path, minilm: Path, ranker: MakeRanker) -> None:
    """One pipeline indexes, another one searches; the folder of the store is all they share."""
    (tmp_path / "story.txt").write_text("\n\n".join(STORY), encoding="utf-8")
    store = BM25SDocumentStore(tmp_path / "index", language="english")
    indexing = assembled(
        {
            "converter": TextFileToDocument(),
            "splitter": DocumentSplitter(split_by="passage", split_length=1),
            "embedder": APDocumentEmbedder(model=minilm, device=CPU),
            "writer": DocumentWriter(store, policy=DuplicatePolicy.OVERWRITE),
        },
        "converter > splitter",
        "splitter > embedder",
        "embedder > writer",
    )
    inputs = {"converter": {"sources": [str(tmp_path / "story.txt")]}}
    assert run_both(indexing, inputs) == {"writer": {"documents_written": len(STORY)}}
    assert store.count_documents() == len(STORY), "the second run has written the same ones"
    searching = assembled(
        {
            "retriever": HybridRetriever(BM25SDocumentStore(store.path, language="english"), model=minilm, device=CPU),
            "ranker": ranker(top_k=1),
            "window": SentenceWindowRetriever(store, window_size=1),
        },
        "retriever > ranker",
        "ranker > window",
    )
    [window] = run_both(searching, asked("What was stolen from you?", "retriever", "ranker"))["window"][
        "context_windows"
    ]
    assert window.split() == " ".join(STORY[1:4]).split()


TEXTS = {
    "theft": "Bike thieves came tonight. Police hunt bike thieves. Report stolen bikes here.",
    "brakes": "Clean squeaking brake discs. Dirty pads make noise. We replace old pads.",
}


def test_parts_that_belong_together_become_their_whole(minilm: Path, ranker: MakeRanker) -> None:
    """Two of the three parts of a text are found, so the text is returned."""
    whole = [Document(id=name, content=text) for name, text in TEXTS.items()]
    blocks = HierarchicalDocumentSplitter(block_sizes={4}).run(whole)["documents"]
    parts, parents = BM25SDocumentStore(), BM25SDocumentStore()
    parts.write_documents([one for one in blocks if not one.meta["__children_ids"]])
    parents.write_documents([one for one in blocks if one.meta["__children_ids"]])
    assert (parts.count_documents(), parents.count_documents()) == (6, 2)
    pipeline = assembled(
        {
            "retriever": HybridRetriever(parts, model=minilm, device=CPU),
            "ranker": ranker(top_k=2),
            "merged": AutoMergingRetriever(parents, threshold=0.5),
        },
        "retriever > ranker",
        "ranker > merged",
    )
    for name, query in {"theft": "bike thieves and the police", "brakes": "pads and discs of brakes"}.items():
        [found] = run_both(pipeline, asked(query, "retriever", "ranker"))["merged"]["documents"]
        assert found.content == TEXTS[name]


def test_evaluators_know_the_documents_by_their_ids(
    documents: list[Document], minilm: Path, ranker: MakeRanker
) -> None:
    """Also by their text and their meta: what a ranker returns are the documents that were written."""
    store = BM25SDocumentStore(language="english")
    store.write_documents(documents)
    retriever = HybridRetriever(store, model=minilm, device=CPU)
    asking = assembled({"search": AnswerSearch(retriever, ranker(top_k=2))})
    truth = {**BY_MEANING, "Is a Sunday fine for a visit?": "stolen"}  # the last one is wrong
    found = [run_both(asking, asked(query, "search"))["search"]["documents"] for query in truth]
    known = {document.id: document for document in documents}
    inputs = {
        "ground_truth_documents": [[known[name]] for name in truth.values()],
        "retrieved_documents": found,
    }
    fields = {"ids": "id", "texts": "content", "meta": "meta.aid"}
    judging = assembled(
        {
            "recall": DocumentRecallEvaluator(),
            **{name: DocumentMRREvaluator(document_comparison_field=field) for name, field in fields.items()},
        }
    )
    judged = run_both(judging, dict.fromkeys(("recall", *fields), inputs))
    for name in ("recall", *fields):
        assert judged[name]["individual_scores"] == [1.0, 1.0, 1.0, 0.0], name
