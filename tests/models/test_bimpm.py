from __future__ import annotations

import pytest
import torch
from conftest import make_model

from ap_ranker.models import bimpm
from ap_ranker.text.tokenizer import TokenBatch

QUESTIONS = TokenBatch.from_lists([[3, 5, 2, 9], [7]])
ANSWERS = TokenBatch.from_lists([[2, 3, 11, 5, 9, 12, 4], [6, 1], [10]])


def test_long_texts_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pairs at once, computed again for the gradients: the same scores and gradients as all at once."""
    results = []
    for most in (bimpm.MOST_COSINES, 1):
        monkeypatch.setattr(bimpm, "MOST_COSINES", most)
        model = make_model("bimpm", [f"w{i}" for i in range(13)]).double()
        scores = model(QUESTIONS, ANSWERS)
        scores.sum().backward()
        results.append((scores, [parameter.grad for parameter in model.parameters()]))
    (whole, gradients), (parts, others) = results
    assert torch.allclose(whole, parts, rtol=0, atol=1e-12)
    for gradient, other in zip(gradients, others, strict=True):
        assert gradient is not None and other is not None
        assert torch.allclose(gradient, other, rtol=0, atol=1e-12)
