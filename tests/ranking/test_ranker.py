from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
import torch
from conftest import TEXTS
from refusals import refused

from ap_ranker.ranking.ranker import LazyRanker, Ranker, resolve_device


@pytest.fixture
def ranker(checkpoint: Path) -> Ranker:
    return Ranker.from_pretrained(checkpoint, "cpu")


def test_the_checkpoints_config_is_kept(ranker: Ranker) -> None:
    assert ranker.config is not None
    assert (ranker.config.model, ranker.config.max_tokens) == ("ap-cnn", 20)
    assert Ranker(ranker.model, ranker.tokenizer).config is None


def test_ranking_is_by_score(ranker: Ranker) -> None:
    scores = ranker.score("Where is my parcel?", TEXTS).tolist()
    ranked = ranker.rank("Where is my parcel?", TEXTS)
    assert [r.score for r in ranked] == sorted(scores, reverse=True)
    assert all(r.text == TEXTS[r.index] and r.score == scores[r.index] for r in ranked)
    assert ranker.rank("Where is my parcel?", TEXTS, top_k=2) == ranked[:2]
    assert type(ranked[0].score) is float


def test_equal_scores_keep_their_order(ranker: Ranker) -> None:
    ranked = ranker.rank("Where?", ["same text", "bike", "same text", "same text"])
    assert [r.index for r in ranked if r.text == "same text"] == [0, 2, 3]


def test_batches_do_not_change_scores(ranker: Ranker) -> None:
    whole = ranker.score("Where is my parcel?", TEXTS * 3)
    assert torch.allclose(ranker.score("Where is my parcel?", TEXTS * 3, batch_size=4), whole, atol=1e-6)


def test_odd_texts(ranker: Ranker) -> None:
    assert ranker.rank("Where?", []) == []
    assert len(ranker.rank("", ["", " ", "bike", "?", "\x00", "🚲 保险"])) == 6


@pytest.mark.parametrize("top_k", [0, -3])
def test_top_k_must_be_positive(ranker: Ranker, top_k: int) -> None:
    with refused(f"top_k … 1 … {top_k}", by=ValueError):
        ranker.rank("q", ["a"], top_k=top_k)


def test_cut_texts_are_reported_once(ranker: Ranker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ranker.score("Where?", ["bike " * 30, "short"])
        ranker.score("Where?", ["bike " * 30])
    assert [r.message for r in caplog.records] == [
        "1 of 2 texts are longer than 20 tokens and were cut there: put what matters first, or split them."
    ]


def test_devices() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device(None) == resolve_device("auto")
    with refused("cpu … cuda:0 … gpu"):
        resolve_device("gpu")


def test_threads_that_come_at_once_load_a_ranker_once(ranker: Ranker) -> None:
    """The second waits until it is loaded and prepared: each has hundreds of megabytes."""
    is_loading = threading.Event()
    other_has_come = threading.Event()
    steps: list[str] = []

    def load() -> Ranker:
        steps.append("loaded")
        is_loading.set()
        assert other_has_come.wait(60)
        return ranker

    lazy = LazyRanker(load)
    lazy.on_load = lambda _: steps.append("prepared")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lazy)
        assert is_loading.wait(60)
        second = threads.submit(lazy)
        wait([second], timeout=0.2)  # as long as whoever does not wait needs
        other_has_come.set()
        assert first.result(60) is second.result(60) is ranker
    assert steps == ["loaded", "prepared"]
