"""Files that change under a running server, and a site that has grown large; both have a command of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from .large_site import MOST_MEGABYTES, MOST_SECONDS, costs_of
from .replaced_faq import replace_and_ask, report

SECONDS = 120


@pytest.mark.slow
def test_a_faq_that_is_replaced_every_second(tmp_path: Path, checkpoint: Path) -> None:
    """`python -m web.replaced_faq` does it for ten minutes."""
    seen = replace_and_ask(tmp_path, checkpoint, SECONDS)
    told = report(seen, len(seen.measures["threads"]) + 1)
    assert not seen.faults, told
    assert seen.asked > SECONDS, told
    assert seen.switches > SECONDS / 3, told
    for name, more in {"megabytes beside the cache": 16, "threads": 3, "open files": 8}.items():
        before, after = seen.grown(name)
        assert after <= before + more, told
    for name in ("temporary files", "files beside the FAQ"):
        before, after = seen.grown(name)
        assert after <= before, told


@pytest.mark.slow
def test_no_route_and_no_report_of_a_large_site_takes_long() -> None:
    """A quarter of what `python -m web.large_site` has, and a quarter of its time."""
    costs = [*costs_of(entries=12_500, asked=5_000)]
    told = "\n".join(map(str, costs))
    assert max(cost.seconds for cost in costs) < MOST_SECONDS / 4 + 5, told
    assert max(cost.megabytes for cost in costs) < MOST_MEGABYTES, told
