"""The table of a cluster that holds everything is what the benchmark measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "archive" / "scaling.md"
FILES = ("elasticsearch_servers.json", "elasticsearch_million.json")
MEASURES = ("requests", "KB", "ms", "client ms", "engine ms")


def _cells(measured: dict[str, Any]) -> list[str]:
    """What a column of the table says, from the top."""
    entries = measured["entries"]
    cells = [
        f"{measured['entries_of_the_table']:,}",
        f"{entries:,}",
        f"{measured['seconds_of_index'] / 60:.0f} min",
        f"{entries / measured['seconds_of_index']:.0f}",
        f"{1000 * measured['processor_seconds_of_parts'] / entries:.1f} ms",
        f"{1000 * measured['processor_seconds_of_nodes'] / entries:.1f} ms",
        f"{measured['bytes_on_disk'] / entries:,.0f}",
        ", ".join(heap.removesuffix("mb").split(".")[0] for heap in measured["heap"]) + " MB",
        ", ".join(f"{seconds:.1f} s" for seconds in measured["first_answer_seconds"]),
        f"{sum(measured['ap_ranker_encoded_answers_total']):.0f}",
    ]
    for costs in measured["a_question"].values():
        requests, kilobytes, *milliseconds = (costs[name] for name in MEASURES)
        times = " / ".join(f"{value:.0f}" for value in milliseconds)
        cells.append(f"{requests:.1f}; {kilobytes:.0f} KB; {times} ms")
    cells.append(f"{measured['questions_a_second_of_one']:.0f}, {measured['questions_a_second_of_two']:.0f}")
    return cells


def test_the_page_has_the_measured_numbers() -> None:
    measured = [json.loads((ROOT / "benchmarks" / name).read_text(encoding="utf-8")) for name in FILES]
    section = PAGE.read_text(encoding="utf-8").split("### A million: a cluster")[1]
    table = section[section.index("| |") :].split("\n\n")[0]
    lines = table.splitlines()[2:]
    shown = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines]
    columns = list(zip(*shown, strict=True))
    assert columns == [tuple(_cells(one)) for one in measured]
    for one in measured:
        assert one["entries"] == one["entries_of_the_table"]
        assert one["killed_while_running"]


def test_servers_answer_as_the_store_in_memory_does() -> None:
    """Texts of which the ranker makes the same may change places: their scores are equal."""
    measured = json.loads((ROOT / "benchmarks" / FILES[0]).read_text(encoding="utf-8"))
    assert measured["same_scores"] == measured["questions"] == 500
    assert measured["within_tolerance"]
