"""Every stored question and known wording of the example FAQ, typed as it stands, is answered at any precision."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, make_model
from haystack import Document
from haystack.utils import ComponentDevice

from ap_ranker.data.faq import Entry, Match, read_faq
from ap_ranker.data.wordings import NO_WORDINGS, Wordings, read_wordings
from ap_ranker.models.registry import complete_options
from ap_ranker.ranking.bm25 import BM25_SCORE
from ap_ranker.ranking.checkpoint import CheckpointConfig, save_checkpoint
from ap_ranker.ranking.rule import Calibration
from ap_ranker.text.question_keys import question_key
from ap_ranker.text.tokenizer import WordTokenizer
from haystack_integrations.common.ap_ranker.entries import to_document
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import BM25SRetriever, FAQSearch
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore

FAQ = ROOT / "examples" / "faq"
CPU = ComponentDevice.from_str("cpu")
OPTIONS = {"filters": 8}
FITS = {kind: Calibration(4.0, 4.0, -2.0, {"0.9": 0.999, "0.99": 0.99999}) for kind in ("model", "fused")}
"""Thresholds that an untrained model hardly ever reaches."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained AP-CNN, fused with BM25 and calibrated."""
    folder = tmp_path_factory.mktemp("checkpoints") / "untrained"
    tokenizer = WordTokenizer.build([entry.text(Match.both) for entry in read_faq(FAQ / "answers.csv")], max_tokens=60)
    model = make_model("ap-cnn", tokenizer.words, OPTIONS, max_tokens=60)
    config = CheckpointConfig("ap-cnn", complete_options("ap-cnn", OPTIONS), 8, 60, {})
    config = replace(config, bm25_weight=0.01, bm25_language="english", calibration=FITS)
    save_checkpoint(folder, config, model, tokenizer, "# card\n")
    return folder


def loud(text: str) -> str:
    return f"  {text.upper().replace(' ', '   ')} "


