"""Many threads on one ranker, from the first moment of a process on."""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT, TEXTS, write_checkpoint

from ap_ranker.models.base import States
from ap_ranker.ranking.cache import EncodingCache
from ap_ranker.ranking.ranker import Ranker

WORDS = ["where", "is", "my", "parcel", "open", "the", "link", "bike", "battery", "frame"]
ANSWERS = [f"{a} {b} {c}" for a in WORDS for b in WORDS for c in WORDS[:3]]
"""300 texts, each of other tokens."""


def in_threads(works: Sequence[Callable[[], None]]) -> list[BaseException | None]:
    """Run all at once; what each raised. A deadlock is a failure after three minutes."""
    raised: list[BaseException | None] = [None] * len(works)
    barrier = threading.Barrier(len(works))

    def run(number: int) -> None:
        barrier.wait()
        try:
            works[number]()
        except BaseException as error:
            raised[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(works))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 180
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    return raised


# --- a cold process ---


@pytest.mark.parametrize("name", ["ap-transformer", pytest.param("ap-cnn", marks=pytest.mark.slow)])
def test_cold_threads_load_and_score(name: str, tmp_path: Path) -> None:
    """32 threads of a new process, in which nothing is imported yet."""
    write_checkpoint(name, tmp_path / "c")
    script = textwrap.dedent("""
        import sys, threading
        barrier, scores, errors = threading.Barrier(32), [], []
        def work():
            barrier.wait()
            try:
                from ap_ranker import Ranker
                scores.append(Ranker.from_pretrained(sys.argv[1], "cpu").score("Where is my bike?", sys.argv[2:]))
            except BaseException as error:
                errors.append(repr(error))
        threads = [threading.Thread(target=work) for _ in range(32)]
        assert not {"torch", "transformers", "ap_ranker"} & sys.modules.keys()
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not errors, errors[:3]
        assert len(scores) == 32 and all((score == scores[0]).all() for score in scores)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "c"), *TEXTS], cwd=ROOT, capture_output=True, text=True,
        timeout=400, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr[-2000:]) == (0, "")


# --- one cache, many runs ---


class Counting(Ranker):
    """Counts how often each text is encoded, slowly enough for runs to meet."""

    failures = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.encoded: Counter[tuple[int, ...]] = Counter()

    def encode_answers(self, tokens: Sequence[Sequence[int]]) -> States:
        time.sleep(0.002)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("out of memory")
        self.encoded.update(map(tuple, tokens))
        return super().encode_answers(tokens)


def counting(checkpoint: Path, max_bytes: int | None = 10**7) -> Counting:
    cache = None if max_bytes is None else EncodingCache(max_bytes)
    ranker = Counting.from_pretrained(checkpoint, "cpu", cache=cache)
    assert isinstance(ranker, Counting)
    ranker.encoded.clear()  # what loading has tried
    return ranker


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> dict[str, float]:
    scores = Ranker.from_pretrained(checkpoint, "cpu").score(TEXTS[0], ANSWERS)
    return dict(zip(ANSWERS, scores.tolist(), strict=True))


def scoring(
    ranker: Ranker, answers: list[str], expected: dict[str, float], batch_size: int = 7, times: int = 1
) -> Callable[[], None]:
    def work() -> None:
        for _ in range(times):
            found = ranker.score(TEXTS[0], answers, batch_size)
            assert torch.allclose(found, torch.tensor([expected[text] for text in answers]), atol=1e-5)

    return work


def test_the_same_answers_are_encoded_once(checkpoint: Path, expected: dict[str, float]) -> None:
    ranker = counting(checkpoint)
    assert in_threads([scoring(ranker, ANSWERS, expected)] * 12) == [None] * 12
    assert len(ranker.encoded) == len(ANSWERS)
    assert set(ranker.encoded.values()) == {1}


@pytest.mark.parametrize("seed", range(3))
def test_overlapping_answers_in_any_order_are_encoded_once(
    checkpoint: Path, expected: dict[str, float], seed: int
) -> None:
    chance = random.Random(seed)
    ranker = counting(checkpoint)
    works = [
        scoring(ranker, chance.choices(ANSWERS, k=chance.randint(1, 200)), expected, chance.choice([1, 5, 64]))
        for _ in range(16)
    ]
    assert in_threads(works) == [None] * 16
    assert set(ranker.encoded.values()) == {1}


def test_a_run_that_fails_leaves_its_texts_to_the_others(checkpoint: Path, expected: dict[str, float]) -> None:
    ranker = counting(checkpoint)
    ranker.failures = 3
    raised = in_threads([scoring(ranker, ANSWERS, expected)] * 12)
    assert sorted(map(repr, raised)) == ["None"] * 9 + ["RuntimeError('out of memory')"] * 3
    assert len(ranker.encoded) == len(ANSWERS)
    assert set(ranker.encoded.values()) == {1}


@pytest.mark.parametrize("max_bytes", [0, 600, 6000])
def test_a_cache_that_forgets_at_once_holds_nobody_up(
    checkpoint: Path, expected: dict[str, float], max_bytes: int
) -> None:
    ranker = counting(checkpoint, max_bytes)
    chance = random.Random(0)
    works = [scoring(ranker, chance.sample(ANSWERS, 60), expected) for _ in range(8)]
    assert in_threads(works) == [None] * 8


def test_without_a_cache_nothing_is_shared(checkpoint: Path, expected: dict[str, float]) -> None:
    ranker = counting(checkpoint, None)
    assert in_threads([scoring(ranker, ANSWERS[:20], expected)] * 3) == [None] * 3
    assert set(ranker.encoded.values()) == {3}


def test_a_run_that_is_not_finished_holds_nobody_up(checkpoint: Path, expected: dict[str, float]) -> None:
    """Two runs in turn in one thread, the first of them given up half-way."""
    ranker = counting(checkpoint)

    def work() -> None:
        first, second = ranker.answer_states(ANSWERS[:30], 5), ranker.answer_states(ANSWERS[:30][::-1], 5)
        for _ in range(3):
            next(first), next(second)
        assert sorted(row for rows, _ in [*second] for row in rows)
        scoring(ranker, ANSWERS, expected)()

    assert in_threads([work]) == [None]
    assert set(ranker.encoded.values()) == {1}


# --- what a ranker remembers between calls ---


def test_training_mode_ends_before_any_score(tmp_path: Path) -> None:
    """Whoever finds the model in training mode ends it everywhere before anybody scores."""
    ranker = Ranker.from_pretrained(write_checkpoint("ap-bilstm", tmp_path / "c"), "cpu")
    plain = ranker.score(TEXTS[0], TEXTS)
    children = type(ranker.model).eval

    def slowly(model: torch.nn.Module) -> torch.nn.Module:
        model.training = False
        time.sleep(0.02)
        return children(model)

    ranker.model.eval = slowly.__get__(ranker.model)  # type: ignore[method-assign]
    for module in ranker.model.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.9
    ranker.model.train()
    found: list[torch.Tensor] = []
    assert in_threads([lambda: found.append(ranker.score(TEXTS[0], TEXTS))] * 8) == [None] * 8
    assert all(torch.equal(scores, plain) for scores in found)


def test_threads_report_cut_texts_once(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(20):
        ranker = Ranker.from_pretrained(checkpoint, "cpu")
        ranker.tokenizer = copy(ranker.tokenizer)  # all rankers of a checkpoint tell it once together
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            in_threads([lambda ranker=ranker: ranker.score("Where?", ["bike " * 30])] * 8)  # type: ignore[misc]
        assert len(caplog.records) == 1
