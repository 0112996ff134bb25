"""The page of the results and its plots show what was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from types import ModuleType

import matplotlib
import pytest
from conftest import ROOT, imported
from page_tables import by_name, rows
from pydantic import TypeAdapter

from benchmarks.latency import Latency, Times
from benchmarks.peers import CROSS_ENCODER, CROSS_ENCODER_LIMITED
from benchmarks.report import Benchmark, tables

PATH = ROOT / "docs" / "results.md"
PAGE = PATH.read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def plots() -> Iterator[ModuleType]:
    with imported(ROOT / "docs" / "plots.py") as module:
        yield module


def section(heading: str) -> dict[str, list[str]]:
    """The cells of a section's tables by the first one of their row."""
    return by_name(rows(PATH, heading)[2:])


def numbers(cells: Sequence[str]) -> list[float]:
    return [float(re.sub(r"[^\d.]", "", cell)) for cell in cells if cell]


def test_how_many_pairs_are_enough() -> None:
    measured = json.loads((EXAMPLES / "small_data" / "results.json").read_text())
    methods = {
        "qa-cnn with GloVe": "glove",
        "ap-transformer, nothing trained": "transformer-untrained",
        "ap-transformer, trained": "transformer-fine-tuned",
    }
    table = section("How many pairs are enough")
    for name, method in methods.items():
        own = [row for row in measured if row["data"] == "faq" and row["method"] == method]
        own.sort(key=lambda row: row["size"])
        assert numbers(table[name]) == [round(fmean(row["model"]["MRR"]), 3) for row in own]


def test_the_public_faqs() -> None:
    table = (EXAMPLES / "every_step" / "README.md").read_text(encoding="utf-8").split("## Results")[1]
    ours = section("Public FAQs that nobody here wrote")
    assert len(ours) == 5
    for size, (faqs, bm25, peer, wordings, served) in ours.items():
        (line,) = re.findall(rf"^\| {size} \| {faqs} \|.*$", table, re.MULTILINE)
        _, _, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        untrained, with_wordings = cells[2:4]
        expected = untrained if with_wordings == "–" else with_wordings
        assert [bm25, peer, wordings, served] == [cells[0], cells[1], expected, cells[4]]


def test_the_precision_of_what_is_asserted() -> None:
    text = (EXAMPLES / "every_step" / "results.md").read_text(encoding="utf-8")
    lines = text.split("### Precision")[1].split("### ")[0].splitlines()
    names = ("nothing trained", "with wordings", "trained", "calibrated")
    for name, state in zip(names, ("untrained", "wordings", "trained", "calibrated"), strict=True):
        (line,) = [line for line in lines if line.startswith(f"| {state} |")]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        expected = [f"{low[1:]} ± {error[1:]}" for low, error in (cells[1:3], cells[3:5])]
        assert section("When it says none")[name] == expected


def test_the_plots_are_those_of_the_results(plots: ModuleType, tmp_path: Path) -> None:
    """python docs/plots.py"""
    plots.plot_public_faqs(tmp_path)
    plots.plot_few_pairs(tmp_path)
    drawn = sorted(tmp_path.iterdir())
    assert len(drawn) == 2
    for path in drawn:
        committed = (plots.IMAGES / path.name).read_text(encoding="utf-8")
        assert path.name in PAGE
        if f"Matplotlib v{matplotlib.__version__}," in committed:
            assert path.read_text(encoding="utf-8") == committed, "python docs/plots.py"


def test_the_lines_are_means(plots: ModuleType) -> None:
    lines, number = plots.public_faqs()
    assert number == 5
    served, wordings, peer, bm25 = (line.points for line in lines)
    # The page's last row has the same five FAQs.
    shown = [cell.split(" / ")[1] for cell in section("Public FAQs that nobody here wrote")["300"][1:]]
    assert [f"{line[300]:.3f}" for line in (bm25, peer, wordings, served)] == shown
    assert bm25 == dict.fromkeys((0, 10, 30, 100, 300), bm25[0])
    assert [len(line.points) for line in plots.few_pairs("covid")] == [3] * 6


