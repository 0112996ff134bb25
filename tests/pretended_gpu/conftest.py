from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from pretended_cuda import pretended_gpu


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    """A pretended GPU for every test here, where there is no real one, which tests/gpu is for."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pretended_gpu():
        yield
