"""A checkpoint of random numbers for the example FAQ, with the calibrations of a trained one."""

from __future__ import annotations

from pathlib import Path

import torch
from conftest import ROOT
from naive.ap_transformer import TINY

from ap_ranker.data.faq import Match, read_faq
from ap_ranker.models.registry import build_model, complete_options
from ap_ranker.models.spec import Inputs
from ap_ranker.ranking.checkpoint import CheckpointConfig, save_checkpoint
from ap_ranker.ranking.rule import Calibration
from ap_ranker.text.tokenizer import WordTokenizer

FAQ = ROOT / "examples" / "faq"
ANSWERS = FAQ / "answers.csv"
FITS = {
    "model": Calibration(6.2, 17.9, -3.8, {"0.9": 0.67}),
    "fused": Calibration(5.5, 15.1, -3.9, {"0.9": 0.64}),
}
"""Those of a trained checkpoint, so that scores differ in their probabilities as they do there."""


def write_small(folder: Path) -> Path:
    """An encoder of random numbers for the words of the FAQ."""
    tokenizer = WordTokenizer.build([entry.text(Match.both) for entry in read_faq(ANSWERS)], max_tokens=60)
    encoder = {**TINY, "vocab_size": len(tokenizer.words), "max_position_embeddings": 62}
    options = complete_options("ap-transformer", {"size": 0})
    torch.manual_seed(0)
    model = build_model("ap-transformer", Inputs(tokenizer.words, 8, 60, encoder), options).eval()
    assert model.statistics is not None
    model.statistics.count(tokenizer.encode([entry.answer for entry in read_faq(ANSWERS)])[0])
    save_checkpoint(
        folder, CheckpointConfig("ap-transformer", options, 8, 60, {}, encoder=encoder), model, tokenizer, "# card\n"
    )
    return folder