@pytest.fixture
def benchmark_numbers(plots: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file as `python -m benchmarks --json` writes it: a system's n-th time is n times its place in milliseconds."""
    rows = []
    for number, candidates in enumerate((10, 100, 1000), start=1):
        for place, name in enumerate([*plots.SYSTEMS, "qa-bilstm"], start=1):
            warm, cold = (Times(factor * number * place, 99_999.0) for factor in (1.0, 50.0))
            rows.append(Latency(name, candidates, 20, cold, warm, 1.0, None, None))
    benchmark = Benchmark("data", 1000, 20, "a machine", None, rows, [], "ap-transformer", [], [], [])
    monkeypatch.setattr(plots, "BENCHMARK", tmp_path / "results.json")
    (tmp_path / "results.json").write_text(benchmark.to_json())


@pytest.mark.usefixtures("benchmark_numbers")
def test_time_against_candidates(plots: ModuleType, tmp_path: Path) -> None:
    warm, cold = ({line.name: line.points for line in plots.times(state)} for state in ("warm", "cold"))
    assert warm["cross-encoder"] == {10: 1.0, 100: 2.0, 1000: 3.0}
    assert cold["BM25"] == {10: 300.0, 100: 600.0, 1000: 900.0}
    plots.plot_times(tmp_path)
    drawn = (tmp_path / "time_by_candidates.svg").read_text(encoding="utf-8")
    for text in (*plots.SYSTEMS, "1,000", "Warm: answers cached", "Cold: nothing cached"):
        assert f">{text}<" in drawn, text
    assert "qa-bilstm" not in drawn


def test_a_plot_without_its_numbers_names_the_command(
    plots: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "ROOT", tmp_path)
    monkeypatch.setattr(plots, "BENCHMARK", tmp_path / "results.json")
    with pytest.raises(SystemExit, match=r"python -m benchmarks insuranceqa .*--json results\.json"):
        plots.plot_times(tmp_path)


def test_the_plot_of_times_is_that_of_the_benchmark(plots: ModuleType, tmp_path: Path) -> None:
    """python docs/plots.py; the table beside it shows the same numbers."""
    plots.plot_times(tmp_path)
    committed = (plots.IMAGES / "time_by_candidates.svg").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert "images/time_by_candidates.svg" in page
    if f"Matplotlib v{matplotlib.__version__}," in committed:
        assert (tmp_path / "time_by_candidates.svg").read_text(encoding="utf-8") == committed, "python docs/plots.py"
    for line in plots.times("warm"):
        (shown,) = re.findall(rf"^\| \W*{line.name}\b[^|]*\| ([\d.,]+) ms \|", page, re.MULTILINE)
        assert float(shown.replace(",", "")) == pytest.approx(line.points[100], rel=0.02)


def test_the_tables_of_speed_are_those_of_the_benchmark() -> None:
    """All tables of the archive's page; on the front pages each number of the table, and of the sentences below it."""
    benchmark = TypeAdapter(Benchmark).validate_json((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    archive = (ROOT / "docs" / "archive" / "benchmark.md").read_text(encoding="utf-8")
    for table in tables(benchmark):
        assert table.markdown().removeprefix("#") in archive
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    measured = {(row.system, row.candidates): row for row in benchmark.latency}
    milliseconds = r"\| ([\d.,]+) ms "
    row_of_page = rf"^\| \W*([\w-]+(?: interaction)?)[^|]*{milliseconds}{milliseconds}\| ([\d,]+) \|$"
    shown = re.findall(row_of_page, page, re.MULTILINE)
    assert len(shown) == 6
    for name, warm, cold, ratio in shown:
        row = measured[name, 100]
        for text, value in ((warm, row.warm.p50), (cold, row.cold.p50), (ratio, row.times_faster[CROSS_ENCODER].warm)):
            assert_rounded(text, value)
    ours = {row.model: row for row in benchmark.pipeline}["ap-transformer"]
    equal_length = measured["ap-transformer", 100].times_faster[CROSS_ENCODER_LIMITED].warm
    said = {
        page: {
            r"The whole search takes ([\d.]+) ms": ours.one_component.p50,
            r"in `FAQSearch`, and ([\d.]+) ms": ours.pipeline.p50,
            r"the bi-encoder is much faster: ([\d.]+) ms": measured["bi-encoder", 1000].warm.p50,
            r"where `ap-transformer` takes ([\d.]+) ms": measured["ap-transformer", 1000].warm.p50,
            r"At 200 tokens the cross-encoder takes ([\d.]+) ms": measured[CROSS_ENCODER_LIMITED, 100].warm.p50,
            r"\| read 100 answers .*\| ([\d.]+) ms \(two cores": measured["ap-transformer", 100].cold.p50,
            r"\| rank 100 cached answers .*\| ([\d.]+) ms \(two cores": measured["ap-transformer", 100].warm.p50,
            r"A bi-encoder keeps ([\d,]+) bytes": measured["bi-encoder", 100].bytes_per_answer,
        },
        (ROOT / "README.md").read_text(encoding="utf-8"): {
            r"It is (\d+) times faster than a cross-encoder": equal_length,
            r"at equal length: ([\d.]+) ms for 100": measured["ap-transformer", 100].warm.p50,
        },
    }
    for text, claims in said.items():
        for pattern, value in claims.items():
            (number,) = re.findall(pattern, text)
            assert value is not None
            assert_rounded(number, value)


def assert_rounded(text: str, value: float) -> None:
    """A number on a page is the measured one, with as many digits as it shows."""
    digits = len(text.partition(".")[2])
    assert float(text.replace(",", "")) == round(value, digits)