@pytest.mark.parametrize("precision", [0.9, 0.99])
def test_stored_questions_in_a_search(checkpoint: Path, precision: float) -> None:
    search = FAQSearch(model=checkpoint, documents=FAQ / "answers.csv", candidates=168, precision=precision, device=CPU)
    refused = 0
    for entry in read_faq(FAQ / "answers.csv"):
        for asked in (entry.question, loud(entry.question)):
            [best, *_] = search.run(query=asked)["documents"]
            assert best.meta["question"] == entry.question
            assert best.score is not None
            assert 0 <= best.score <= 1
        refused += not search.run(query=f"{entry.question} And how?")["documents"]
    assert refused > 100, "the thresholds are strict, so that the answers above are those of known wordings"


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0.9, 0.99])
def test_known_wordings_in_a_ranker(checkpoint: Path, precision: float) -> None:
    """Of all 168 entries: what a retriever fetches is not the ranker's concern."""
    documents = [
        replace(document, meta={**document.meta, "ap_ranker": {BM25_SCORE: 0.0}})
        for document in (to_document(entry, Match.both) for entry in read_faq(FAQ / "answers.csv"))
    ]
    ranker = AnswerRanker(
        model=checkpoint, wordings=FAQ / "train.csv", precision=precision, fuse_scores=True, device=CPU
    )
    entries: dict[str, set[str]] = {}
    texts: dict[str, str] = {}
    for (_, aid), text in read_wordings(FAQ / "train.csv").pairs():
        entries.setdefault(question_key(text), set()).add(aid)
        texts[question_key(text)] = text
    with (FAQ / "answers.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            entries.setdefault(question_key(row["question"]), set()).add(row["aid"])
    assert len(texts) > 1600
    for number, (key, text) in enumerate(texts.items()):
        found = ranker.run(query=loud(text) if number % 2 else text, documents=documents)["documents"]
        first = found[: len(entries[key])]
        assert {document.meta["aid"] for document in first} == entries[key]


@pytest.mark.parametrize("question", ["refund", "Where is my parcel?", "How do I pay by card, please?"])
def test_repetition_gains_nothing(checkpoint: Path, question: str) -> None:
    search = FAQSearch(model=checkpoint, documents=FAQ / "answers.csv", top_k=168, device=CPU)

    def scores(query: str) -> dict[str, float | None]:
        return {document.id: document.score for document in search.run(query=query)["documents"]}

    once = scores(question)
    for repeated in (f"{question} {question}", (f"{question} " * 200)[:1000]):
        assert scores(repeated) == pytest.approx(once)


def test_a_document_of_another_program_is_ranked_as_ever(checkpoint: Path) -> None:
    documents = [Document(content="Open the tracking link."), Document(content="By card.", meta={"question": ["x"]})]
    ranked = AnswerRanker(model=checkpoint, device=CPU).run(query="x", documents=documents)["documents"]
    assert len(ranked) == 2


def asked_of(entries: Iterable[Entry], wordings: Wordings = NO_WORDINGS) -> dict[str, tuple[str, set[str]]]:
    """`question_key` -> a question that is known word for word, and the ids or answers of its entries."""
    asked: dict[str, tuple[str, set[str]]] = {}
    for entry in entries:
        name = entry.other.get("aid", entry.answer)
        for text in (entry.question, *wordings.of(name)):
            asked.setdefault(question_key(text), (text, set()))[1].add(name)
    return asked


def first_for_each(
    search: Callable[[str], Sequence[Document]], asked: Mapping[str, tuple[str, set[str]]]
) -> Iterator[str]:
    """The questions that do not get their entry first."""
    for text, names in asked.values():
        found = search(text)
        if not found or found[0].meta.get("aid", found[0].meta["answer"]) not in names:
            yield text


def test_a_search_by_words_fetches_what_is_known_word_for_word(checkpoint: Path) -> None:
    """BM25's 10 best lack many entries; with `wordings`, none is missing."""
    entries = read_faq(FAQ / "answers.csv")
    asked = asked_of(entries, read_wordings(FAQ / "train.csv"))
    assert len(asked) > 1800
    store = BM25SDocumentStore(language="english")
    store.write_documents([to_document(entry, Match.both) for entry in entries])
    alone, both = BM25SRetriever(store, top_k=10), BM25SRetriever(store, top_k=10, wordings=str(FAQ / "train.csv"))

    def missing(retriever: BM25SRetriever) -> int:
        found = ({each.meta["aid"] for each in retriever.run(text)["documents"]} for text, _ in asked.values())
        return sum(not names <= ids for (_, names), ids in zip(asked.values(), found, strict=True))

    assert missing(alone) > 300
    assert missing(both) == 0
    copied = BM25SRetriever.from_dict(both.to_dict())
    assert copied.wordings == [str(FAQ / "train.csv")]


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0.9, 0.99])
def test_every_known_question_of_a_messy_faq(checkpoint: Path, benchmarks: Path, precision: float) -> None:
    """1,472 entries, some with the same question."""
    file = benchmarks / "faq_public" / "covid-faq-en.csv.gz"
    asked = asked_of(read_faq(file))
    assert len(asked) > 1300
    search = FAQSearch(model=checkpoint, documents=file, precision=precision, device=CPU)
    assert list(first_for_each(lambda text: search.run(query=text)["documents"], asked)) == []


@pytest.mark.slow
def test_every_known_question_of_the_example(checkpoint: Path) -> None:
    asked = asked_of(read_faq(FAQ / "answers.csv"), read_wordings(FAQ / "train.csv"))
    search = FAQSearch(
        model=checkpoint, documents=FAQ / "answers.csv", wordings=FAQ / "train.csv", precision=0.99, device=CPU
    )
    assert list(first_for_each(lambda text: search.run(query=text)["documents"], asked)) == []
