"""A FAQ that is replaced every second while visitors ask: what they get, and what the server keeps of old versions.

python -m web.replaced_faq [--seconds 600]
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
from conftest import write_checkpoint
from searches import write_pipeline

from web.own_server import serving

LASTING, CHANGING = 110, 10
"""Number of entries that all versions have, and of those that one version alone has: a file that lost a tenth of its
entries would not be served."""

VISITORS = 3

LAG = 20.0
"""Seconds after which no visitor may get an entry that is gone: its file's next looks, and reading it, take less."""

CODE = re.compile(r"version(\d+)x item(\d+)x")


@dataclass
class Seen:
    """What visitors and the watcher of the process saw.

    Attributes:
        asked: number of answered questions.
        faults: what must not be, in words.
        versions: those of which an answer came.
        switches: number of versions that the server switched to.
        longest: seconds that the oldest entry shown had been gone for.
        measures: name -> its values, in order of time: what must not grow without end.
    """

    asked: int = 0
    faults: list[str] = field(default_factory=list)
    versions: set[int] = field(default_factory=set)
    switches: int = 0
    longest: float = 0.0
    measures: dict[str, list[int]] = field(default_factory=dict)

    def grown(self, name: str) -> tuple[int, int]:
        """The most of a measure in the second and in the last quarter of the time."""
        values = self.measures[name]
        quarter = max(1, len(values) // 4)
        return max(values[quarter : 2 * quarter]), max(values[-quarter:])


class Faq:
    """The file, and when each version of it was there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.version = 0
        self._gone: dict[int, float] = {}
        self.replace()

    def replace(self) -> None:
        """Put the next version in the place of this one, in one step."""
        number = self.version + 1
        rows = [f"where is the thing number {row} of all,lasting answer {row}" for row in range(LASTING)]
        rows += [
            f"what is code number{row}x of version{number}x,version{number}x item{row}x" for row in range(CHANGING)
        ]
        draft = self._path.with_name("draft")
        draft.write_text("question,answer\n" + "\n".join(rows) + "\n")
        draft.replace(self._path)
        self._gone[self.version] = time.monotonic()
        self.version = number

    def seconds_gone(self, version: int, when: float) -> float:
        """How long a version had been gone at a time; 0 if it was there."""
        return max(0.0, when - self._gone.get(version, when))


def look_at(answers: list[dict[str, str]], faq: Faq, asked_at: float, seen: Seen) -> None:
    """Compare what a visitor got with what there was when they asked."""
    versions = set()
    for answer in answers:
        found = CODE.fullmatch(answer["answer"])
        if found is None:
            continue
        versions.add(int(found[1]))
        if answer["question"] != f"what is code number{found[2]}x of version{found[1]}x":
            seen.faults.append(f"the answer {answer['answer']!r} came with the question {answer['question']!r}")
    if len(versions) > 1:
        seen.faults.append(f"one response had entries of the versions {sorted(versions)}")
    for version in versions:
        gone = faq.seconds_gone(version, asked_at)
        seen.longest = max(seen.longest, gone)
        if gone > LAG:
            seen.faults.append(f"an entry of version {version} was shown {gone:.0f} seconds after it was gone")
    seen.versions |= versions


def replace_and_ask(folder: Path, checkpoint: Path, seconds: float, tell: Callable[[str], None] = print) -> Seen:
    """Serve a FAQ, replace it every second for so long, and ask meanwhile."""
    seen, faq, ended = Seen(), Faq(folder / "FAQ.csv"), threading.Event()
    write_pipeline(folder, checkpoint)
    (folder / "tmp").mkdir()
    with serving(folder, "--rate", "0", environment={"TMPDIR": str(folder / "tmp")}) as server:
        address, process = server.address, server.process

        def ask(seed: int) -> None:
            rng = random.Random(seed)
            with httpx.Client(base_url=address, timeout=60) as client:
                while not ended.is_set():
                    version = max(1, faq.version - rng.choice([0, 0, 1, 2, 5, 30]))
                    question = f"what is code number{rng.randrange(CHANGING)}x of version{version}x"
                    asked_at = time.monotonic()
                    response = client.post("/api/search", json={"question": question})
                    if response.status_code != 200:
                        seen.faults.append(f"status {response.status_code}: {response.text[:200]}")
                        continue
                    look_at(response.json()["answers"], faq, asked_at, seen)
                    seen.asked += 1
                    time.sleep(0.05)

        visitors = [threading.Thread(target=ask, args=(seed,)) for seed in range(VISITORS)]
        for visitor in visitors:
            visitor.start()
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            time.sleep(1)
            faq.replace()
            _measure(process, folder, address, seen)
            if faq.version % 30 == 0:
                latest = {name: values[-1] for name, values in seen.measures.items()}
                tell(f"{faq.version} versions, {len(seen.versions)} of them seen, {seen.asked} answers, {latest}")
        _wait_for_the_last(address, faq, seen)
        ended.set()
        for visitor in visitors:
            visitor.join()
    seen.switches = server.said().count("has changed")
    return seen


def _wait_for_the_last(address: str, faq: Faq, seen: Seen) -> None:
    end = time.monotonic() + LAG
    question = {"question": f"what is code number1x of version{faq.version}x"}
    while faq.version not in seen.versions:
        if time.monotonic() > end:
            seen.faults.append(f"the last version was not served within {LAG:.0f} seconds")
            return
        httpx.post(f"{address}/api/search", json=question, timeout=60)
        time.sleep(0.2)


def _measure(process: psutil.Process, folder: Path, address: str, seen: Seen) -> None:
    told = httpx.get(f"{address}/metrics", timeout=60).text
    of_cache = re.search(r"^ap_ranker_cache_bytes (\S+)$", told, flags=re.MULTILINE)
    assert of_cache is not None, told
    measures = {
        "megabytes beside the cache": round((process.memory_info().rss - float(of_cache[1])) / 2**20),
        "threads": process.num_threads(),
        "open files": process.num_fds(),
        "temporary files": sum(len(files) for _, _, files in os.walk(folder / "tmp")),
        "files beside the FAQ": len([path for path in folder.iterdir() if path.name != "draft"]),
    }
    for name, value in measures.items():
        seen.measures.setdefault(name, []).append(value)


def report(seen: Seen, versions: int) -> str:
    """One line for each thing that was watched."""
    lines = [f"{seen.asked} answers; {versions} versions, {seen.switches} switched to, {len(seen.versions)} seen"]
    lines += [f"an entry was shown at most {seen.longest:.1f} s after it was gone"]
    for name in seen.measures:
        before, after = seen.grown(name)
        lines.append(f"{name}: at most {before} in the second quarter, {after} in the last")
    return "\n".join([*lines, *(f"FAULT: {fault}" for fault in seen.faults[:20]), f"{len(seen.faults)} faults"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        checkpoint = write_checkpoint("ap-cnn", Path(name) / "checkpoint")
        folder = Path(name) / "site"
        folder.mkdir()
        seen = replace_and_ask(folder, checkpoint, wanted.seconds, lambda line: print(line, flush=True))
        print(report(seen, len(seen.measures["threads"]) + 1))
        print((folder / "server.log").read_text()[-3000:])
    return 1 if seen.faults else 0


if __name__ == "__main__":
    sys.exit(main())
