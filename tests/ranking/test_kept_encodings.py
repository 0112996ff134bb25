"""What one run has encoded, the next one reads; whatever is wrong with that, results are as without it."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from conftest import TEXTS, reconfigure, write_checkpoint
from forked import Forked
from naive import SMALL
from refusals import refused

from ap_ranker.ranking import fingerprint as fingerprints
from ap_ranker.ranking import stored_encodings as module
from ap_ranker.ranking.fingerprint import fingerprint, known_fingerprint
from ap_ranker.ranking.loaded_checkpoints import flush_encodings
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.state_store import keep_encodings

QUESTION = "Where is my parcel?"


def equal(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """But for the order in which floats are added up, which goes with what else is in a batch."""
    return torch.allclose(found, expected, rtol=0, atol=1e-6)


@pytest.fixture(autouse=True)
def keeping() -> Iterator[None]:
    keep_encodings(True)
    yield
    keep_encodings(False)


@pytest.fixture(params=["ap-cnn", "qa-cnn", pytest.param("ap-bilstm", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_checkpoint(request.param, tmp_path / "checkpoint")


class Run:
    """A process' ranker: no other holds the checkpoint. It counts the texts that it encodes."""

    def __init__(self, folder: Path) -> None:
        self.ranker = Ranker.from_pretrained(folder, "cpu")
        self.ranker.use_cache(10**6)
        self.encoded = 0
        encode = self.ranker.encode_answers

        def counted(tokens: list[list[int]]) -> object:
            if tokens != self.ranker.tokenize([""]):
                self.encoded += len(tokens)
            return encode(tokens)

        self.ranker.encode_answers = counted  # type: ignore[method-assign, assignment]

    def scores(self, texts: list[str] = TEXTS) -> torch.Tensor:
        return self.ranker.score(QUESTION, texts)

    def end(self) -> None:
        flush_encodings()
        del self.ranker.encode_answers  # what counts the texts holds what it counts for
        del self.ranker
        gc.collect()  # a cycle of references may hold it


def scores_of_a_run(folder: Path, texts: list[str] = TEXTS) -> tuple[torch.Tensor, int]:
    """The scores, and how many texts were encoded."""
    run = Run(folder)
    found = run.scores(texts)
    encoded = run.encoded
    run.end()
    return found, encoded


def files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def test_the_second_run_encodes_nothing(folder: Path, own_cache: Path) -> None:
    first, encoded = scores_of_a_run(folder)
    assert encoded == len(TEXTS)
    second, encoded = scores_of_a_run(folder)
    assert encoded == 0
    assert equal(second, first)
    keep_encodings(False)
    without, encoded = scores_of_a_run(folder)
    assert encoded == len(TEXTS)
    assert equal(without, first)


def test_only_what_is_new_is_encoded(folder: Path) -> None:
    scores_of_a_run(folder)
    changed = [*TEXTS[1:], "parcel link battery"]
    found, encoded = scores_of_a_run(folder, changed)
    assert encoded == 1
    keep_encodings(False)
    assert equal(found, scores_of_a_run(folder, changed)[0])


def test_wordings_are_kept(tmp_path: Path) -> None:
    folder = write_checkpoint("qa-cnn", tmp_path / "checkpoint")
    first = Run(folder)
    expected = first.ranker.embed_wordings(TEXTS)
    assert equal(expected, first.ranker.embed_questions(TEXTS))
    first.end()
    second = Run(folder)
    asked: list[str] = []
    encode = second.ranker.encode_questions
    second.ranker.encode_questions = lambda texts: asked.extend(texts) or encode(texts)  # type: ignore
    mixed = [TEXTS[2], "A new one", *TEXTS[:2]]
    found = second.ranker.embed_wordings(mixed)
    assert [text for text in asked if text] == ["A new one"]
    assert equal(found[[2, 3, 0]], expected[:3])


def test_nobody_elses_question_is_kept(tmp_path: Path, own_cache: Path) -> None:
    run = Run(write_checkpoint("qa-cnn", tmp_path / "checkpoint"))
    run.ranker.embed_questions([QUESTION])
    run.ranker.score(QUESTION, [])
    run.end()
    assert not (own_cache / "ap-ranker" / "encodings").exists()


