"""The scan of 8-bit vectors against cosines in float64, number by number."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.models import private_operators
from ap_ranker.models.private_operators import int8_products
from ap_ranker.ranking import wordings
from ap_ranker.ranking.wordings import Vectors


@pytest.fixture(autouse=True, params=[True, False], ids=["integers", "floats"], scope="module")
def kind(request: pytest.FixtureRequest) -> Iterator[None]:
    """With a CPU's integer instructions, if it has them, and without."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.param:
            patch.setattr(private_operators, "multiplies_int8", lambda: False)
        yield


def cosine(first: list[float], second: list[float]) -> float:
    lengths = [sqrt(sum(x * x for x in vector)) for vector in (first, second)]
    return sum(x * y for x, y in zip(first, second, strict=True)) / (lengths[0] * lengths[1]) if all(lengths) else 0.0


@pytest.mark.parametrize("size", [1, 2, 50, 384, 1000])
def test_scores_are_cosines(size: int) -> None:
    """Of random vectors of any length, more than are scanned at once; 127 steps in each direction tell them apart."""
    generator = np.random.default_rng(size)
    vectors = generator.normal(size=(2500, size)) * generator.uniform(1e-6, 1e6, size=(2500, 1))
    query = generator.normal(size=size)
    expected = [cosine(query.tolist(), vector.tolist()) for vector in vectors]
    scores = Vectors.of(vectors).scores(query)
    assert scores.dtype == np.float32
    assert scores == pytest.approx(expected, abs=0.006)
    assert np.abs(scores).max() <= 1 + 1e-6


@given(
    st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=1, max_size=30),
    st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    st.floats(1e-300, 1e300),
)
def test_any_small_vectors(vectors: list[list[int]], query: list[int], scale: float) -> None:
    scores = Vectors.of([np.array(vector) * scale for vector in vectors]).scores(np.array(query, float))
    assert scores == pytest.approx([cosine(query, vector) for vector in vectors], abs=0.02)
    same = Vectors.of([np.array(query) * scale]).scores(np.array(query, float))
    assert same == pytest.approx([1.0 if any(query) else 0.0], abs=0.001)


def test_equal_vectors_have_equal_scores_wherever_they_stand() -> None:
    generator = np.random.default_rng(0)
    one = generator.normal(size=384)
    vectors = generator.normal(size=(3001, 384))
    vectors[::7] = one
    for _ in range(20):
        scores = Vectors.of(vectors).scores(generator.normal(size=384))
        assert len(set(scores[::7].tolist())) == 1


@pytest.mark.parametrize("size", [1, 384, 1500])
def test_products_are_exact(size: int) -> None:
    matrix = np.random.default_rng(size).choice(np.array([-127, 127, 126, 0], np.int8), (70, size))
    others = np.stack([*matrix[:5], np.sign(matrix[3]) * np.int8(127)])
    for part in (others, others[:1]):
        assert (int8_products(matrix, part) == matrix.astype(np.int64) @ part.T.astype(np.int64)).all()


def test_zeros_are_like_nothing() -> None:
    vectors = Vectors.of([np.zeros(4), np.ones(4)])
    assert vectors.scores(np.ones(4)).tolist() == [0.0, pytest.approx(1.0)]
    assert vectors.scores(np.zeros(4)).tolist() == [0.0, 0.0]
    assert Vectors.of([]).is_empty


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    Vectors.of(np.random.default_rng(0).normal(size=(5, 8))).save(tmp_path)
    return tmp_path


def test_saved_vectors_are_mapped(saved: Path) -> None:
    vectors = Vectors.load(saved)
    assert all(isinstance(array, np.memmap) for array in (vectors.matrix, vectors.scales))
    expected = Vectors.of(np.random.default_rng(0).normal(size=(5, 8))).scores(np.arange(8.0))
    assert vectors.scores(np.arange(8.0)).tolist() == expected.tolist()


@pytest.mark.parametrize("most", [None, 1, 40])
def test_queries_at_once_have_the_scores_of_each_alone(most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit; one of them is a vector of zeros."""
    if most is not None:
        monkeypatch.setattr(wordings, "_MOST_SCORES", most)
    generator = np.random.default_rng(3)
    vectors = Vectors.of(generator.normal(size=(19, 384)))
    queries = generator.normal(size=(7, 384)).astype(np.float32) * np.float32([[0, 1, 2, 3, 4, 5, 1e-9]]).T
    together = list(vectors.scores_of_each(queries))
    assert len(together) == len(queries)
    for query, scores in zip(queries, together, strict=True):
        assert scores.tolist() == vectors.scores(query).tolist()
    exact = vectors.matrix.astype(float) * vectors.scales[:, None]
    np.testing.assert_allclose(together[3], exact @ (queries[3] / np.linalg.norm(queries[3])), atol=1e-4)
