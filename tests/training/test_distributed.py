"""Two processes that share a batch end with the weights of one process that has it to itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from naive import SMALL
from safetensors.torch import load_file

TOPICS = ("parcel", "refund", "battery", "helmet", "invoice")
PAIRS = "question,answer\n" + "".join(
    f"{pattern.format(topic)},All about your {topic}.\n"
    for topic in TOPICS
    for pattern in ("where is my {}", "the {} is gone for good", "help", "a {}")
)
GRADED = "question,answer,label\n" + "".join(
    f"the {topic},{kind} {topic},{kind}\n" for topic in TOPICS for kind in ("Good", "PotentiallyUseful", "Bad")
)


def train(folder: Path, processes: int, *arguments: str) -> dict[str, torch.Tensor]:
    launcher = (
        [] if processes == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    )
    output = folder / f"by-{processes}"
    result = subprocess.run(
        [
            *(sys.executable, *launcher, "-m", "ap_ranker.cli.main", "train", "data.csv", "--dev", "data.csv"),
            *("--config", "settings.yaml", "--device", "cpu", "--output", output.name, *arguments),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Wrote ") == 1  # one process speaks
    assert not list(folder.glob("*.training"))
    hard = json.loads((folder / "settings.yaml").read_text())["negatives_from"] == "model"
    assert [result.stderr.count(f"Hard negatives by {source}") for source in ("BM25", "the model")] == [hard, hard]
    return load_file(output / "model.safetensors")


@pytest.mark.parametrize(
    ("name", "objective", "data", "negatives_from"),
    [
        ("ap-cnn", "softmax", PAIRS, "random"),
        ("ap-cnn", "softmax", PAIRS, "model"),
        ("abcnn-3", "listwise", PAIRS, "random"),
        ("scnn", "pointwise", GRADED, "random"),
    ],
)
def test_two_processes_learn_what_one_does(
    name: str, objective: str, data: str, negatives_from: str, tmp_path: Path
) -> None:
    """Batches of 7 do not split evenly; the short last one has fewer questions still."""
    (tmp_path / "data.csv").write_text(data)
    settings = {
        "model": name,
        "options": {**SMALL[name], "dropout": 0.0},
        "objective": objective,
        "batch_size": 7,
        "embedding_size": 8,
        "epochs": 2,
        "negatives": 2,
        "negatives_from": negatives_from,
        "optimizer": "sgd",  # Adam would blow up the rounding of gradients that are almost zero
        "learning_rate": 0.3,
    }
    (tmp_path / "settings.yaml").write_text(json.dumps(settings))
    one, two = train(tmp_path, 1), train(tmp_path, 2)
    assert one.keys() == two.keys()
    for key in one:
        assert torch.allclose(one[key], two[key], rtol=0, atol=1e-5), key
