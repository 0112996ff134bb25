"""The pieces that several models pool with."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from ap_ranker.models.operations import row_and_column_max


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 4), st.integers(0, 10**6))
def test_greatest_of_rows_and_columns(n: int, rows: int, columns: int, seed: int) -> None:
    """Values and gradient as torch's own `amax` gives them, where nothing is tied."""
    torch.manual_seed(seed)
    scores = torch.randn(n, rows, columns, 2, dtype=torch.double, requires_grad=True)
    weights = torch.randn(n, columns, 2, dtype=torch.double), torch.randn(n, rows, 2, dtype=torch.double)
    gradients = []
    for found in (row_and_column_max(scores, 1, 2), (scores.amax(dim=1), scores.amax(dim=2))):
        loss = sum((weight * value).sum() for weight, value in zip(weights, found, strict=True))
        gradients.append(torch.autograd.grad(loss, scores)[0])
        assert torch.equal(found[0], scores.amax(dim=1))
        assert torch.equal(found[1], scores.amax(dim=2))
    assert torch.equal(*gradients)


def test_of_equal_scores_one_gets_the_gradient() -> None:
    scores = torch.zeros(1, 3, 4, 1, requires_grad=True)
    along_rows, along_columns = row_and_column_max(scores, 1, 2)
    (along_rows.sum() + along_columns.sum()).backward()
    assert scores.grad is not None
    assert scores.grad.sum() == 4 + 3
