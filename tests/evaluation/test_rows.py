from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from ap_ranker.errors import InputError
from ap_ranker.evaluation.rows import ResultRow


@dataclass(frozen=True)
class Row(ResultRow):
    data: str
    size: int
    mrr: list[float]

    @property
    def key(self) -> tuple[str, int]:
        return self.data, self.size


def render(rows: list[Row]) -> str:
    return "".join(f"{row}\n" for row in rows)


def test_a_row_takes_the_place_of_its_predecessor(tmp_path: Path) -> None:
    rows = [Row("b", 5, [0.5]), Row("a", 50, [0.6]), Row("a", 9, [0.7]), Row("b", 5, [0.8, 0.9])]
    assert Row.read(tmp_path / "results.json") == []
    for row in rows:
        row.add(tmp_path, render)
    expected = [rows[2], rows[1], rows[3]]  # by data and size, the first one replaced
    assert Row.read(tmp_path / "results.json") == expected
    assert (tmp_path / "results.md").read_text() == render(expected)
    content = (tmp_path / "results.json").read_text()
    assert content == json.dumps([asdict(row) for row in expected], indent=1, sort_keys=True) + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "results.md"]


@pytest.mark.parametrize("other", ["[1]", "{", '[{"data": "a"}]', '{"data": "a"}', "3"])
def test_another_file_is_left_alone(other: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(other)
    with pytest.raises(InputError, match=r"results\.json: expected the list of rows"):
        Row("a", 1, []).add(tmp_path, render)
    assert (tmp_path / "results.json").read_text() == other
