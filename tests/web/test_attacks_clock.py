"""The clock of a server goes an hour back, and a day forward: nobody is locked out, and nothing is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from conftest import TEXTS
from searches import write_pipeline
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from ap_ranker.search.declared_pipeline import DeclaredPipeline
from ap_ranker.web import visitors as visitors_module
from ap_ranker.web.database import open_database
from ap_ranker.web.judgements import Judgements
from ap_ranker.web.limits import Rate
from ap_ranker.web.owner.sessions import COOKIE
from ap_ranker.web.retention import delete_older

from .own_server import OWNER, OWNER_KEY, OwnServer, serving
from .visiting import answers, click, client_of, judgements_of, kept

HOUR, DAY = 3600, 24 * 3600
BACK, FORWARD = -HOUR, DAY

LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the clock of this process so many seconds off; what measures durations goes on as before."""
    now, off = time.time, [0]
    monkeypatch.setattr(time, "time", lambda: now() + off[0])

    def set_off(seconds: int) -> None:
        off[0] = seconds

    return set_off


@pytest.mark.parametrize("seconds", [BACK, FORWARD, FORWARD + BACK, -30 * DAY])
def test_visitors_go_on_asking_and_judging(
    search: DeclaredPipeline, clock: Callable[[int], None], seconds: int
) -> None:
    """Also with the receipts of answers that were shown before, and whatever their quota was."""
    client = client_of(search, rate=20.0)
    shown = answers(client)
    assert click(client, shown[0]) == 200
    clock(seconds)
    assert click(client, shown[1], visit="w") == 200
    assert click(client, answers(client)[0], visit="x") == 200
    clock(0)
    assert click(client, shown[2], visit="y") == 200
    assert len(kept(search)) == 4


def test_a_quota_is_one_days_whichever_way_the_clock_goes(
    search: DeclaredPipeline, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has used it has a new one on another day, and none twice for setting a clock an hour back and forth."""
    monkeypatch.setitem(visitors_module.QUOTAS, "judgement", 2)
    to_noon = DAY // 2 - int(time.time()) % DAY
    clock(to_noon)
    client = client_of(search)
    shown = answers(client)
    assert [click(client, shown[0], visit=f"v{number}") for number in range(3)] == [200, 200, 429]
    clock(to_noon + BACK)
    assert click(client, shown[0], visit="w") == 429
    clock(to_noon)
    assert click(client, shown[0], visit="x") == 429
    clock(to_noon + FORWARD)
    assert click(client, shown[0], visit="y") == 200


def test_limits_of_rate_do_not_look_at_the_clock(clock: Callable[[int], None]) -> None:
    rate = Rate(2.0)
    assert [rate.allows("a") for _ in range(5)] == [True] * 4 + [False]
    for seconds in (BACK, FORWARD):
        clock(seconds)
        assert not rate.allows("a")
        assert rate.allows(f"b{seconds}")


@pytest.mark.parametrize("seconds", [BACK, FORWARD])
def test_nothing_young_is_deleted(search: DeclaredPipeline, clock: Callable[[int], None], seconds: int) -> None:
    """By the retention of some days; what was kept while the clock was ahead is no exception."""
    client = client_of(search)
    shown = answers(client)
    click(client, shown[0])
    clock(seconds)
    click(client, shown[1])
    delete_older(judgements_of(search).database, days=2)
    clock(0)
    delete_older(judgements_of(search).database, days=2)
    assert len(kept(search)) == 2


@pytest.fixture
def settable(tmp_path: Path, checkpoint: Path) -> Iterator[tuple[OwnServer, Callable[[str], None]]]:
    """A real server, and what sets its clock: every program in its process sees another time."""
    libraries = [path for pattern in LIBRARIES for path in Path("/").glob(pattern.removeprefix("/"))]
    if not libraries:
        pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
    rows = "".join(f'"{question}","{answer}"\n' for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True))
    (tmp_path / "FAQ.csv").write_text(f"question,answer\n{rows}")
    write_pipeline(tmp_path, checkpoint)
    offset = tmp_path / "offset"
    offset.write_text("+0\n")
    faked = {"LD_PRELOAD": str(libraries[0]), "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1"}
    faked |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
    with serving(tmp_path, environment=faked) as server:
        yield server, lambda seconds: offset.write_text(f"{seconds}\n") and None


def test_a_server_goes_on_when_its_clock_is_set(
    settable: tuple[OwnServer, Callable[[str], None]], tmp_path: Path
) -> None:
    server, set_clock = settable
    with httpx.Client(base_url=server.address, timeout=60) as client:

        def date() -> float:
            return time.mktime(time.strptime(client.get("/health").headers["date"], "%a, %d %b %Y %H:%M:%S %Z"))

        def log_in() -> None:
            origin = {"Origin": server.address, "Sec-Fetch-Site": "same-origin"}
            assert client.post("/owner/login", data={"key": OWNER_KEY}, headers=origin).status_code == 303

        def is_logged_in() -> bool:
            return client.get("/owner").status_code == 200

        def edit(name: str) -> int:
            body = {"action": "add entry", "question": f"what is {name}", "answer": f"All of {name}."}
            return client.post("/owner/api/change", json=body).status_code

        def finds(name: str) -> bool:
            found = client.post("/api/search", json={"question": f"what is {name}"}).json()["answers"]
            return f"All of {name}." in {answer["answer"] for answer in found}

        log_in()
        assert edit("first") == 200
        wait_until(lambda: finds("first"))
        shown = client.post("/api/search", json={"question": TEXTS[0]}).json()["answers"][0]
        said = {"question": TEXTS[0], "id": shown["id"], "receipt": shown["receipt"], "helped": True}
        before = date()

        set_clock("-1h")
        wait_until(lambda: date() < before - HOUR / 2)
        assert is_logged_in()
        assert edit("back") == 200
        wait_until(lambda: finds("back"))
        assert client.post("/api/feedback", json={**said, "visit": "back"}).status_code == 200
        # A file that is as old as the clock says is followed, too.
        faq = tmp_path / "FAQ.csv"
        text = faq.read_text() + "what is older,All of older.\n"
        draft = tmp_path / "draft"
        draft.write_text(text)
        os.utime(draft, (before - 2 * DAY, before - 2 * DAY))
        draft.replace(faq)
        wait_until(lambda: finds("older"))

        set_clock("+1d")
        wait_until(lambda: date() > before + DAY / 2)
        assert finds("first")
        assert client.post("/api/feedback", json={**said, "visit": "forward"}).status_code == 200
        assert client.post("/api/suggest", json={"text": "what is"}).json()["suggestions"]
        assert not is_logged_in(), "a session has twelve hours"
        assert edit("nobody") == 401
        log_in()
        assert edit("forward") == 200
        wait_until(lambda: finds("forward"))

        set_clock("+0")
        wait_until(lambda: date() < before + HOUR)
        assert is_logged_in()
        assert edit("last") == 200
        wait_until(lambda: finds("last"))
        client.headers.update(OWNER)
        made = client.post("/owner/api/history", json={}).json()
        assert [one["question"] for one in made] == [f"what is {name}" for name in ("last", "forward", "back", "first")]
        assert client.post("/owner/api/usage", json={}).json()["current"]["judged"] >= 1
        assert client.post("/owner/api/gaps", json={}).status_code == 200
        assert COOKIE in client.cookies
    database = open_database(tmp_path / "FAQ.db")
    assert len([*Judgements(database).records()]) == 2
