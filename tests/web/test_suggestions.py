"""Suggestions while typing."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from conftest import TEXTS

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from ap_ranker.data.faq import Entry, Match
from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import suggestions as suggestions_module
from ap_ranker.web.suggestions import LiveSuggestions, Suggestions
from haystack_integrations.common.ap_ranker.entries import to_document

from .visiting import client_of

QUESTIONS = ["Where is my parcel?", "When does my bike arrive?", "Wo ist mein Fahrrad?", "Über uns", "我的包裹在哪里？"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("wh", [0, 1]),
        ("  WHERE   is", [0]),
        ("my", [0, 1]),  # words inside
        ("bik my", [1]),  # in any order, all of them
        ("my bik x", []),
        ("uber", [3]),
        ("ÜB", [3]),
        ("我的", [4]),
        ("?", []),
        (" ", []),
        ("ere", []),  # words that begin so, not those that end so
    ],
)
def test_beginnings(typed: str, expected: list[int]) -> None:
    assert Suggestions(QUESTIONS).find(typed) == [QUESTIONS[row] for row in expected]


def test_beginnings_of_the_text_come_first_and_equal_texts_once() -> None:
    known = Suggestions(["My bike is gone", "A bike  that is new", "Bike lights?", "BIKE LIGHTS?", "x" * 151])
    assert known.find("bike") == ["Bike lights?", "My bike is gone", "A bike that is new"]
    assert known.find("bike", 2) == ["Bike lights?", "My bike is gone"]
    assert known.find("x") == []  # too long to be shown


def test_many_texts_take_no_time() -> None:
    random = Random(0)
    words = [f"w{number}" for number in range(2000)]
    texts = [" ".join(random.choices(words, k=8)) for _ in range(50_000)]
    known = Suggestions(texts)
    started = time.thread_time()
    for typed in ("w", "w1 w2", "w w w w w w w w", "nothing", "w" * 1000, "w1 " * 300):
        known.find(typed)
    assert (time.thread_time() - started) / 6 < 0.2  # seconds


async def test_stored_questions_wordings_and_files(
    search: DeclaredPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestions_module, "LOOK_SECONDS", 0.0)
    entry = Entry("Do you sell bells?", "Yes.", {}, "", wordings=("ding for my handlebar",))
    search.index([to_document(entry, Match.both)])
    (tmp_path / "wordings.csv").write_text(f'question,answer\ntell me of two wheels,"{TEXTS[1]}"\n')
    search.warm_up()
    search.add_wordings([tmp_path / "wordings.csv"])
    live = LiveSuggestions(search)
    assert await live.find("tell") == ["tell me of two wheels"]
    assert await live.find("ding") == ["ding for my handlebar"]
    assert await live.find("where is") == ["Where is my parcel?"]
    search.index([to_document(Entry("Dinghies too?", "No.", {}, ""), Match.both)])
    live.refresh()
    assert await live.find("ding") == ["Dinghies too?", "ding for my handlebar"]  # a stored question first


def test_the_route(search: DeclaredPipeline) -> None:
    client = client_of(search, rate=1)
    assert client.post("/api/suggest", json={"text": "where"}).json() == {"suggestions": ["Where is my parcel?"]}
    assert client.post("/api/suggest", json={"text": "x" * 1001}).status_code == 422
    assert client.post("/api/suggest", json={"text": "where"}).status_code == 429
    assert client.post("/api/search", json={"question": "where"}).status_code == 200  # typing does not count there


def test_a_search_works_without_suggestions(
    search: DeclaredPipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("the store is gone")

    monkeypatch.setattr(LiveSuggestions, "refresh", fail)
    client = client_of(search)
    assert client.post("/api/suggest", json={"text": "where"}).json() == {"suggestions": []}
    assert "the store is gone" in caplog.text
