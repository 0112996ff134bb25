"""A short slice of `make crash`."""

from __future__ import annotations

import random

import pytest

from crash.run import crash, table


@pytest.mark.parametrize(("kills", "disks"), [(1, 1), pytest.param(10, 2, marks=pytest.mark.slow)])
def test_kills_and_full_disks(kills: int, disks: int) -> None:
    seed = random.SystemRandom().randrange(10**6)
    counts = crash(seed, kills=kills, disks=disks)
    faults = [f"{name}: {fault}" for name, each in counts.items() for fault in each.lost]
    assert not faults, f"seed {seed}\n{table(counts)}\n" + "\n".join(faults)
    assert sum(each.kills for each in counts.values()) == kills, f"seed {seed}\n{table(counts)}"
    for each in counts.values():
        if each.skipped:
            pytest.skip(f"no disk was filled, as nothing can be mounted here: {each.skipped}")
    assert sum(each.disks for each in counts.values()) == disks
