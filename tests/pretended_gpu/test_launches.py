"""How many operations a GPU starts for a batch of questions, whose scores are those of each question alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pretended_graphs
import pytest
from conftest import TEXTS, write_checkpoint

from ap_ranker.models import base
from ap_ranker.ranking.cache import TOGETHER, EncodingCache
from ap_ranker.ranking.ranker import Ranker
from ap_ranker.ranking.ranking_request import RankingRequest

WORDS = " ".join(TEXTS).split()
QUESTIONS = [" ".join(WORDS[place % 17 :][: 1 + place % 7]) + f" {place}" for place in range(TOGETHER)]
ANSWERS = [" ".join(WORDS[3 * place % 20 :][: 2 + place % 11]) + f" {place}" for place in range(60)]

MOST = 30
"""Of all questions of a batch together, each with candidates of its own: encoding and matching."""

MOST_TO_MATCH = 26
MOST_WITHOUT_A_GRAPH = 41
MOST_IN_A_LAYER = 12
"""Of encoding alone: beside the encoder's layers, and in each of them."""


class Launches:
    """Counts what a GPU starts: operations that compute, copies between it and the CPU, and replays of graphs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        monkeypatch.setattr(pretended_graphs, "launched", self.names.append)

    def of(self, work: Callable[[], object]) -> int:
        """How many a work starts."""
        self.names.clear()
        work()
        return len(self.names)


@pytest.fixture
def ranker(tmp_path: Path) -> Ranker:
    """On the GPU, with all answers in its cache."""
    folder = write_checkpoint("ap-transformer", tmp_path / "c", wording_weight=0.3)
    ranker = Ranker.from_pretrained(folder, "cuda", cache=EncodingCache(10**7))
    ranker.score("x", ANSWERS)
    return ranker


def batch_of(questions: Sequence[str]) -> list[RankingRequest]:
    """Each with candidates of its own, some of which others have, too."""
    return [RankingRequest(text, ANSWERS[place % 40 :][:20], [["x"]] * 20) for place, text in enumerate(questions)]


def test_a_batch_starts_as_few_operations_as_a_question(ranker: Ranker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first time that so many questions come, their encoder has no graph; the second time, it is captured."""
    layers = ranker.model.encoder.backbone.config.num_hidden_layers
    ranker.score_batch(batch_of(["known wordings are encoded"]))
    launches = Launches(monkeypatch)
    for count in (2, 1, len(QUESTIONS)):
        for time in ("first", "second", "third", "fourth"):
            questions = [f"{text} {time} {count}" for text in QUESTIONS[:count]]
            to_encode = launches.of(lambda questions=questions: ranker.question_vectors(questions))  # type: ignore[misc]
            names = [*launches.names]
            to_match = launches.of(lambda questions=questions: ranker.score_batch(batch_of(questions)))  # type: ignore[misc]
            names += launches.names
            assert to_match <= MOST_TO_MATCH, names
            if time == "first":  # with other candidates than those before
                assert to_match == MOST_TO_MATCH - (count == 1), names
            if time == "first" and count > 1:  # what has gone before had the shape of one question
                assert 30 < to_encode <= MOST_WITHOUT_A_GRAPH + layers * MOST_IN_A_LAYER, names
            if time in ("third", "fourth"):
                assert to_encode + to_match <= MOST, names
                assert names.count("replay") == 1


def test_each_question_has_what_it_has_alone(ranker: Ranker) -> None:
    """There, and on a CPU."""
    together = ranker.score_batch(batch_of(QUESTIONS))
    on_cpu = Ranker.from_pretrained(ranker.source, "cpu", cache=EncodingCache(10**7)).score_batch(batch_of(QUESTIONS))
    for asked, signals, expected in zip(batch_of(QUESTIONS), together, on_cpu, strict=True):
        [alone] = ranker.score_batch([asked])
        for numbers in (alone, expected):
            np.testing.assert_allclose(signals.model, numbers.model, rtol=0, atol=1e-6)
            np.testing.assert_allclose(signals.cosines, numbers.cosines, rtol=0, atol=1e-6)  # type: ignore[arg-type]


def test_so_many_answers_are_matched_at_once_that_products_fit(ranker: Ranker, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ranker.score_batch(batch_of(QUESTIONS))
    monkeypatch.setattr(base, "TOKENS_AT_ONCE", 2_000)
    launches = Launches(monkeypatch)
    ranker.score_batch(batch_of(QUESTIONS))
    assert launches.names.count("aten.amax.default") > 2
    for signals, numbers in zip(ranker.score_batch(batch_of(QUESTIONS)), expected, strict=True):
        np.testing.assert_allclose(signals.model, numbers.model, rtol=0, atol=1e-6)
