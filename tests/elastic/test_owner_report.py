"""The owner's numbers are those of a search in memory: questions, gaps, answers and what visitors said of them."""

from __future__ import annotations

import re
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import run
from forked import served
from waiting import wait_until

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from web.desk import KEY
from web.test_retrain import ACCEPTED, KNOWN, TOPICS, accept, invented, told, write_faq

from ap_ranker.web.database import open_database
from ap_ranker.web.usage import Period, usage_of
from elastic.conftest import Search


def ask_all(client: httpx.Client) -> int:
    """Ask questions of many kinds, and judge some answers; how many questions that were."""
    asked = [f"What about the {topic}?" for topic in TOPICS]
    for words in invented(ACCEPTED, seed=2):
        asked += [" ".join(pair) for pair in list(combinations(words, 2))[:2]]
        asked.append(f"{words[0]} and then {words[5]} again")
    for words in invented(KNOWN, seed=1):
        asked.append(f"what of {words[0]} {words[3]}")
    asked += ["qwertz uiop", "qwertz uiop", "do you also repair lawn mowers"]
    for number, question in enumerate(asked):
        reply = client.post("/api/search", json={"question": question})
        reply.raise_for_status()
        answers = reply.json()["answers"]
        if answers and number % 3 == 0:
            shown = {"question": question, "id": answers[0]["id"], "receipt": answers[0]["receipt"]}
            client.post("/api/feedback", json=shown | {"helped": number % 2 == 0}).raise_for_status()
    return len(asked)


def owners_numbers(site: Path, *search: object) -> tuple[dict[str, Any], list[Any], str]:
    """What was asked of a server, the gaps of its desk, and the page of `owner report`."""
    database = open_database(str(site / "FAQ.db"))

    def usage() -> dict[str, Any]:
        return usage_of(database, Period.of())

    options = ["FAQ.csv", *map(str, search), "--log-questions", "--rate", "0"]
    with (
        served(*options, folder=site) as server,
        httpx.Client(base_url=server.address, timeout=60, trust_env=False) as client,
    ):
        count = ask_all(client)
        wait_until(lambda: usage()["current"]["questions"] == count)
        client.headers["Authorization"] = f"Bearer {KEY}"

        def desk_gaps() -> Any:
            return client.post("/owner/api/gaps", json={}).json()

        wait_until(lambda: not desk_gaps()["grouping"])
        gaps = desk_gaps()["gaps"]
    printed = told(run("owner", "report", "FAQ.csv", "--output", "week.html", folder=site), 0)
    assert re.search(rf"questions\W+{count}\W+0", printed)
    return usage(), gaps, (site / "week.html").read_text(encoding="utf-8")


def test_the_numbers_are_those_of_a_search_in_memory(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AP_RANKER_OWNER_KEY", KEY)
    monkeypatch.delenv("AP_RANKER_DATABASE", raising=False)
    site = search.folder / "site"
    site.mkdir()
    write_faq(site)
    told(run("train", "FAQ.csv", "--model", "qa-cnn", "--epochs", 3, "--output", "checkpoints/faq", folder=site), 0)
    in_memory = shutil.copytree(site, search.folder / "in memory")
    for folder in (site, in_memory):
        accept(open_database(str(folder / "FAQ.db")), folder / "FAQ.csv")
    search.write_pipelines(Path("checkpoints/faq"))
    told(run("index", "FAQ.csv", "--pipeline", search.indexing, "--database", "FAQ.db", folder=site), 0)

    usage, gaps, page = owners_numbers(site, "--pipeline", search.searching)
    expected = owners_numbers(in_memory, "--model", "checkpoints/faq")
    assert usage == expected[0]
    assert gaps == expected[1]
    assert page == expected[2]
    current = usage["current"]
    assert current["none"] > 0, "some questions have no answer"
    assert current["answer"] + current["maybe"] > 0
    assert 0 < current["helped"] < current["judged"]
    assert gaps
