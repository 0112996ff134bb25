"""Two processes that share a batch end with the weights of one process that has it to itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from conftest import ROOT
from forked import ANEW, Forked
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


CASES = {
    "in-batch": ("ap-cnn", "softmax", PAIRS),
    "listwise": ("abcnn-3", "listwise", PAIRS),
    "graded": ("scnn", "pointwise", GRADED),
}

TRAIN = """
import json, os, sys
from pathlib import Path
from command_line import run

output, *folders = sys.argv[1:]
for folder in map(Path, folders):
    arguments = ("train", "data.csv", "--dev", "data.csv", "--config", "settings.yaml", "--device", "cpu")
    ended = run(*arguments, "--output", output, folder=folder)
    said = {"code": ended.code, "output": ended.output, "errors": ended.errors}
    (folder / f"{output}-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(said))
"""
"""All cases one after another, as most of the time goes into starting the processes."""


def launch(place: Path, *folders: Path) -> None:
    """With what torchrun tells its processes: processes that fork have imported everything."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        told = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    with ExitStack() as ending, patch.dict(os.environ, told):
        processes = []
        for rank in "01":
            os.environ |= {"RANK": rank, "LOCAL_RANK": rank}
            processes.append(ending.enter_context(Forked(ANEW + TRAIN, "by-2", *folders)))
        assert [process.wait(500) for process in processes] == [0, 0]


def torchrun(place: Path, *folders: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    arguments = [place / "train.py", "by-2", *folders]
    subprocess.run([*command, *arguments], cwd=place, timeout=500, check=True, env={**os.environ, "PYTHONPATH": path})


LAUNCHERS = {"launched": launch, "torchrun": torchrun}


@pytest.fixture(scope="module", params=["launched", pytest.param("torchrun", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each case, with what one process has learnt and what two have."""
    place = tmp_path_factory.mktemp("distributed")
    for case, (name, objective, data) in CASES.items():
        (place / case).mkdir()
        (place / case / "data.csv").write_text(data)
        settings = {
            "model": name,
            "options": {**SMALL[name], "dropout": 0.0},
            "objective": objective,
            "batch_size": 7,
            "embedding_size": 8,
            "epochs": 2,
            "negatives": 2,
            "optimizer": "sgd",  # Adam would blow up the rounding of gradients that are almost zero
            "learning_rate": 0.3,
        }
        (place / case / "settings.yaml").write_text(json.dumps(settings))
    (place / "train.py").write_text(TRAIN)
    folders = [place / case for case in CASES]
    with Forked(TRAIN, "by-1", *folders) as alone:
        LAUNCHERS[request.param](place, *folders)
        assert alone.wait(500) == 0
    return place


def learnt(folder: Path, processes: int) -> dict[str, torch.Tensor]:
    """The weights, once it is checked that all went well and one process has spoken for all."""
    output = f"by-{processes}"
    said = [json.loads((folder / f"{output}-{rank}.json").read_text()) for rank in range(processes)]
    assert [each["code"] for each in said] == [0] * processes, said
    assert "".join(each["output"] for each in said).count("Wrote ") == 1
    assert not list(folder.glob("*.training"))
    return load_file(folder / output / "model.safetensors")


@pytest.mark.parametrize("case", CASES)
def test_two_processes_learn_what_one_does(case: str, folder: Path) -> None:
    """Batches of 7 do not split evenly; the short last one has fewer questions still."""
    one, two = learnt(folder / case, 1), learnt(folder / case, 2)
    assert one.keys() == two.keys()
    for key in one:
        assert torch.allclose(one[key], two[key], rtol=0, atol=1e-5), key
