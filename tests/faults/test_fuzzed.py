"""What the fuzzer found that no other test had asked for."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refused

from ap_ranker.data.audit.fix import fix
from ap_ranker.data.faq import read_faq
from ap_ranker.data.reader import read_dataset
from ap_ranker.data.tables import read_table
from ap_ranker.errors import InputError
from ap_ranker.text.word_vectors import read_vectors
from ap_ranker.training.config import read_training_config
from ap_ranker.web.serve import _listen


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (read_table, "a.csv"),
        (read_table, "a.jsonl.gz"),
        (read_vectors, "a.txt"),
        (lambda path: read_training_config(path, {}), "a.yaml"),
    ],
)
def test_a_name_that_leads_nowhere_is_one_message(read: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to(name)
    for path in (tmp_path / name, tmp_path / ("x" * 300 + name), tmp_path / f"\0{name}"):
        with refused("file") as error:
            read(path)
        assert len(str(error.value)) < 1_000


@pytest.mark.parametrize("character", ["\x1b", "\x00", "\ufffe"])
def test_settings_with_a_character_that_yaml_forbids(character: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"model: ap-{character}cnn\n", encoding="utf-8")
    with refused("settings.yaml"):
        read_training_config(path, {})


@pytest.mark.parametrize("read", [read_faq, lambda path: read_dataset(path, "train")])
def test_headers_that_are_texts_are_shortened(read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text(f"{'word ' * 40_000},b,c\n1,2,3\n")
    with refused("train.csv") as error:
        read(path)
    assert len(str(error.value)) < 1_000


@pytest.mark.parametrize(
    "content", ["question,answer,label\nq,a,{}\n", "qid,{},answer,label\n1,2\n", "{},question,answer,{}\n1,2,3,4\n"]
)
def test_fields_that_are_long_are_shortened(content: str, tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text(content.replace("{}", "word " * 40_000))
    with refused("train.csv") as error:
        read_dataset(path, "train")
    assert len(str(error.value)) < 1_000


def test_fix_keeps_fields_that_only_later_records_have(tmp_path: Path) -> None:
    """Of the first record nothing is left, so the second one decides what a reader of the copy expects."""
    records = [
        {"question": "Where?", "answer": ""},
        {"question": "Where?", "answer": "There.", "topic": "places"},
        {"question": "When?", "answer": "Now."},
    ]
    path, output = tmp_path / "a.jsonl", tmp_path / "fixed.csv"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    fix(path, output)
    assert [row.fields for row in read_table(output).rows] == [{"topic": "", **record} for record in records[1:]]


@pytest.mark.parametrize("host", ["\ufeff", "é" * 100, "no such host"])
def test_a_name_that_no_host_can_have(host: str) -> None:
    with refused("--host … --port"):
        _listen(host, 0)


def test_a_bomb_of_word_vectors_is_refused_before_its_lines_are_read(tmp_path: Path) -> None:
    """Two megabytes that hold 200: up to the limit there are eight million lines, which take a minute to parse."""
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress(b"word 0.5\n" * 500_000) * 50 + bytes(1_500_000))
    started = time.process_time()
    with pytest.raises(InputError):
        read_vectors(path)
    assert time.process_time() - started < 3
