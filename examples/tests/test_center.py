"""Word vectors less their mean: that of all words of the training texts, as often as they occur."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from center import center
from refusals import refused

from ap_ranker.text.word_vectors import read_vectors

ROWS = {
    "train": "q1\tRed bike?\tThe red one\t1\nq1\tRed bike?\tA car\t0\nq2\tblue?\tred\t1\n",
    "dev": "q3\tThe the the\tthe\t1\nq3\tThe the the\ta\t0\n",
    "test": "q4\tThe the the\tthe\t1\nq4\tThe the the\ta\t0\n",
}
VECTORS = {"the": (1.0, 2.0), "red": (4.0, -2.0), "bike": (0.5, 0.25), "elsewhere": (100.0, 100.0)}


def write(folder: Path) -> tuple[Path, Path]:
    for name, rows in ROWS.items():
        text = f"qid\tquestion\tanswer\tlabel\n{rows}"
        (folder / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    vectors = folder / "vectors.txt"
    vectors.write_text("".join(f"{word} {x} {y}\n" for word, (x, y) in VECTORS.items()))
    return folder, vectors


def test_the_words_of_the_training_texts_have_the_mean_0(tmp_path: Path) -> None:
    data, vectors = write(tmp_path)
    center("wikiqa", data, vectors, tmp_path / "centered.txt.gz")
    found = read_vectors(tmp_path / "centered.txt.gz")
    assert found.words == list(VECTORS)
    # red: in a question, in two answers; the: in an answer; bike: in a question.
    mean = (3 * np.array(VECTORS["red"]) + np.array(VECTORS["the"]) + np.array(VECTORS["bike"])) / 5
    np.testing.assert_allclose(found.matrix, np.array(list(VECTORS.values())) - mean, atol=1e-5)


def test_mistakes(tmp_path: Path) -> None:
    data, vectors = write(tmp_path)
    with refused("wikipedia … wikiqa"):
        center("wikipedia", data, vectors, tmp_path / "centered.txt.gz")
    vectors.write_text("elsewhere 1 2\n")
    with refused("vectors.txt"):
        center("wikiqa", data, vectors, tmp_path / "centered.txt.gz")
