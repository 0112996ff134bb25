"""Several processes write one folder of encodings: no text is lost, and none is read twice."""

from __future__ import annotations

import os
import textwrap
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import write_checkpoint
from forked import Forked
from refusals import absent, refused

from ap_ranker.errors import InputError
from ap_ranker.ranking import encode_corpus as module
from ap_ranker.ranking.encode_corpus import encode_corpus
from ap_ranker.ranking.fingerprint import fingerprint
from ap_ranker.ranking.quantization import StateDtype
from ap_ranker.ranking.stored_encodings import DATABASE, Encodings, Manifest

CORPUS = [f"{a} {b} {c}" for a in ("where", "my", "bike") for b in ("parcel", "money") for c in ("fits", "battery")]


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """A file that appears when all processes may start."""
    return tmp_path / "go"


SCRIPT = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from ap_ranker.ranking import encode_corpus as module
    from ap_ranker.ranking.quantization import StateDtype
    checkpoint, output, go, dtype, *texts = sys.argv[1:]
    print("ready", flush=True)
    while not Path(go).exists():
        time.sleep(0.001)
    module.AT_ONCE = 1
    module.encode_corpus(checkpoint, texts, Path(output), dtype=StateDtype(dtype), device="cpu")
""")


def run_at_once(commands: list[list[str]], go: Path) -> list[tuple[int, str]]:
    """The exit status and standard error of each."""
    with ExitStack() as ending:
        processes = [ending.enter_context(Forked(SCRIPT, *command)) for command in commands]
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * len(commands)
        go.touch()
        return [(process.wait(300), process.communicate()[1]) for process in processes]


def test_two_corpora_into_one_folder_at_once(checkpoint: Path, tmp_path: Path, go: Path) -> None:
    output = tmp_path / "e"
    halves = CORPUS[:8], CORPUS[4:]  # four texts in both
    results = run_at_once([[str(checkpoint), str(output), str(go), "float16", *half] for half in halves], go)
    assert results == [(0, ""), (0, "")]
    encodings = Encodings.open(output, fingerprint(checkpoint))
    assert all(encodings.lengths(CORPUS))
    assert len(encodings) == len(CORPUS)
    assert encode_corpus(checkpoint, CORPUS, output, device="cpu") == 0


def test_two_precisions_into_one_new_folder_at_once(checkpoint: Path, tmp_path: Path, go: Path) -> None:
    output = tmp_path / "e"
    chosen = ("float16", "int8")
    results = run_at_once([[str(checkpoint), str(output), str(go), each, *CORPUS] for each in chosen], go)
    encodings = Encodings.open(output, fingerprint(checkpoint))
    winner = chosen.index(encodings.manifest.dtype)
    assert results[winner] == (0, "")
    status, message = results[1 - winner]
    assert status
    assert not absent(f"{chosen[1 - winner]} … {chosen[winner]}", message)
    assert all(encodings.lengths(CORPUS))


def test_the_second_to_begin_a_folder_checks_the_firsts(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many begin it at the same moment: one description stands, and only those that agree with it go on."""
    output = tmp_path / "e"
    barrier = threading.Barrier(12)
    begin = Encodings.begin

    def together(folder: Path, manifest: Manifest) -> Encodings:
        barrier.wait()
        return begin(folder, manifest)

    monkeypatch.setattr(Encodings, "begin", together)
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
    assert agreed == [Encodings.open(output, fingerprint(checkpoint)).manifest.dtype] * 4
    assert len(rejected) == 8


def test_a_file_where_the_folder_should_be(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "e").write_text("mine")
    with refused("e … file"):
        encode_corpus(checkpoint, CORPUS, tmp_path / "e", device="cpu")
    assert (tmp_path / "e").read_text() == "mine"


def test_a_full_disk_says_what_stands(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Encodings.add

    def full(encodings: Encodings, *given: Any) -> None:
        if len(encodings):
            raise OSError("database or disk is full")
        write(encodings, *given)

    monkeypatch.setattr(module, "AT_ONCE", 4)
    monkeypatch.setattr(Encodings, "add", full)
    with refused("disk is full … 4 … 12"):
        encode_corpus(checkpoint, CORPUS, tmp_path / "e", device="cpu")
    monkeypatch.setattr(Encodings, "add", write)
    assert encode_corpus(checkpoint, CORPUS, tmp_path / "e", device="cpu") == 8


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_says_so(checkpoint: Path, tmp_path: Path) -> None:
    encode_corpus(checkpoint, CORPUS[:2], tmp_path / "e", device="cpu")
    for path in ((tmp_path / "e" / DATABASE), tmp_path / "e"):
        path.chmod(0o500)
    with refused(f"{tmp_path / 'e'} … readonly"):
        encode_corpus(checkpoint, CORPUS, tmp_path / "e", device="cpu")


def test_other_checkpoints_cannot_share_a_folder(checkpoint: Path, tmp_path: Path) -> None:
    encode_corpus(checkpoint, CORPUS, tmp_path / "e", device="cpu")
    other = write_checkpoint("qa-cnn", tmp_path / "other")
    with refused("checkpoint"):
        encode_corpus(other, CORPUS, tmp_path / "e", device="cpu", dtype=StateDtype.int8)
