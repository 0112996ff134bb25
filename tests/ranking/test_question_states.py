"""Questions that several threads ask at once are encoded together, each once, and each thread gets its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from conftest import TEXTS, write_checkpoint

from ap_ranker.models.base import States
from ap_ranker.ranking.cache import LAST_QUESTIONS, TOGETHER, QuestionStates
from ap_ranker.ranking.ranker import Ranker

SECONDS = 30.0


def encoded(texts: list[str]) -> States:
    """A state per character, which tells the text."""
    longest = max(map(len, texts))
    codes = torch.tensor([[ord(c) for c in text.ljust(longest, "\0")] for text in texts])
    return States(codes > 0, {"ids": codes}, {"length": torch.tensor([[float(len(text))] for text in texts])})


def text_of(states: States) -> str:
    assert states.mask.all()
    return "".join(map(chr, states.per_token["ids"][0].tolist()))


class Blocked:
    """Encodes; the first call waits until it is let go, and `batches` are what was encoded together."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, texts: list[str]) -> States:
        self.batches.append(texts)
        self.begun.set()
        assert self.go.wait(SECONDS)
        return encoded(texts)


def ask_all(known: QuestionStates, texts: list[str], encode: Blocked) -> list[Callable[[], States]]:
    """The first text's encoding has begun, all others wait for it; their results."""
    threads = ThreadPoolExecutor(len(texts))
    first = threads.submit(known.get, texts[0], encode)
    assert encode.begun.wait(SECONDS)
    others = [threads.submit(known.get, text, encode) for text in texts[1:]]
    while len(known._waiting) < len(set(texts[1:])):
        threading.Event().wait(0.001)
    encode.go.set()
    threads.shutdown(wait=False)
    return [lambda one=one: one.result(SECONDS) for one in (first, *others)]  # type: ignore[misc]


@pytest.mark.parametrize("n", [2, TOGETHER, TOGETHER + 2, 3 * TOGETHER])
def test_questions_that_wait_are_encoded_together(n: int) -> None:
    known, encode = QuestionStates(), Blocked()
    texts = [f"question {'!' * (i % 7)} {i}" for i in range(n)]
    assert [text_of(result()) for result in ask_all(known, texts, encode)] == texts
    assert encode.batches[0] == texts[:1]
    assert sorted(text for batch in encode.batches for text in batch) == sorted(texts)
    sizes = [len(batch) for batch in encode.batches[1:]]
    assert sizes == [TOGETHER] * ((n - 1) // TOGETHER) + [(n - 1) % TOGETHER] * bool((n - 1) % TOGETHER)


def test_equal_questions_are_encoded_once() -> None:
    known, encode = QuestionStates(), Blocked()
    results = ask_all(known, ["first", *["again"] * 20], encode)
    assert [text_of(result()) for result in results] == ["first", *["again"] * 20]
    assert encode.batches == [["first"], ["again"]]
    known.get("again", encode)
    assert len(encode.batches) == 2


def test_the_last_questions_are_kept() -> None:
    known, batches = QuestionStates(), []

    def encode(texts: list[str]) -> States:
        batches.append(texts)
        return encoded(texts)

    for i in range(LAST_QUESTIONS):
        known.get(str(i), encode)
    known.get("0", encode)  # is now the youngest
    known.get("new", encode)
    known.get("0", encode)
    assert batches[LAST_QUESTIONS:] == [["new"]]
    known.get("1", encode)
    assert batches[LAST_QUESTIONS:] == [["new"], ["1"]]


def test_a_failure_reaches_its_question_and_nobody_after_it() -> None:
    class Failing(Blocked):
        def __call__(self, texts: list[str]) -> States:
            states = super().__call__(texts)
            if "bad" in texts:
                raise MemoryError("too long")
            return states

    known, encode = QuestionStates(), Failing()
    first, good, bad, better = ask_all(known, ["first", "good", "bad", "better"], encode)
    assert [text_of(result()) for result in (first, good, better)] == ["first", "good", "better"]
    with pytest.raises(MemoryError, match="too long"):
        bad()
    assert not known._waiting
    known.encode_ahead(["bad", "best"], encode)
    with pytest.raises(MemoryError, match="too long"):
        known.get("bad", encode)
    assert text_of(known.get("best", encode)) == "best"


@pytest.mark.parametrize("name", ["ap-transformer", "ap-cnn", "global-local"])
def test_a_question_has_the_same_scores_beside_others(name: str, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / "c")
    alone = [Ranker.from_pretrained(folder, "cpu").score(text, TEXTS) for text in TEXTS]
    ranker = Ranker.from_pretrained(folder, "cpu")
    start = threading.Barrier(len(TEXTS))

    def score(text: str) -> torch.Tensor:
        start.wait(SECONDS)
        return ranker.score(text, TEXTS)

    with ThreadPoolExecutor(len(TEXTS)) as threads:
        together = list(threads.map(score, TEXTS))
    for one, other in zip(alone, together, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-5)
