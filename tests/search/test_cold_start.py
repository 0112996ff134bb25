"""A search reads each text once, and another run of it none; it finds the same."""

from __future__ import annotations

import csv
import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from command_line import run as command
from conftest import TEXTS, write_checkpoint
from searches import write_pipeline

from ap_ranker.ranking import loaded_checkpoints
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.search.setup import SearchSetup, search_faq, set_up
from ap_ranker.threads import wait_without_spinning

QUESTION = "Which parcel fits my bike?"
ENTRIES = dict(zip(TEXTS[::2], TEXTS[1::2], strict=True))


@pytest.fixture
def faq(tmp_path: Path) -> Path:
    path = tmp_path / "faq.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([("question", "answer"), *ENTRIES.items()])
    return path


@pytest.fixture(params=["qa-cnn", "ap-cnn"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """One that has vectors of whole texts, and one that has none."""
    return str(write_checkpoint(request.param, tmp_path / "checkpoint"))


@pytest.fixture
def read() -> Iterator[Counter[str]]:
    """How often each text was tokenized to be encoded, as an answer or as a question."""
    counts: Counter[str] = Counter()
    tokenize = Ranker.tokenize

    def counted(self: Ranker, texts: list[str], **kind: bool) -> list[list[int]]:
        counts.update(text for text in texts if text)
        return tokenize(self, texts, **kind)

    with patch.object(Ranker, "tokenize", counted):
        yield counts


def ask(faq: Path, model: str, *, keep: bool = True) -> list[dict[str, object]]:
    with set_up(faq, model=model, keep=keep) as setup:
        found = search_faq([QUESTION], setup)
    gc.collect()  # as the end of a process
    return found


def expected_texts(model: str) -> set[str]:
    texts = {f"{question}\n{answer}" for question, answer in ENTRIES.items()}
    with_vectors = Ranker.from_pretrained(model, "cpu").has_vectors
    return texts | {QUESTION} | (set(ENTRIES) if with_vectors else set())


def test_each_text_is_encoded_once_and_then_never_again(faq: Path, model: str, read: Counter[str]) -> None:
    texts = expected_texts(model)
    first = ask(faq, model)
    assert set(read) == texts
    assert set(read.values()) == {1}
    read.clear()
    assert ask(faq, model) == first
    assert read == {QUESTION: 1}
    read.clear()
    assert ask(faq, model, keep=False) == first
    assert set(read) == texts
    assert set(read.values()) == {1}


def test_a_pipeline_of_its_own_keeps_them_too(faq: Path, model: str, tmp_path: Path, read: Counter[str]) -> None:
    """Also where the search is gone, with its checkpoint, before the run ends."""
    pipeline = write_pipeline(tmp_path, Path(model))
    found = []
    for expected in ({f"{question}\n{answer}" for question, answer in ENTRIES.items()}, set()):
        read.clear()
        with set_up(faq, pipeline=pipeline, keep=True) as setup:
            found.append(search_faq([QUESTION], setup))
            gc.collect()
        assert set(read) - {QUESTION, *ENTRIES} == expected
    assert found[0] == found[1]


def test_nothing_is_kept_unasked(faq: Path, model: str, own_cache: Path) -> None:
    ask(faq, model, keep=False)
    with set_up(faq, model=model, keep=True):
        pass
    search_faq([QUESTION], SearchSetup(*_pipeline(faq, model)))
    assert not own_cache.exists()


def _pipeline(faq: Path, model: str) -> tuple[object, ...]:
    with set_up(faq, model=model) as setup:
        return setup.pipeline, setup.documents, setup.match, setup.wordings, setup.limits, setup.checkpoint


def test_the_command_keeps_encodings_and_can_be_told_not_to(faq: Path, model: str, own_cache: Path) -> None:
    options = ("ask", QUESTION, "--documents", faq, "--model", model, "--json")
    without = command(*options, "--no-cache", folder=faq.parent)
    assert without.code == 0, without.errors
    assert not own_cache.exists()
    loaded_checkpoints._loaded.clear()  # as in a process of its own
    found = command(*options, folder=faq.parent)
    assert json.loads(found.output) == json.loads(without.output)
    assert list((own_cache / "ap-ranker" / "encodings").rglob("encodings.sqlite"))


def test_an_edit_is_found(faq: Path, model: str, read: Counter[str]) -> None:
    ask(faq, model)
    read.clear()
    with faq.open("a") as stream:
        stream.write("Where is the bike?,In the goods link.\n")
    with set_up(faq, model=model, keep=True) as setup:
        [found] = search_faq(["Where is the bike?"], setup)
    assert found["answers"][0]["answer"] == "In the goods link."
    assert set(read) <= {"Where is the bike?", "Where is the bike?\nIn the goods link."}


def test_threads_wait_asleep_unless_somebody_wants_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    wait_without_spinning()
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    wait_without_spinning()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


def test_commands_say_so_before_torch_is_there() -> None:
    """It reads the variable when it is imported."""
    import subprocess

    program = """
import os, sys
import ap_ranker.threads as threads
def check():
    assert "torch" not in sys.modules
    sys.exit(7)
threads.wait_without_spinning = check
sys.argv = ["ap-ranker", sys.argv[1], *sys.argv[2:]]
from ap_ranker.cli.main import app
app()
"""
    for arguments in (["ask", "Where?", "--documents", "x.csv"], ["serve", "x.csv"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 7, done.stderr
