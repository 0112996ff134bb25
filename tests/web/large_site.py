"""A site of 50,000 entries and 20,000 logged questions: how long each route of the owner's page and each report takes.

python -m web.large_site [--entries 50000] [--questions 20000]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from conftest import write_checkpoint
from searches import write_pipeline
from sqlalchemy import insert

from ap_ranker.ranking.outcome import Outcome
from ap_ranker.web.changes import Action, Change, insert_change
from ap_ranker.web.database import judgements, now, open_database, questions
from ap_ranker.web.judgements import key_of_answer, key_of_question
from ap_ranker.web.visitors import DAY
from web.own_server import OWNER, serving

MOST_SECONDS, MOST_MEGABYTES = 20.0, 2048.0
"""What no route and no command may take; the server has the second one in all."""

ASKED = ["how do I {}", "where can I {} please", "is it possible to {}", "I want to {}", "why does it not let me {}"]


@dataclass(frozen=True)
class Cost:
    """What one request or command took.

    Attributes:
        name: the route or the command.
        seconds: until its last byte.
        kilobytes: of its answer, or of the file it wrote.
        megabytes: the most memory that the server or the command had until then.
    """

    name: str
    seconds: float
    kilobytes: float
    megabytes: float

    def __str__(self) -> str:
        return f"{self.name:44}{self.seconds:9.2f} s{self.kilobytes:11,.0f} KB{self.megabytes:9,.0f} MB"


def words_of(rng: random.Random, pool: list[str], count: int) -> str:
    return " ".join(rng.choices(pool, k=count))


def word_pool(rng: random.Random) -> list[str]:
    """Words that can be spoken, as many as people use."""
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    return ["".join(rng.choices(syllables, k=rng.randrange(2, 4))) for _ in range(5000)]


def write_site(folder: Path, checkpoint: Path, entries: int, asked: int) -> None:
    """A FAQ, and a database in which visitors have asked and judged for a month, and the owner has changed entries."""
    rng = random.Random(7)
    pool = word_pool(rng)
    write_pipeline(folder, checkpoint)
    faq = [
        (f"{rng.choice(ASKED).format(words_of(rng, pool, 4))} {row}", f"{words_of(rng, pool, 25)} {row}.")
        for row in range(entries)
    ]
    text = "".join(f"{question},{answer}\n" for question, answer in faq)
    (folder / "FAQ.csv").write_text(f"question,answer\n{text}")
    database = open_database(folder / "FAQ.db")
    outcomes = [Outcome.NONE, Outcome.NONE, Outcome.MAYBE, Outcome.ANSWER, Outcome.ANSWER]
    logged, judged = [], []
    for row in range(asked):
        question = rng.choice(ASKED).format(words_of(rng, pool, rng.randrange(2, 6)))
        key, time_ = key_of_question(question), now() - rng.randrange(30 * DAY)
        of_log = {"time": time_, "question": question, "question_key": key, "entry": "", "score": rng.random()}
        logged.append(of_log | {"outcome": rng.choice(outcomes).value})
        stored, answer = rng.choice(faq)
        said = {"question": question, "question_key": key, "answer": answer, "answer_key": key_of_answer(answer)}
        who = {"time": time_, "visit": f"v{row}", "network": f"n{row % 500}", "counts": True}
        judged.append(said | who | {"stored_question": stored, "comment": "", "helped": rng.random() < 0.4})
    with database.writing("questions", "judgements") as connection:
        connection.execute(insert(questions), logged)
        connection.execute(insert(judgements), judged)
    with database.writing("changes") as connection:
        for row in range(asked // 20):
            new = {"question": f"what is new about {words_of(rng, pool, 3)} {row}", "answer": words_of(rng, pool, 20)}
            insert_change(connection, Change.make(Action.add_entry, **new))
    database.close()


class Watch:
    """The most memory that a process had, looked at all the time."""

    def __init__(self, process: psutil.Process) -> None:
        self.megabytes = 0.0
        self._process, self._ended = process, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(0.05):
            try:
                self.megabytes = max(self.megabytes, self._process.memory_info().rss / 2**20)
            except psutil.Error:
                return

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def routes_of(client: httpx.Client) -> list[tuple[str, dict[str, object]]]:
    """Each route of the owner's page, and some of the page, with what is asked."""
    pages = client.post("/owner/api/entries", json={"words": "", "skip": 40_000})
    assert pages.status_code == 200, pages.text
    entry = pages.json()["entries"][0]
    named = {"entry": entry["key"], "version": entry["version"]}
    rows = client.post("/owner/api/feedback", json={}).json()
    names = ("question_key", "answer_key")
    rejected = {name: rows[0][name] for name in names} | {"state": "rejected", "wording": rows[0]["question"]}
    kept = next(row for row in rows[1:] if row["key"])
    accepted = {name: kept[name] for name in names} | {"state": "accepted", "wording": kept["question"]}
    days = {"first": str(time.strftime("%Y-%m-%d", time.gmtime(time.time() - 29 * DAY)))}
    return [
        ("/owner/api/server", {}),
        ("/owner/api/entries", {}),
        ("/owner/api/entries", {"words": "how", "skip": 5000}),
        ("/owner/api/entries", {"words": "nothing has these words"}),
        ("/owner/api/usage", {}),
        ("/owner/api/usage", days),
        ("/owner/api/feedback", {}),
        ("/owner/api/history", {}),
        ("/owner/api/gaps", {}),
        ("/owner/api/new", {}),
        ("/owner/api/overview", {}),
        ("/owner/api/quality", {}),
        ("/owner/api/choices", {"questions": ["a wording of its own"]}),
        ("/owner/api/preview", {"entry": kept["key"], "wordings": ["a wording of its own"]}),
        ("/owner/api/change", {"action": "change entry", **named, "answer": "Another answer."}),
        ("/owner/api/change", {"action": "add entry", "question": "what is the newest", "answer": "This is."}),
        ("/owner/api/change", {"action": "add wordings", "entry": kept["key"], "wordings": ["a wording of its own"]}),
        ("/owner/api/entries", {"words": "newest"}),
        ("/owner/api/decide", rejected),
        ("/owner/api/decide", accepted | {"entry": kept["key"]}),
        ("/api/search", {"question": "how do I get the newest"}),
        ("/api/suggest", {"text": "how do"}),
        ("/api/browse", {}),
    ]


