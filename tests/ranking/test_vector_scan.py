"""Vectors of whole texts, and checkpoints that several components share."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from conftest import TEXTS, write_checkpoint
from refusals import refused

from ap_ranker.ranking.ranker import Ranker

QUESTION, ANSWERS = TEXTS[0], [*TEXTS[1::2], "same", "", "same"]


@pytest.fixture
def bi_encoder(tmp_path: Path) -> Path:
    """A checkpoint whose score is the cosine of two vectors."""
    return write_checkpoint("qa-cnn", tmp_path / "qa-cnn")


def test_the_dot_product_of_the_vectors_of_a_bi_encoder_is_its_score(bi_encoder: Path) -> None:
    ranker = Ranker.from_pretrained(bi_encoder, "cpu")
    question, answers = ranker.embed_questions([QUESTION]), ranker.embed_answers(ANSWERS, batch_size=2)
    torch.testing.assert_close(answers @ question[0], ranker.score(QUESTION, ANSWERS), atol=1e-6, rtol=0)
    torch.testing.assert_close(answers.norm(dim=1), torch.ones(len(ANSWERS)))
    assert ranker.embed_answers([]).shape == (0, answers.shape[1])


def test_the_vectors_of_ap_transformer_are_its_pooled_states(tmp_path: Path) -> None:
    ranker = Ranker.from_pretrained(write_checkpoint("ap-transformer", tmp_path / "a"), "cpu")
    pooled = Ranker(ranker.model.pooled_only(), ranker.tokenizer)  # type: ignore[arg-type]
    scores = ranker.embed_answers(ANSWERS) @ ranker.embed_questions([QUESTION])[0]
    torch.testing.assert_close(scores, pooled.score(QUESTION, ANSWERS), atol=1e-6, rtol=0)


def test_a_model_without_vectors_says_so(checkpoint: Path) -> None:
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    for embed in (ranker.embed_questions, ranker.embed_answers):
        with refused("ap-transformer … ap-cnn"):
            embed(["text"])


def test_rankers_of_one_checkpoint_share_its_model_and_the_questions_states(
    bi_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Ranker.from_pretrained(bi_encoder, "cpu") for _ in range(2))
    assert first.model is second.model
    encode, encoded = first.model.encode_questions, []
    monkeypatch.setattr(first.model, "encode_questions", lambda batch: encoded.append(batch) or encode(batch))
    vectors = first.embed_questions([QUESTION])
    scores = second.score(QUESTION, ANSWERS)
    assert len(encoded) == 1
    assert torch.equal(scores, Ranker(first.model, first.tokenizer).score(QUESTION, ANSWERS))
    assert torch.equal(vectors, first.embed_questions([QUESTION]))


def test_a_checkpoint_that_was_trained_again_is_read_again(bi_encoder: Path) -> None:
    before = Ranker.from_pretrained(bi_encoder, "cpu")
    write_checkpoint("qa-cnn", bi_encoder, {**before.config.options, "filters": 7})  # type: ignore[union-attr]
    after = Ranker.from_pretrained(bi_encoder, "cpu")
    assert after.model is not before.model
    assert after.embed_questions([QUESTION]).shape != before.embed_questions([QUESTION]).shape


def test_threads_that_start_cold_load_one_model(bi_encoder: Path) -> None:
    rankers: list[Ranker] = []
    threads = [
        threading.Thread(target=lambda: rankers.append(Ranker.from_pretrained(bi_encoder, "cpu"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(ranker.model) for ranker in rankers}) == 1
    scores = [ranker.score(QUESTION, ANSWERS) for ranker in rankers]
    assert all(torch.equal(values, scores[0]) for values in scores)