def test_only_the_owner_reads_it(folder: Path, own_cache: Path) -> None:
    scores_of_a_run(folder)
    Run(folder).ranker.fingerprint  # noqa: B018
    kept = own_cache / "ap-ranker" / "encodings"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert not any(text.encode() in path.read_bytes() for path in files(kept) for text in TEXTS)


def test_another_checkpoint_has_its_own(tmp_path: Path) -> None:
    one, other = (write_checkpoint("ap-cnn", tmp_path / name) for name in "ab")
    from safetensors.torch import load_file, save_file

    weights = load_file(other / "model.safetensors")
    save_file({name: value * 1.5 for name, value in weights.items()}, other / "model.safetensors")
    scores_of_a_run(one)
    found, encoded = scores_of_a_run(other)
    assert encoded == len(TEXTS)
    assert not equal(found, scores_of_a_run(one)[0])


def damaged(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(b"x" * len(content))


def test_nothing_is_kept_under_the_name_of_a_checkpoint_that_came_later(tmp_path: Path) -> None:
    """A run may begin to encode when training has already replaced what it had loaded."""
    folder = write_checkpoint("qa-cnn", tmp_path / "checkpoint")
    expected, _ = scores_of_a_run(write_checkpoint("qa-cnn", tmp_path / "same"))
    early = Run(folder)
    with patch.dict(SMALL["qa-cnn"], filters=SMALL["qa-cnn"]["filters"] + 1):
        write_checkpoint("qa-cnn", folder)
    assert equal(early.scores(), expected)
    with refused("checkpoint … loaded … another"):
        _ = early.ranker.fingerprint
    early.end()
    keep_encodings(False)
    exact, _ = scores_of_a_run(folder)
    keep_encodings(True)
    assert not equal(exact, expected)
    found, encoded = scores_of_a_run(folder)
    assert encoded == len(TEXTS)
    assert equal(found, exact)


@pytest.mark.parametrize("fields", [{"calibration": {}}, {"floor": 0.5}], ids=str)
def test_a_calibration_after_loading_is_no_other_checkpoint(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder = write_checkpoint("qa-cnn", tmp_path / "checkpoint")
    run = Run(folder)
    reconfigure(folder, **fields)
    assert run.ranker.fingerprint == fingerprint(folder)


@pytest.mark.parametrize("what", ["folder", "rows"])
def test_what_is_removed_while_it_is_read_is_encoded(tmp_path: Path, own_cache: Path, what: str) -> None:
    """Another process makes room, or somebody empties the cache, between two looks of this one."""
    first = Run(write_checkpoint("qa-cnn", tmp_path / "checkpoint"))
    expected = first.scores(), first.ranker.embed_wordings(TEXTS), first.ranker.embed_answers(TEXTS)
    first.end()
    saved = shutil.copytree(own_cache, tmp_path / "saved")
    lengths = module.KeptEncodings.lengths

    def removed(self: module.KeptEncodings, texts: list[str]) -> list[int]:
        found = lengths(self, texts)
        for file in list(own_cache.rglob(module.DATABASE)):
            if what == "folder":
                shutil.rmtree(file.parent)
            else:
                with closing(sqlite3.connect(file)) as database, database:
                    database.execute("DELETE FROM states WHERE rowid = 2")
        return found

    with patch.object(module.KeptEncodings, "lengths", removed):
        for number, run in enumerate((Run.scores, wordings, answers)):
            shutil.rmtree(own_cache)
            shutil.copytree(saved, own_cache)
            second = Run(tmp_path / "checkpoint")
            assert equal(run(second), expected[number])
            second.end()


def wordings(run: Run) -> torch.Tensor:
    return run.ranker.embed_wordings(TEXTS)


def answers(run: Run) -> torch.Tensor:
    return run.ranker.embed_answers(TEXTS)


@pytest.mark.parametrize("how", ["cut", "empty", "overwritten"])
def test_damage_is_noticed_said_once_and_mended(
    how: str, tmp_path: Path, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_checkpoint("ap-cnn", tmp_path / "checkpoint")
    expected, _ = scores_of_a_run(folder)
    [victim] = files(own_cache / "ap-ranker" / "encodings")
    damaged(victim, how)
    caplog.clear()
    found, encoded = scores_of_a_run(folder)
    assert equal(found, expected)
    assert encoded == len(TEXTS)
    [record] = caplog.records
    assert "damaged" in record.getMessage()
    assert scores_of_a_run(folder)[1] == 0


def test_a_folder_that_cannot_be_written_costs_one_line(
    folder: Path, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_cache.write_text("a file where the folder would be")
    for _ in range(2):
        caplog.clear()
        found, encoded = scores_of_a_run(folder)
        assert encoded == len(TEXTS)
        [record] = caplog.records
        assert "not kept" in record.getMessage()
    own_cache.unlink()
    assert equal(found, scores_of_a_run(folder)[0])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_read(folder: Path, own_cache: Path) -> None:
    scores_of_a_run(folder)
    for path in [own_cache, *own_cache.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    assert scores_of_a_run(folder)[1] == 0


def test_a_full_disk_costs_one_line(
    folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.Encodings, "add", full)
    found, _ = scores_of_a_run(folder)
    [record] = caplog.records
    assert "No space left" in record.getMessage()
    monkeypatch.undo()
    keep_encodings(False)
    assert equal(found, scores_of_a_run(folder)[0])


def test_it_stays_within_its_bound(
    folder: Path, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not used for longest goes first; more than the bound at once is not written."""
    other = write_checkpoint("qa-bilstm", tmp_path / "other")
    scores_of_a_run(folder)
    [kept] = files(own_cache / "ap-ranker" / "encodings")
    monkeypatch.setattr(module, "MOST_BYTES", kept.stat().st_size + 100)
    assert scores_of_a_run(other)[1] == len(TEXTS)
    assert not kept.exists()
    assert scores_of_a_run(other)[1] == 0
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    assert [scores_of_a_run(folder)[1] for _ in range(2)] == [len(TEXTS)] * 2


def test_two_processes_at_once(folder: Path, own_cache: Path) -> None:
    code = f"""
import sys
from conftest import TEXTS
from ap_ranker.ranking.state_store import keep_encodings
from ap_ranker.ranking.loaded_checkpoints import flush_encodings
from ap_ranker.ranking.ranker import Ranker
keep_encodings(True)
for number in range(6):
    ranker = Ranker.from_pretrained({str(folder)!r}, "cpu")
    ranker.use_cache(10**6)
    scores = ranker.score({QUESTION!r}, [*TEXTS, f"{{sys.argv[1]}} {{number}}"])
    flush_encodings()
    del ranker
print(scores.tolist()[:-1])
"""
    processes = [Forked(code, name) for name in ("one", "two")]
    found = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(found) == 1
    assert scores_of_a_run(folder, [*TEXTS, "one 5", "two 5"])[1] == 0


# --- the fingerprint ---


def test_weights_are_not_read_again_for_the_fingerprint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_fingerprint(folder) == fingerprint(folder)
    monkeypatch.setattr(fingerprints, "fingerprint", None)  # cannot be called
    assert len(known_fingerprint(folder)) == 64


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_changed_files_are_noticed(folder: Path, name: str) -> None:
    """Also in place, of the same size, and with the time of the earlier ones."""
    before = known_fingerprint(folder)
    path = folder / name
    status, content = path.stat(), bytearray(path.read_bytes())
    place = content.index(b'"max_tokens"') + 1 if name == "config.json" else len(content) - 4
    content[place] ^= 0x01
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert known_fingerprint(folder) == fingerprint(folder) != before


def test_a_damaged_fingerprint_is_computed(folder: Path, own_cache: Path) -> None:
    expected = known_fingerprint(folder)
    [kept] = files(own_cache)
    for content in (b"", b"\xff" * 64, b"0" * 63, b"z" * 64):
        kept.write_bytes(content)
        assert known_fingerprint(folder) == expected
