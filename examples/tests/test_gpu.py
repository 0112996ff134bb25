"""`make gpu`: which parts run, which run again, and all of them on a CPU with toy data."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from conftest import ROOT, imported
from pretended_cuda import pretended_gpu
from random_encoders import BERT, pooled, word_pieces, write
from refusals import absent
from typer.testing import CliRunner

from ap_ranker.models.registry import model_spec
from ap_ranker.training.config import read_training_config

SCRIPT = ROOT / "examples" / "gpu" / "run.py"


@pytest.fixture(scope="module")
def gpu() -> Iterator[ModuleType]:
    with imported(SCRIPT) as module:
        yield module


def invoke(gpu: ModuleType, *options: str) -> tuple[int, str]:
    import typer

    app = typer.Typer()
    app.command()(gpu.command)
    result = CliRunner().invoke(app, list(options))
    return result.exit_code, result.output


@pytest.fixture
def three_parts(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One that finishes, one that fails until a file exists, and one that takes too long."""
    flag = tmp_path / "flag"
    commands = {
        "good": "print('done')",
        "bad": f"import pathlib, sys; sys.exit(0 if pathlib.Path({str(flag)!r}).exists() else 3)",
        "slow": "import time; time.sleep(60)",
    }
    found = [gpu.Part(name, ["-c", code]) for name, code in commands.items()]
    monkeypatch.setattr(gpu, "parts", lambda *_, **__: {"tests": found[:1], "rows": found[1:], "peers": []})
    monkeypatch.setattr(gpu, "SECONDS", 3.0)
    return flag


def test_a_finished_part_is_not_run_again(gpu: ModuleType, three_parts: Path, tmp_path: Path) -> None:
    place = ("--insuranceqa", str(tmp_path), "--device", "cpu", "--output", str(tmp_path / "out"))
    options = (*place, "--parts", "tests,rows,peers", "--at-once", "1")
    code, output = invoke(gpu, *options)
    assert code == 2
    assert re.findall(r"^(\w+): (finished|exit code \w+)", output, re.MULTILINE) == [
        ("good", "finished"),
        ("bad", "exit code 3"),
        ("slow", "exit code none"),
    ]
    assert "not bad, slow did" in " ".join(output.split())
    assert (tmp_path / "out" / "good.log").read_text() == "done\n"
    three_parts.touch()
    _, output = invoke(gpu, *options)
    assert re.findall(r"^(\w+): (finished before|finished|exit)", output, re.MULTILINE) == [
        ("good", "finished before"),
        ("bad", "finished"),
        ("slow", "exit"),
    ]


def test_without_a_gpu_it_says_so(gpu: ModuleType, tmp_path: Path) -> None:
    code, output = invoke(gpu, "--insuranceqa", str(tmp_path), "--device", "cuda:99", "--output", str(tmp_path / "out"))
    assert code == 2
    assert not absent("'cuda:99'", output)
    assert not (tmp_path / "out").exists()


def test_what_the_time_does_not_allow_is_left_out(gpu: ModuleType, three_parts: Path, tmp_path: Path) -> None:
    place = ("--insuranceqa", str(tmp_path), "--device", "cpu", "--output", str(tmp_path / "out"))
    code, output = invoke(gpu, *place, "--parts", "tests", "--minutes", "0")
    assert (code, "good: no time left" in output) == (2, True)


@pytest.mark.parametrize("option", [("--parts", "test"), ("--rows", "wikiqa/ap-cnnn")])
def test_unknown_names(gpu: ModuleType, tmp_path: Path, option: tuple[str, str]) -> None:
    code, output = invoke(gpu, "--insuranceqa", str(tmp_path), "--device", "cpu", *option)
    assert code == 2
    assert not absent(option[1], output)


