"""Every stored question and known wording of the example FAQ, typed as it stands, is answered at any precision."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, make_model
from haystack import Document
from haystack.utils import ComponentDevice

from ap_ranker.data.dataset import question_key
from ap_ranker.data.faq import Match, read_faq
from ap_ranker.data.wordings import read_wordings
from ap_ranker.models.registry import complete_options
from ap_ranker.ranking.bm25 import BM25_SCORE
from ap_ranker.ranking.calibration import Calibration
from ap_ranker.ranking.checkpoint import CheckpointConfig, save_checkpoint
from ap_ranker.text.tokenizer import WordTokenizer
from haystack_integrations.components.rankers.ap_ranker import AnswerRanker
from haystack_integrations.components.retrievers.ap_ranker import FAQSearch
from haystack_integrations.document_stores.ap_ranker.entries import to_document

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
        replace(document, meta={**document.meta, BM25_SCORE: 0.0})
        for document in (to_document(entry, Match.both) for entry in read_faq(FAQ / "answers.csv"))
    ]
    ranker = AnswerRanker(
        model=checkpoint, wordings=FAQ / "train.csv", precision=precision, fuse_scores=True, device=CPU
    )
    entries: dict[str, set[str]] = {}
    texts: dict[str, str] = {}
    for aid, wordings in read_wordings(FAQ / "train.csv").by_id.items():
        for text in wordings:
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
