"""What counts as cold and warm, on systems whose time is known because they move the clock themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from haystack import Document
from refusals import refused

from ap_ranker.data.dataset import Answer, Dataset, Question
from ap_ranker.ranking.bm25 import BM25
from benchmarks import latency
from benchmarks.corpus import Corpus
from benchmarks.latency import Latency, Times, measure
from benchmarks.systems import System

ANSWERS = [f"parcel {'refund ' * (row % 3)}number{row}" for row in range(12)]
QUESTIONS = [f"parcel refund number{row}" for row in range(12)]
DATA = Dataset(
    "data",
    [Answer(str(row), text) for row, text in enumerate([*ANSWERS, ANSWERS[0]])],
    [Question(str(row), text, (0,)) for row, text in enumerate([*QUESTIONS, QUESTIONS[0]])],
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Fake(System):
    """Takes 1 ms per new document and `per_question` seconds per question, more for each question that it answers.

    The call with number `hiccup` takes 9 seconds more.
    """

    name: str
    clock: Clock
    caches: bool = True
    per_question: float = 0.1
    hiccup: int = 0
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    since_forgetting: list[list[str]] = field(default_factory=lambda: [[]])

    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        contents = tuple(document.content or "" for document in documents)
        self.since_forgetting[-1].append(query)
        self.asked.append((query, contents))
        self.clock.now += self.per_question + 0.001 * len(set(contents) - self.known) + 0.01 * len(self.asked)
        self.clock.now += 9 * (len(self.asked) == self.hiccup)
        self.known |= set(contents)
        return {"documents": documents}

    def forget(self) -> None:
        self.known.clear()
        self.since_forgetting.append([])

    @property
    def cached(self) -> tuple[int, int]:
        return len(self.known), 100 * len(self.known)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(latency, "perf_counter", found)
    return found


def run(systems: list[Fake], candidates: list[int], questions: int = 6) -> list[Latency]:
    return measure(systems, Corpus.of(DATA, questions), candidates, None, lambda _: None)


def test_corpus() -> None:
    corpus = Corpus.of(DATA, 4)
    assert corpus.texts == ANSWERS  # the repeated one is one
    assert corpus.questions == list(zip(QUESTIONS[:4], QUESTIONS[4:8], strict=True))
    assert Corpus.of(DATA, 50).questions == list(zip(QUESTIONS[:6], QUESTIONS[6:], strict=True))
    index = BM25(ANSWERS)
    for (question, _), found in zip(corpus.questions, corpus.candidates(5), strict=True):
        scores = index.scores(question).tolist()
        best = sorted(range(len(ANSWERS)), key=lambda row: (-scores[row], row))[:5]
        assert [document.content for document in found] == [ANSWERS[row] for row in best]


def test_one_question_is_too_few() -> None:
    data = Dataset("data", DATA.answers, [DATA.questions[0], DATA.questions[-1]])
    with refused("data … 1"):
        Corpus.of(data, 3)


def test_percentiles() -> None:
    assert Times.of([number / 1000 for number in range(101)]) == Times(pytest.approx(50), pytest.approx(95))


def test_cold_and_warm(clock: Clock) -> None:
    systems = [Fake("a", clock), Fake("b", clock, per_question=0.2)]
    rows = run(systems, [3, 5])
    assert [(row.system, row.candidates, row.questions) for row in rows] == [
        ("a", 3, 6), ("b", 3, 6), ("a", 5, 6), ("b", 5, 6)
    ]  # fmt: skip
    corpus = Corpus.of(DATA, 6)
    for system in systems:
        *_, last = system.since_forgetting
        assert last == list(corpus.questions[-1])
        # For each number of candidates two untimed runs, which are then forgotten, and two timed ones per question.
        assert len(system.asked) == 2 * (2 + 12)
        timed = system.asked[2:14]
        for (cold, warm), first, second in zip(corpus.questions, timed[::2], timed[1::2], strict=True):
            assert (first[0], second[0]) == (cold, warm)
            assert first[1] == second[1]
        assert all(len(set(asked)) == len(asked) for asked in system.since_forgetting)
    # The kth call costs 10 ms times k: those timed with 3 candidates are calls 3 to 14, cold and warm in turn.
    first = rows[0]
    assert first.cold.p50 == pytest.approx(100 + 3 + 10 * (3 + 13) / 2)
    assert first.warm.p50 == pytest.approx(100 + 10 * (4 + 14) / 2)
    assert first.cold.p95 == pytest.approx(100 + 3 + 10 * (13 - 0.05 * 10))
    assert first.questions_per_second == pytest.approx(1000 / (100 + 10 * 9))
    assert first.bytes_per_answer == 100
    assert first.weights_megabytes is None
    assert first.bandwidth_share is None


def test_what_keeps_nothing_is_measured_once(clock: Clock) -> None:
    system = Fake("a", clock, caches=False)
    (row,) = run([system], [3])
    assert row.cold == row.warm
    assert len(system.asked) == 2 + 6


def test_slow_systems_are_measured_on_few_questions(clock: Clock) -> None:
    slow, fast = Fake("slow", clock, per_question=5.1), Fake("fast", clock)
    rows = run([slow, fast], [3])
    assert [row.questions for row in rows] == [3, 6]
    assert len(slow.asked) == 1 + 2 * 3  # not warmed up twice either


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 7])
def test_one_slow_call_does_not_make_a_slow_system(clock: Clock, call: int) -> None:
    (row,) = run([Fake("a", clock, hiccup=call)], [3])
    assert row.questions == 6


def test_bandwidth(clock: Clock) -> None:
    """Of 3 candidates 300 bytes are read in the warm time."""
    tokens, vector = Fake("tokens", clock), Fake("vector", clock)
    tokens.token_states = True
    rows = measure([tokens, vector], Corpus.of(DATA, 6), [3], 10_000.0, lambda _: None)
    assert rows[0].bandwidth_share == pytest.approx(300 / (rows[0].warm.p50 / 1000) / 10_000)
    assert rows[1].bandwidth_share is None
