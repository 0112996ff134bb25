"""Word vectors completed from others: the map is found again, and no vector that was there changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import vectors

from ap_ranker.errors import InputError
from ap_ranker.text.vectors import WordVectors, read_vectors


def two(n: int = 40) -> tuple[WordVectors, WordVectors, np.ndarray]:
    """Vectors of 3 dimensions that lack w0, w2, ... of all but the first ten words; those they come from; the truth."""
    rng = np.random.default_rng(1)
    other = rng.normal(size=(n, 2)).astype(np.float32)
    truth = (other @ rng.normal(size=(2, 3)) + rng.normal(size=3)).astype(np.float32)
    words = [f"w{number}" for number in range(n)]
    kept = [number for number in range(n) if number < 10 or number % 2]
    own = WordVectors([*(words[number] for number in kept), "own"], np.r_[truth[kept], np.ones((1, 3), np.float32)])
    return own, WordVectors(words, other), truth


def test_a_linear_map_is_found_again() -> None:
    wanted, other, truth = two()
    found = vectors.completed(wanted, other)
    assert found.words == [*other.words, "own"], "in the order of how frequent they are"
    np.testing.assert_allclose(found.matrix[:-1], truth, atol=1e-5)
    before = {word: vector.tolist() for word, vector in zip(wanted.words, wanted.matrix, strict=True)}
    after = {word: vector.tolist() for word, vector in zip(found.words, found.matrix, strict=True)}
    assert {word: after[word] for word in before} == before


def test_guesses_are_as_long_as_what_they_stand_beside() -> None:
    wanted, other, _ = two(4000)
    noisy = WordVectors(wanted.words, wanted.matrix + np.random.default_rng(2).normal(size=wanted.matrix.shape))
    found = vectors.completed(noisy, other)
    lengths = {word: float(np.linalg.norm(vector)) for word, vector in zip(found.words, found.matrix, strict=True)}
    guessed = [length for word, length in lengths.items() if word not in set(noisy.words)]
    assert np.mean(guessed) == pytest.approx(np.linalg.norm(noisy.matrix, axis=1).mean(), rel=0.05)


def write(path: Path, words: WordVectors) -> str:
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words.words, words.matrix, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_the_command_writes_what_train_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted, other, truth = two()
    target = tmp_path / "new" / "all.txt.gz"
    vectors.complete(write(tmp_path / "a.txt", wanted), write(tmp_path / "b.txt", other), target)
    found = read_vectors(target)
    np.testing.assert_allclose(found.matrix[:-1], truth, rtol=1e-3, atol=1e-3)
    assert "41 words of 3 dimensions" in capsys.readouterr().out
    assert [path.name for path in target.parent.iterdir()] == ["all.txt.gz"]


def test_two_languages_are_no_pair() -> None:
    wanted, other, _ = two()
    foreign = WordVectors([f"x{word}" for word in wanted.words], wanted.matrix)
    with pytest.raises(InputError, match="more shared words than the 2 dimensions to map, found 0"):
        vectors.completed(foreign, other)
