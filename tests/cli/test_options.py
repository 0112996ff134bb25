from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import run
from refusals import refused

from ap_ranker.cli.options import whole_numbers


def test_numbers_keep_their_order_and_stand_once() -> None:
    assert whole_numbers("--seeds", "3, 1,20,3") == [3, 1, 20]


@pytest.mark.parametrize("text", ["", "1,", "1,x", "2.5", "1,0", "-3"])
def test_other_things_are_refused(text: str) -> None:
    with refused(f"--seeds … '{text}'"):
        whole_numbers("--seeds", text)


def test_the_version(tmp_path: Path) -> None:
    ended = run("--version", folder=tmp_path)
    assert ended.code == 0
    assert re.fullmatch(r"ap-ranker \d+\.\d+\.\d+\S*\n", ended.output)