def test_the_configurations_of_all_parts_exist(gpu: ModuleType, tmp_path: Path) -> None:
    data = {"insuranceqa": tmp_path, "semeval": None}
    found = gpu.parts(data, tmp_path, tmp_path, device="cpu", seeds=[1, 2], embeddings="vectors")
    assert tuple(found) == gpu.KINDS
    assert found["speed"] == []
    names = [name.replace("/", "-") for name in gpu.ROWS if name.startswith("insuranceqa/")]
    assert [part.name for part in found["rows"]] == [f"{name}-seed{seed}" for seed in (1, 2) for name in names]
    for part in found["rows"]:
        pretrained = model_spec(read_training_config(Path(part.command[1]), {}).model).pretrained
        assert ("--embeddings" in part.command) != pretrained


WORDS = ["parcel", "refund", "bike", "helmet", "invoice", "lease", "brake", "battery", "account", "tyre"]


def write_toy(folder: Path) -> None:
    """Ten answers, as many questions in each file."""
    folder.mkdir()
    answers = [f"{i}\tAll that we know about the {word}." for i, word in enumerate(WORDS)]
    (folder / "answers.tsv").write_text("\n".join(["aid\tanswer", *answers]) + "\n")
    for split, form in (("train", "where is my {}"), ("valid", "what of the {}"), ("test", "tell me of the {} now")):
        rows = [f"{split}{i}\t{form.format(word)}\t{i}" for i, word in enumerate(WORDS)]
        (folder / f"{split}.tsv").write_text("\n".join(["qid\tquestion\tanswer_ids", *rows]) + "\n")


@pytest.fixture
def device(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """`cpu`, or a pretended GPU of this process and of those that it starts; of tests/gpu then one runs."""
    if request.param == "cpu":
        yield "cpu"
        return
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    place = tmp_path / "imported first"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        "from pretended_cuda import pretended_gpu\nkept = pretended_gpu()\nkept.__enter__()\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (place, ROOT / "tests", ROOT))))
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'test_distillation and ap-cnn'")
    with pretended_gpu():
        yield "cuda:0"


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda:0"], indirect=True)
def test_all_parts_with_toy_data(gpu: ModuleType, device: str, tmp_path: Path) -> None:
    """And once more: whatever is finished is not run again, and a row that is there does not change."""
    write_toy(tmp_path / "toy")
    output = tmp_path / "out"
    toy = str(tmp_path / "toy")
    options = ["--insuranceqa", toy, "--faq", toy, "--device", device, "--seeds", "1", "--questions", "2"]
    options += ["--rows", "insuranceqa/ap-transformer-gpu,insuranceqa/ap-bilstm-paper", "--at-once", "2"]
    options += ["--output", str(output), "--results", str(tmp_path), "--answers", "12"]
    encoder = write(tmp_path, BERT | {"max_position_embeddings": 256}, word_pieces(), pooled("mean"))
    options += ["--encoders", str(encoder)]
    code, printed = invoke(gpu, *options)
    logs = "".join(log.read_text() for log in output.glob("*.log"))
    assert code == 0, printed + logs
    assert {file.stem for file in output.glob("*.done")} == {
        *("tests", "speed-encoder", "answers-encoder", "benchmark", "peers"),
        *("insuranceqa-ap-transformer-gpu-seed1", "insuranceqa-ap-bilstm-paper-seed1"),
    }
    assert ("skipped" in (output / "tests.log").read_text()) == (device == "cpu")
    assert json.loads((output / "benchmark.json").read_text())
    assert "cross-encoder" in (output / "peers.md").read_text()
    assert "| ap-transformer, no graphs |" in (output / "speed-encoder.log").read_text()
    assert "| bi-encoder | 12 |" in (output / "answers-encoder.log").read_text()
    rows = (tmp_path / "results.json").read_text()
    assert "ap-transformer-gpu" in rows
    assert "ap-bilstm-paper" in rows
    (output / "insuranceqa-ap-bilstm-paper-seed1.done").unlink()
    code, printed = invoke(gpu, *options)
    assert (code, printed.count("finished before"), printed.count("finished,")) == (0, 6, 1)
    assert (tmp_path / "results.json").read_text() == rows