def cost_of_routes(folder: Path) -> Iterator[Cost]:
    """What each route takes; of the gaps, until all groups are there."""
    with serving(folder, "--rate", "0") as server, httpx.Client(base_url=server.address, timeout=600) as client:
        client.headers.update(OWNER)
        server.wait_until_it_says("are encoded", seconds=600)
        watch = Watch(server.process)

        def ask(name: str, work: object) -> Cost:
            started = time.perf_counter()
            response = client.get(name) if work is None else client.post(name, json=work)
            seconds = time.perf_counter() - started
            assert response.status_code == 200, f"{name} {work}: {response.status_code} {response.text[:300]}"
            return Cost(f"{name} {str(work or '')[:24]}", seconds, len(response.content) / 1024, watch.megabytes)

        for name in ("/owner", "/owner/usage.csv", "/health", "/metrics"):
            yield ask(name, None)
        for name, work in routes_of(client):
            yield ask(name, work)
        change = client.post("/owner/api/history", json={}).json()[0]["id"]
        yield ask("/owner/api/undo", {"change": change})
        yield ask("/owner/api/gaps", {})
        started = time.perf_counter()
        while client.post("/owner/api/gaps", json={}).json()["grouping"]:
            assert time.perf_counter() - started < 300
            time.sleep(0.5)
        yield Cost("all groups of gaps are there after", time.perf_counter() - started, 0, watch.megabytes)
        watch.end()


COMMANDS = {
    "gaps": ["owner", "gaps", "FAQ.csv", "--model", "checkpoint", "--output", "output.csv"],
    "report": ["owner", "report", "FAQ.csv", "--output", "output.html"],
    "feedback list": ["owner", "feedback", "list", "--database", "FAQ.db"],
    "feedback export": ["owner", "feedback", "export", "output.jsonl", "--database", "FAQ.db"],
    "feedback delete": ["owner", "feedback", "delete", "--database", "FAQ.db", "--visit", "v1"],
    "changes": ["owner", "changes", "FAQ.csv", "--output", "output.csv"],
}


def cost_of_command(folder: Path, name: str) -> Cost:
    """What a command takes, with its start."""
    for output in folder.glob("output.*"):
        output.unlink()
    started = time.perf_counter()
    with (folder / "command.log").open("w") as log:
        process = psutil.Popen([sys.executable, "-m", "ap_ranker", *COMMANDS[name]], cwd=folder, stdout=log, stderr=log)
        watch = Watch(process)
        try:
            assert process.wait(300) == 0, (folder / "command.log").read_text()[-2000:]
        except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
            process.kill()
            raise
    watch.end()
    size = sum(path.stat().st_size for path in (*folder.glob("output.*"), folder / "command.log"))
    return Cost(f"ap-ranker {name}", time.perf_counter() - started, size / 1024, watch.megabytes)


def costs_of(entries: int, asked: int) -> Iterator[Cost]:
    """What all routes and commands take on a site of this size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_site(folder, write_checkpoint("ap-transformer", folder / "checkpoint"), entries, asked)
        yield from cost_of_routes(folder)
        for command in COMMANDS:
            yield cost_of_command(folder, command)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=50_000)
    parser.add_argument("--questions", type=int, default=20_000)
    wanted = parser.parse_args()
    costs = []
    for cost in costs_of(wanted.entries, wanted.questions):
        costs.append(cost)
        print(cost, flush=True)
    return 1 if any(cost.seconds > MOST_SECONDS or cost.megabytes > MOST_MEGABYTES for cost in costs) else 0


if __name__ == "__main__":
    sys.exit(main())
