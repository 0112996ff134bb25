"""`make crash`: 200 kills and 20 full disks, and one table of what came of them.

python -m crash.run [--seed 1] [--kills 200] [--disks 20] [--only serve]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from disks import MountError, small_disk

from crash.killer import Commands, commands, moments
from crash.oracle import LostError
from crash.scenarios import SCENARIOS, Scenario, prepare

KILOBYTES = 8192
"""Of the disk that is filled: a template and a run fit."""

TOLD = 10
"""Number of kills between two lines about how far it is: a server's two starts take seconds of processor time."""


@dataclass
class Count:
    """What came of the trials of a command."""

    kills: int = 0
    disks: int = 0
    lost: list[str] = field(default_factory=list)
    skipped: str = ""


def shares(total: int, parts: int) -> list[int]:
    """`total` in nearly equal parts; the first ones are the larger ones."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def crash(seed: int, kills: int, disks: int, tell: Callable[[str], None] = print, only: str = "") -> dict[str, Count]:
    """Kill each command, or `only` one, and fill its disk, so often in all."""
    scenarios = [each for each in SCENARIOS if only in ("", each.name) and not each.missing()]
    counts = {each.name: Count() for each in scenarios}
    on_disk = [each.name for each in scenarios if each.room]
    n_disks = dict(zip(on_disk, shares(disks, len(on_disk)), strict=True)) if on_disk else {}
    with tempfile.TemporaryDirectory() as name, commands() as run:
        template = Path(name) / "template"
        prepare(run, template)
        for kind, n_kills in zip(scenarios, shares(kills, len(scenarios)), strict=True):
            wanted = n_disks.get(kind.name, 0)
            if not n_kills and not wanted:
                continue
            started, count, rng = time.perf_counter(), counts[kind.name], random.Random(f"{seed} {kind.name}")

            def tell_count(end: str = "") -> None:
                seconds = time.perf_counter() - started  # noqa: B023
                done = f"{count.kills} kills, {count.disks} full disks, {len(count.lost)} faults"  # noqa: B023
                tell(f"{kind.name}: {done}, {seconds:.0f} s{end}")  # noqa: B023

            with kind.opened(run, template, Path(name) / "scratch") as scenario:
                for moment in islice(moments(rng, scenario.seconds, scenario.dangerous), 5 * n_kills):
                    if count.kills == n_kills:
                        break
                    count.kills += _tried(count, f"{moment}", lambda: scenario.kill(moment, rng))  # noqa: B023
                    if count.kills % TOLD == 0:
                        tell_count(" ...")
            if wanted:
                _fill_disks(kind, run, template, Path(name) / "disk", wanted, rng, count)
            tell_count()
            for fault in count.lost:
                tell(f"  {fault}")
    return counts


def _fill_disks(
    kind: type[Scenario], run: Commands, template: Path, place: Path, wanted: int, rng: random.Random, count: Count
) -> None:
    try:
        with _scenario_on_disk(kind, run, template, place) as scenario:
            for _ in range(5 * wanted):
                if count.disks < wanted:
                    count.disks += _tried(count, "full disk", lambda: scenario.fill_disk(rng))
    except MountError as reason:
        count.skipped = str(reason)


@contextmanager
def _scenario_on_disk(kind: type[Scenario], run: Commands, template: Path, place: Path) -> Iterator[Scenario]:
    with small_disk(place / kind.name, KILOBYTES):
        yield kind(run, template, place)


def _tried(count: Count, what: str, trial: Callable[[], bool]) -> bool:
    """Whether it counts: a command may have been faster than the kill."""
    try:
        return trial()
    except (LostError, TimeoutError, ValueError, OSError, AssertionError) as error:
        count.lost.append(f"{what}: {type(error).__name__}: {error}")
        return True


def table(counts: dict[str, Count]) -> str:
    """One line for each command and one for all."""
    rows = [("command", "kills", "full disks", "faults")]
    rows += [(name, *map(str, (each.kills, each.disks, len(each.lost)))) for name, each in counts.items()]
    sums = (sum(each.kills for each in counts.values()), sum(each.disks for each in counts.values()))
    rows.append(("all", *map(str, sums), str(sum(len(each.lost) for each in counts.values()))))
    return "\n".join(f"{name:20}" + "".join(f"{value:>12}" for value in values) for name, *values in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--disks", type=int, default=20)
    parser.add_argument("--only", choices=[each.name for each in SCENARIOS], default="")
    wanted = parser.parse_args()
    print(f"seed {wanted.seed}", flush=True)
    counts = crash(wanted.seed, wanted.kills, wanted.disks, lambda line: print(line, flush=True), wanted.only)
    print(table(counts))
    for each in SCENARIOS:
        if each.missing():
            print(f"{each.name} was not killed: {each.missing()}")
    for reason in {each.skipped for each in counts.values() if each.skipped}:
        print(f"No disk was filled, as nothing can be mounted here: {reason}")
    found = [sum(values) for values in zip(*((e.kills, e.disks, len(e.lost)) for e in counts.values()), strict=True)]
    fills = any(each.room for each in SCENARIOS if each.name in counts)
    return 0 if found == [wanted.kills, wanted.disks if fills else 0, 0] else 1


if __name__ == "__main__":
    sys.exit(main())
