"""Numbers that are none: refused with one error each, never ranked by."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from conftest import TEXTS, write_checkpoint
from refusals import refused
from safetensors.torch import load_file, save_file

from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_refused(name: str, number: float, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / "c")
    weights = load_file(folder / "model.safetensors")
    spoilt = sorted(weights)[-1]
    weights[spoilt].view(-1)[-1] = number
    save_file(weights, folder / "model.safetensors")
    with refused(f"{folder / 'model.safetensors'} … {spoilt} … 1") as caught:
        Ranker.from_pretrained(folder, "cpu")
    assert str(folder / "model.safetensors") in str(caught.value)
    assert spoilt in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_scores_that_are_no_numbers_are_never_ranked(checkpoint: Path, number: float, cached: bool) -> None:
    ranker = Ranker.from_pretrained(checkpoint, "cpu", cache=EncodingCache(10**6) if cached else None)
    match, match_stored = ranker.model.match, ranker.model.match_stored

    def spoilt(*states: Any) -> torch.Tensor:
        scores = match(*states).clone()
        scores[0, 1] = number
        return scores

    def spoilt_stored(*states: Any) -> torch.Tensor:
        scores = match_stored(*states).clone()
        scores[scores == scores.max()] = number
        return scores

    with patch.object(ranker.model, "match", spoilt), patch.object(ranker.model, "match_stored", spoilt_stored):
        for ask in (ranker.score, ranker.rank):
            with refused("1 … 6"):
                ask(TEXTS[0], TEXTS)


@pytest.mark.parametrize("batch_size", [0, -1, -64, 2.5, math.nan, "8", None, True])
def test_a_batch_holds_a_positive_number_of_texts(checkpoint: Path, batch_size: Any) -> None:
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    for ask in (lambda: ranker.score("q", TEXTS, batch_size), lambda: ranker.answer_states(TEXTS, batch_size)):
        with refused("batch_size … 1"):
            ask()
    with refused("batch_size"):
        ranker.score("q", [], batch_size)


def test_a_score_that_was_never_made_is_no_number(checkpoint: Path) -> None:
    """Whatever a source of states may leave out: never whatever the memory held before."""
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    with patch.object(ranker, "_kept_states", lambda answers, batch_size, *, rounded: iter(())), refused("6 … 6"):
        ranker.score(TEXTS[0], TEXTS)
