from __future__ import annotations

import pytest
import torch
from conftest import make_model
from naive.metzler_bendersky import metzler_bendersky

from ap_ranker.models.base import AnswerModel
from ap_ranker.models.registry import build_model
from ap_ranker.models.spec import Inputs
from ap_ranker.ranking.bm25 import BM25
from ap_ranker.text.tokenizer import TokenBatch, WordTokenizer

ANSWERS = [
    "Open the tracking link, then the map: it shows where your parcel is.",
    "Refunds arrive within five days. Five!",
    "Only the original battery fits (see the frame).",
    "?!",
]
QUESTIONS = ["Where, where is my parcel?", "When do the refunds arrive within the days?", "Which battery fits?", "..."]


def score(name: str, questions: list[str] = QUESTIONS, answers: list[str] = ANSWERS) -> torch.Tensor:
    tokenizer = WordTokenizer.build(ANSWERS, max_tokens=50)
    torch.manual_seed(0)
    model = build_model(name, Inputs(tokenizer.words, 8, 50), {}).double().eval()
    assert model.statistics is not None
    model.statistics.count(tokenizer.encode(ANSWERS)[0])
    with torch.no_grad():
        return model(*(TokenBatch.from_lists(tokenizer.encode(texts)[0]) for texts in (questions, answers)))


def test_bm25_is_the_baseline_of_every_table() -> None:
    """bm25s gives the same scores of known words, though it sees no punctuation marks."""
    index = BM25(ANSWERS)
    assert torch.allclose(
        score("bm25"), torch.stack([torch.tensor(index.scores(q), dtype=torch.double) for q in QUESTIONS]), atol=1e-5
    )


@pytest.mark.parametrize("name", ["bm25", "bow-idf", "metzler-bendersky"])
def test_punctuation_marks_are_no_words(name: str) -> None:
    scores = score(name, ["the parcel"], ["the parcel", "the parcel?", "? , the parcel !"])
    assert torch.allclose(scores[0, 1:], scores[0, 0].expand(2), rtol=0, atol=1e-12)
    questions = score(name, ["battery", "battery?", "? battery"])
    assert torch.allclose(questions[0], questions[1], rtol=0, atol=1e-12)
    assert torch.allclose(questions[0], questions[2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["bm25", "bow-idf", "metzler-bendersky"])
def test_texts_without_a_known_word_have_a_score(name: str) -> None:
    assert torch.isfinite(score(name, ["?", "xyzzy"], ["!", "xyzzy"])).all()


def test_bm25_without_counts_or_length_norm_is_finite() -> None:
    model = build_model("bm25", Inputs(["[PAD]", "[UNK]", "a", "."], 8, 5), {"k1": 0.0, "b": 1.0})
    assert torch.isfinite(model(TokenBatch.from_lists([[2], [3]]), TokenBatch.from_lists([[2], [3]]))).all()


def test_every_weight_of_metzler_bendersky() -> None:
    """The starting weights leave half of the features out."""
    words = ["[PAD]", "[UNK]", *"abcdefghijk"]
    model: AnswerModel = make_model("metzler-bendersky", words, {"mu": 20.0, "window": 4}).double()
    model.weights.data = torch.tensor([0.7, -0.2, 0.3, 0.15, -0.1, 0.25], dtype=torch.double)
    q, a = [3, 4, 4, 2, 1, 5], [4, 4, 3, 9, 2, 4, 12, 1, 2, 3]
    found = model(TokenBatch.from_lists([q]), TokenBatch.from_lists([a]))
    assert found.item() == pytest.approx(metzler_bendersky(model, q, a), abs=1e-9)
