"""The best known wording of an entry, against the equations written out in float64."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TEXTS, exact_ranker, write_checkpoint
from hypothesis import given
from hypothesis import strategies as st
from naive.rule import soft_maximum
from naive.vectors import cosine, rounded
from refusals import refused

from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.rule import rank
from ap_ranker.ranking.wordings import WordingIndex, WordingVectors

QUESTION, ANSWERS = "Where is my bike?", [*TEXTS[1::2], "bike"]
WORDINGS = [["Where is my parcel?", "my bike"], [], ["Which battery?"], ["Where is my bike?"]]
WEIGHT = 0.7


@pytest.fixture
def ranker(tmp_path: Path) -> Ranker:
    ranker = exact_ranker(write_checkpoint("ap-transformer", tmp_path / "c"))
    assert ranker.config is not None
    ranker.config = replace(ranker.config, wording_weight=WEIGHT)
    return ranker


def scored(ranker: Ranker, wordings: Sequence[Sequence[str]] | None, batch_size: int = 64) -> list[float]:
    """What the answers are ranked by, as if the question were no wording of any, word for word."""
    signals = ranker.score_entries(QUESTION, ANSWERS, wordings, batch_size=batch_size)
    scores: list[float] = rank(replace(signals, exact=None), ranker.decider().weights).scores.tolist()
    return scores


def naive(ranker: Ranker, wordings: Sequence[Sequence[str]]) -> list[float]:
    """(s + v softmax(cos(q, a), cos(q, w_1), ...)) / (1 + v)."""
    alone = ranker.score(QUESTION, ANSWERS).double().tolist()
    question, *texts = ranker.embed_questions([QUESTION, *(text for each in wordings for text in each)]).double()
    answers, vectors = ranker.embed_answers(ANSWERS).double(), iter(texts)
    expected = []
    for score, answer, each in zip(alone, answers, wordings, strict=True):
        cosines = [cosine(question.tolist(), answer.tolist())]
        cosines += [cosine(question.tolist(), rounded(next(vectors).tolist())) for _ in each]
        expected.append((score + WEIGHT * soft_maximum(cosines)) / (1 + WEIGHT))
    return expected


def test_the_best_wording_counts_beside_the_answer(ranker: Ranker) -> None:
    entries = ranker.score_entries(QUESTION, ANSWERS, WORDINGS, batch_size=2)
    assert scored(ranker, WORDINGS, batch_size=2) == pytest.approx(naive(ranker, WORDINGS), abs=1e-5)
    assert entries.matched[3] == QUESTION
    assert entries.matched[1] is None


def test_ranking_names_the_wording(ranker: Ranker) -> None:
    ranked = ranker.rank(QUESTION, ANSWERS, wordings=WORDINGS)
    entries = ranker.score_entries(QUESTION, ANSWERS, WORDINGS)
    scores = scored(ranker, WORDINGS)
    assert ranked[0].index == 3  # the question is its wording, word for word
    others = sorted((min(score, scores[3]) for score in scores[:3]), reverse=True)
    assert [answer.score for answer in ranked] == [scores[3], *others]
    assert all(answer.wording == entries.matched[answer.index] for answer in ranked)


def test_without_wordings_or_their_weight_the_model_alone_decides(ranker: Ranker) -> None:
    alone = ranker.score(QUESTION, ANSWERS)
    assert ranker.config is not None
    assert scored(ranker, None) == alone.tolist()
    nothing: list[list[str]] = [[]] * 4  # but other entries of the search have some
    assert scored(ranker, nothing) == pytest.approx(naive(ranker, nothing), abs=1e-5)
    ranker.config = replace(ranker.config, wording_weight=0.0)
    assert scored(ranker, WORDINGS) == alone.tolist()


def test_models_without_vectors_ignore_wordings(checkpoint: Path) -> None:
    ranker = Ranker.from_pretrained(checkpoint, "cpu")
    assert ranker.config is not None
    ranker.config = replace(ranker.config, wording_weight=WEIGHT)
    assert scored(ranker, WORDINGS) == ranker.score(QUESTION, ANSWERS).tolist()


def test_there_is_a_list_for_each_candidate(ranker: Ranker) -> None:
    with refused("wordings … 4 … 1", by=ValueError):
        ranker.rank(QUESTION, ANSWERS, wordings=[["x"]])
    assert ranker.rank(QUESTION, [], wordings=[]) == []


class Letters:
    """Encodes a text as the shares of its letters a to e, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        self.encoded += texts
        counts = torch.tensor([[text.count(letter) + 0.01 for letter in "abcde"] for text in texts])
        return torch.nn.functional.normalize(counts, dim=1)


