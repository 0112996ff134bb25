from __future__ import annotations

import pytest
from refusals import refused

from benchmarks.number_lists import whole_numbers


def test_numbers_keep_their_order_and_stand_once() -> None:
    assert whole_numbers("--seeds", "3, 1,20,3") == [3, 1, 20]


@pytest.mark.parametrize("text", ["", "1,", "1,x", "2.5", "1,0", "-3"])
def test_other_things_are_refused(text: str) -> None:
    with refused(f"--seeds … '{text}'"):
        whole_numbers("--seeds", text)
