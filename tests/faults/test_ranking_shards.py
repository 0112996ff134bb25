"""Several processes write one folder of encodings: no text is lost, and none is read twice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, TEXTS, write_checkpoint
from refusals import absent, refused

from ap_ranker.errors import InputError
from ap_ranker.ranking import encode_corpus as module
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.stored_encodings import MANIFEST, Encodings, fingerprint

CORPUS = [f"{a} {b} {c}" for a in ("where", "my", "bike") for b in ("parcel", "money") for c in ("fits", "battery")]


def shards(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def contents(folder: Path) -> list[bytes]:
    return [key for shard in shards(folder) for key in np.load(shard / "keys.npy").view("V16")[:, 0].tolist()]


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """A file that appears when all processes may start."""
    return tmp_path / "go"


SCRIPT = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from ap_ranker.ranking.encode_corpus import encode_corpus
    from ap_ranker.ranking.quantization import StateDtype
    checkpoint, output, go, dtype, *texts = sys.argv[1:]
    print("ready", flush=True)
    while not Path(go).exists():
        time.sleep(0.001)
    encode_corpus(checkpoint, texts, Path(output), dtype=StateDtype(dtype), device="cpu", shard=1)
""")


def run_at_once(commands: list[list[str]], go: Path) -> list[tuple[int, str]]:
    """The exit status and standard error of each."""
    processes = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, *command], cwd=ROOT, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for command in commands
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    go.touch()
    return [(process.wait(300), process.communicate()[1]) for process in processes]


def test_two_corpora_into_one_folder_at_once(checkpoint: Path, tmp_path: Path, go: Path) -> None:
    output = tmp_path / "e"
    halves = CORPUS[:8], CORPUS[4:]  # four texts in both
    results = run_at_once([[str(checkpoint), str(output), str(go), "float16", *half] for half in halves], go)
    assert results == [(0, ""), (0, "")]
    encodings = Encodings.open(output, fingerprint(checkpoint))
    assert all(encodings.lengths(CORPUS))
    assert len(encodings) == len(CORPUS) <= len(contents(output)) <= len(CORPUS) + 4
    assert encode_corpus(checkpoint, CORPUS, output, device="cpu") == 0


def test_two_precisions_into_one_new_folder_at_once(checkpoint: Path, tmp_path: Path, go: Path) -> None:
    output = tmp_path / "e"
    chosen = ("float16", "int8")
    results = run_at_once([[str(checkpoint), str(output), str(go), each, *CORPUS] for each in chosen], go)
    winner = chosen.index(json.loads((output / MANIFEST).read_text())["dtype"])
    assert results[winner] == (0, "")
    status, message = results[1 - winner]
    assert status
    assert not absent(f"{chosen[1 - winner]} … {chosen[winner]}", message)
    assert {np.load(path).dtype for path in output.glob("*/token.states.npy")} <= {
        np.dtype("float16"),
        np.dtype("int8"),
    }
    assert all(Encodings.open(output, fingerprint(checkpoint)).lengths(CORPUS))


def test_the_second_to_begin_a_folder_checks_the_firsts(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many begin it at the same moment: one description stands, and only those that agree with it go on."""
    output = tmp_path / "e"
    barrier = threading.Barrier(12)
    begin = module.begin_encodings

    def together(*given: object) -> None:
        barrier.wait()
        begin(*given)

    monkeypatch.setattr(module, "begin_encodings", together)
    agreed: list[StateDtype] = []
    rejected: list[str] = []

    def work(dtype: StateDtype) -> None:
        try:
            encode_corpus(checkpoint, CORPUS[:2], output, dtype=dtype, device="cpu")
            agreed.append(dtype)
        except InputError as error:
            rejected.append(str(error))

    threads = [threading.Thread(target=work, args=(list(StateDtype)[number % 3],)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert agreed == [StateDtype(json.loads((output / MANIFEST).read_text())["dtype"])] * 4
    assert len(rejected) == 8
    assert not [path for path in output.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_deleted_shard_comes_back(checkpoint: Path, tmp_path: Path, lost: int) -> None:
    output = tmp_path / "e"
    assert encode_corpus(checkpoint, CORPUS, output, device="cpu", shard=4) == 12
    before = {path: (path / "keys.npy").read_bytes() for path in shards(output)}
    shutil.rmtree(list(before)[lost])
    del before[list(before)[lost]]
    assert encode_corpus(checkpoint, CORPUS, output, device="cpu", shard=4) == 4
    assert {path: (path / "keys.npy").read_bytes() for path in shards(output) if path in before} == before
    assert len(contents(output)) == len(set(contents(output))) == len(Encodings.open(output, fingerprint(checkpoint)))
    assert encode_corpus(checkpoint, CORPUS, output, device="cpu", shard=4) == 0


def test_a_text_that_stands_twice_is_read_once(checkpoint: Path, tmp_path: Path) -> None:
    encode_corpus(checkpoint, CORPUS, tmp_path / "a", device="cpu")
    encode_corpus(checkpoint, [*CORPUS[:3], TEXTS[0]], tmp_path / "b", device="cpu")
    shutil.copytree(shards(tmp_path / "b")[0], tmp_path / "a" / "000-other")
    encodings = Encodings.open(tmp_path / "a", fingerprint(checkpoint))
    assert len(encodings) == len(CORPUS) + 1
    assert all(encodings.lengths([*CORPUS, TEXTS[0]]))


def test_a_file_where_the_folder_should_be(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "e").write_text("mine")
    with refused("e … file"):
        encode_corpus(checkpoint, CORPUS, tmp_path / "e", device="cpu")
    assert (tmp_path / "e").read_text() == "mine"


def test_a_full_disk_says_what_stands(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = module.write_shard

    def full(folder: Path, *given: object) -> None:
        if shards(folder):
            raise OSError(28, "No space left on device")
        write(folder, *given)

    monkeypatch.setattr(module, "write_shard", full)
    with refused("No space left on device … 4 … 12"):
        encode_corpus(checkpoint, CORPUS, tmp_path / "e", device="cpu", shard=4)
    monkeypatch.undo()
    assert encode_corpus(checkpoint, CORPUS, tmp_path / "e", device="cpu", shard=4) == 8


def test_other_checkpoints_cannot_share_a_folder(checkpoint: Path, tmp_path: Path) -> None:
    encode_corpus(checkpoint, CORPUS, tmp_path / "e", device="cpu")
    other = write_checkpoint("qa-cnn", tmp_path / "other")
    with refused("checkpoint"):
        encode_corpus(other, CORPUS, tmp_path / "e", device="cpu", dtype=StateDtype.int8)