def letter_shares(text: str) -> list[float]:
    shares: list[float] = Letters()([text])[0].double().tolist()
    return shares


def assert_vectors_of(vectors: WordingVectors, texts: Sequence[str]) -> None:
    """Each text has its own vector: the cosines with the axes are its numbers."""
    for axis, letter in enumerate("abcde"):
        question = np.eye(5, dtype=np.float32)[axis]
        cosines, found = vectors.best(question, [[text] for text in texts], Letters())
        expected = [rounded(letter_shares(text))[axis] for text in texts]
        assert cosines.tolist() == pytest.approx(expected, abs=1e-6), letter
        assert found == list(texts)


LISTS = st.lists(st.lists(st.text("abcde", max_size=4), max_size=4), max_size=6)


@given(st.text("abcde", max_size=4), st.lists(LISTS, min_size=1, max_size=3))
def test_best_wordings_are_those_of_a_loop_and_each_text_is_encoded_once(text: str, requests: list[list[str]]) -> None:
    letters = Letters()
    vectors, question = WordingVectors(), Letters()([text])[0].numpy()
    for wordings in requests:
        best = vectors.best(question, wordings, letters)
        for each, found, chosen in zip(wordings, *best, strict=True):
            cosines = [cosine(rounded(letter_shares(wording)), question.tolist()) for wording in each]
            assert found == pytest.approx(soft_maximum(cosines) if cosines else -1.0, abs=1e-5)
            assert (chosen in each) if each else (chosen is None)
    assert len(letters.encoded) == len(set(letters.encoded))


def test_a_vector_takes_a_byte_per_number() -> None:
    vectors = WordingVectors()
    assert vectors.nbytes(["a", "b", "a"], Letters()) == 2 * (5 + 4)
    assert vectors.nbytes(["b", "c"], Letters()) == 2 * (5 + 4)


def test_vectors_are_dropped_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ap_ranker.ranking.wordings.LARGEST_TABLE", 3)
    vectors = WordingVectors()
    for texts in (["a", "b"], ["a", "c", "d"], ["e", "a"], ["a", "b", "c", "d", "e"]):
        assert_vectors_of(vectors, texts)
        assert len(vectors._rows) <= max(3, len(texts))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.text("abcde", max_size=4)), max_size=20),
    st.lists(st.text("abcde", max_size=4), max_size=9),
    st.text("abcde", max_size=4),
)
def test_an_index_scores_each_entry_by_its_best_wording(
    pairs: list[tuple[int, str]], others: list[str], question: str
) -> None:
    """Whatever else shares the vectors."""
    vectors = WordingVectors()
    vectors.find(others, Letters())
    index = WordingIndex.of(iter(pairs), vectors, Letters())
    asked = letter_shares(question)
    expected: dict[int, float] = {}
    for row, text in pairs:
        expected[row] = max(expected.get(row, -1.0), cosine(rounded(letter_shares(text)), asked))
    assert index.rows.tolist() == sorted(expected)
    found = dict(zip(index.rows.tolist(), index.scores(np.array(asked)).tolist(), strict=True))
    assert found == pytest.approx(expected, abs=1e-4)


def test_components_with_one_checkpoint_share_vectors(tmp_path: Path) -> None:
    folder = write_checkpoint("ap-transformer", tmp_path / "c")
    first, second = (Ranker.from_pretrained(folder, "cpu") for _ in range(2))
    first.wording_vectors.find(["my bike"], first.embed_questions)
    second.wording_vectors.find(["my bike"], lambda texts: pytest.fail(f"{texts} were encoded again"))


def test_threads_share_vectors() -> None:
    letters = Letters()
    vectors, results = WordingVectors(), []
    question = np.full(5, 0.2**0.5, dtype=np.float32)
    texts = [letter * n for letter in "abcde" for n in range(1, 9)]

    def ask(start: int) -> None:
        rotated = texts[start:] + texts[:start]
        results.append((rotated, vectors.best(question, [[text] for text in rotated], letters)[0].tolist()))

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(0, 40, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    for rotated, found in results:
        assert found == pytest.approx([sum(rounded(letter_shares(text))) * 0.2**0.5 for text in rotated], abs=1e-5)
    assert sorted(letters.encoded) == sorted(texts)
