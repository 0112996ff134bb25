from __future__ import annotations

import numpy as np
import pytest

from ap_ranker.evaluation.markdown import markdown_table, spread


def test_spread_is_mean_and_sample_deviation() -> None:
    values = [0.71, 0.735, 0.702]
    assert spread(values) == f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"
    assert spread([0.5, 0.7]) == "0.600 ± 0.141"
    assert spread([0.71]) == "0.710"


@pytest.mark.parametrize("rows", [[], [["a", "1"], ["b", ""]]])
def test_a_table_by_hand(rows: list[list[str]]) -> None:
    expected = ["| model | MRR |", "| --- | ---: |", "| a | 1 |", "| b |  |"]
    assert markdown_table(["model", "MRR"], rows).split("\n") == expected[: 2 + len(rows)]
