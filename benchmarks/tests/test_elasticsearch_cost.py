"""The table of costs in Elasticsearch is what the benchmark measured."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "archive" / "elasticsearch.md"
MEASURES = ("requests", "KB", "ms", "client ms", "engine ms", "questions/s")
DECIMALS = (1, 0, 0, 0, 0, 1)


def test_the_page_has_the_measured_numbers() -> None:
    measured = json.loads((ROOT / "benchmarks" / "elasticsearch_cost.json").read_text(encoding="utf-8"))
    section = PAGE.read_text(encoding="utf-8").split("## What a question costs")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(table) == len(measured) == 15
    for line, row in zip(table, measured, strict=True):
        _, answers, _, *cells, _ = [cell.strip() for cell in line.split("|")]
        assert answers in ("", f"{row['answers']:,}")
        shown = [float(cell.replace(",", "")) if cell else None for cell in cells]
        expected = []
        for measure, decimals in zip(MEASURES, DECIMALS, strict=True):
            value = row.get(measure)
            expected.append(None if value is None else round(value, decimals))
        assert shown == expected, line
