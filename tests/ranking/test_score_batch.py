"""Questions that are scored together have the scores that each has alone, whatever candidates the others have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import TEXTS, write_checkpoint
from torch import Tensor

from ap_ranker.errors import InputError
from ap_ranker.models.base import States
from ap_ranker.ranking.cache import LAST_QUESTIONS, TOGETHER, EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.ranking_request import RankingRequest
from ap_ranker.ranking.rule import Signals

WORDS = " ".join(TEXTS).split()
ANSWERS = [" ".join(WORDS[3 * place % 20 :][: 2 + place % 11]) + f" {place}" for place in range(24)]
LEAST_DIFFERENCE = 1e-6
"""Products of several questions may be summed in another order than those of one."""


def question(number: int) -> str:
    return " ".join(WORDS[number % 17 :][: 1 + number % 7]) + f" {number}"


def request_of(number: int, candidates: Sequence[str]) -> RankingRequest:
    """Some candidates have known wordings, one of them that of another question."""
    wordings = [[question(place + 1)] if place % 3 == 0 else [] for place in range(len(candidates))]
    return RankingRequest(question(number), candidates, wordings if number % 4 else None)


def candidates_of(number: int) -> list[str]:
    """Every other question has the same; one has none, and one has an answer twice."""
    if number == 5:
        return []
    if number == 7:
        return [ANSWERS[2], ANSWERS[1], ANSWERS[2]]
    if number % 2:
        return ANSWERS
    return ANSWERS[number % 9 :][:6]


@pytest.fixture(scope="module", params=["ap-transformer", "ap-cnn", "bimpm"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(request.param, tmp_path_factory.mktemp(request.param) / "c", wording_weight=0.3)


def ranker_of(folder: Path, *, caches: bool) -> Ranker:
    return Ranker.from_pretrained(folder, "cpu", cache=EncodingCache(10**7) if caches else None)


def assert_same(signals: Signals, alone: Signals) -> None:
    for name in ("model", "cosines", "wordings"):
        numbers = getattr(signals, name)
        expected = getattr(alone, name)
        assert (numbers is None) == (expected is None)
        if expected is not None:
            np.testing.assert_allclose(numbers, expected, rtol=0, atol=LEAST_DIFFERENCE)
    assert signals.matched == alone.matched
    np.testing.assert_array_equal(signals.is_exact, alone.is_exact)


@pytest.mark.parametrize("caches", [True, False], ids=["with a cache", "without"])
def test_each_has_what_it_has_alone(folder: Path, caches: bool) -> None:
    batch = [request_of(number, candidates_of(number)) for number in range(20)]
    alone = []
    for request in batch:
        ranker = ranker_of(folder, caches=caches)  # another one, which has read nothing
        alone += ranker.score_batch([request])
        del ranker
    ranker = ranker_of(folder, caches=caches)
    for _ in ("cold", "warm"):
        together = ranker.score_batch(batch)
        assert len({len(signals.model) for signals in together}) > 2
        for signals, expected in zip(together, alone, strict=True):
            assert_same(signals, expected)


def test_questions_with_the_same_candidates_are_matched_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = ranker_of(folder, caches=False)
    sizes = []
    match = ranker.model.match

    def spied(questions: States, answers: States) -> Tensor:
        sizes.append(len(questions))
        return match(questions, answers)

    monkeypatch.setattr(ranker.model, "match", spied)
    monkeypatch.setattr(ranker.model, "reads_stored", lambda dtypes: False)
    ranker.score_batch([RankingRequest(question(number), ANSWERS[:9]) for number in range(8)])
    ranker.score_batch([RankingRequest(question(number), ANSWERS[number:9]) for number in range(3)])
    assert sizes == [8, 1, 1, 1]


def test_all_questions_are_encoded_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they have the same candidates or not."""
    ranker = ranker_of(folder, caches=True)
    sizes = []
    encode = ranker.encode_questions

    def spied(texts: Sequence[str]) -> States:
        sizes.append(len(texts))
        return encode(texts)

    monkeypatch.setattr(ranker, "encode_questions", spied)
    ranker.score_batch([RankingRequest(question(number), ANSWERS[:3]) for number in range(100, 105)])
    ranker.score_batch([RankingRequest(question(number), ANSWERS[number - 200 :]) for number in range(200, 207)])
    assert sizes == [5, 7]


def test_more_questions_than_are_kept(folder: Path) -> None:
    count = LAST_QUESTIONS + TOGETHER + 3
    ranker = ranker_of(folder, caches=True)
    together = ranker.score_batch([RankingRequest(question(number), ANSWERS[:3]) for number in range(count)])
    for number in (0, TOGETHER, count - 1):
        alone = ranker.score(question(number), ANSWERS[:3]).numpy()
        np.testing.assert_allclose(together[number].model, alone, rtol=0, atol=LEAST_DIFFERENCE)


def test_what_is_wrong_with_a_question_is_said_as_of_it_alone(folder: Path) -> None:
    ranker = ranker_of(folder, caches=False)
    wrong = RankingRequest("x", ANSWERS[:2], bm25_scores=[1.0])
    with pytest.raises(ValueError, match="BM25's scores must be 2 finite numbers"):
        ranker.score_batch([request_of(1, ANSWERS), wrong])
    with pytest.raises(InputError, match="batch_size"):
        ranker.score_batch([], batch_size=0)
    assert ranker.score_batch([]) == []
