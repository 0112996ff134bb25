"""Many users, idle connections beside them, and a SIGTERM while they ask: nothing fails, nothing is cut or lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from conftest import ROOT, TEXTS, imported
from searches import write_pipeline

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with imported(ROOT / "examples" / "serve_load" / "run.py") as module:
        yield module


@pytest.fixture
def options(tmp_path: Path, checkpoint: Path, faq: Path) -> list[str]:
    return ["--documents", str(faq), "--pipeline", str(write_pipeline(tmp_path, checkpoint))]


def test_twenty_users_idle_connections_and_the_end(script: ModuleType, options: list[str]) -> None:
    found = script.measure(options, TEXTS, 20, 2.0, idle_connections=20, stop=True)
    assert found.errors == {}
    assert found.requests >= 20  # on a slow machine: one of each user
    assert found.clicks > 0
    assert (found.idle, found.stopped) == (20, True)
    assert found.seconds < 2 + 60


def test_what_goes_wrong_is_counted(script: ModuleType, tmp_path: Path) -> None:
    """Clicks that were acknowledged and are not in the database; of a visit and a question, the last one counts."""
    place = tmp_path / "faq.db"
    judgements = Judgements(open_database(str(place)))
    for visit, helped in (("a", True), ("a", False), ("c", True)):
        judgements.keep(question="q", answer="", stored_question="", helped=helped, network="n", visit=visit)
    asked = SimpleNamespace(judged=[("a", "q", 1), ("a", "q", 0), ("b", "q", 0), ("c", "q", 0)], unsure=set())
    assert script.lost_clicks(asked, place) == 2
    asked.unsure = {("b", "q"), ("c", "q")}  # another click of theirs may have been kept
    assert script.lost_clicks(asked, place) == 1
