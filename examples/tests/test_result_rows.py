from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from refusals import refused
from result_rows import ResultRow, at_hand

from ap_ranker.training.config import TrainingConfig


@dataclass(frozen=True)
class Row(ResultRow):
    data: str
    size: int
    mrr: dict[str, list[float]]

    @property
    def key(self) -> tuple[str, int]:
        return self.data, self.size


def measured(data: str, size: int, *mrr: float, seeds: list[int] | None = None, settings: str = "{}") -> Row:
    return Row(data, size, {"test": list(mrr)}, seeds=seeds or list(range(1, len(mrr) + 1)), settings=settings)


def render(rows: list[Row]) -> str:
    return "".join(f"{row}\n" for row in rows)


def test_a_row_takes_the_place_of_its_predecessor(tmp_path: Path) -> None:
    rows = [measured("b", 5, 0.5), measured("a", 50, 0.6), measured("a", 9, 0.7), measured("b", 5, 0.8, 0.9)]
    assert Row.read(tmp_path / "results.json") == []
    for row in rows:
        assert row.add(tmp_path, render) == row
    expected = [rows[2], rows[1], rows[3]]  # by data and size, the first one replaced
    assert Row.read(tmp_path / "results.json") == expected
    assert (tmp_path / "results.md").read_text() == render(expected)
    content = (tmp_path / "results.json").read_text()
    assert content == json.dumps([asdict(row) for row in expected], indent=1, sort_keys=True) + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "results.md"]


def test_what_was_measured_alike_grows_by_its_seeds(tmp_path: Path) -> None:
    measured("a", 5, 0.3, 0.1, seeds=[3, 1]).add(tmp_path, render)
    kept = measured("a", 9, 0.9).add(tmp_path, render)
    joined = measured("a", 5, 0.2, 0.33, seeds=[2, 3]).add(tmp_path, render)
    assert joined == measured("a", 5, 0.1, 0.2, 0.33), "the newer value of seed 3, in the order of the seeds"
    assert Row.read(tmp_path / "results.json") == [joined, kept]
    changed = measured("a", 5, 0.5, seeds=[7], settings='{"epochs": 3}')
    assert changed.add(tmp_path, render) == changed, "of other settings nothing is kept"
    assert Row.read(tmp_path / "results.json") == [changed, kept]


@pytest.mark.parametrize("other", ["[1]", "{", '[{"data": "a"}]', '{"data": "a"}', "3"])
def test_another_file_is_left_alone(other: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(other)
    with refused("results.json"):
        measured("a", 1, 0.5).add(tmp_path, render)
    assert (tmp_path / "results.json").read_text() == other


def test_encoders_at_hand_are_not_asked_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainingConfig("ap-transformer", {"encoder": "someone/large", "size": 4})
    monkeypatch.delenv("AP_ENCODERS", raising=False)
    assert at_hand(config) == config
    monkeypatch.setenv("AP_ENCODERS", str(tmp_path))
    assert at_hand(config) == config
    (tmp_path / "large").mkdir()
    assert dict(at_hand(config).options) == {"encoder": str(tmp_path / "large"), "size": 4}
    assert at_hand(TrainingConfig("ap-cnn")) == TrainingConfig("ap-cnn")
