from __future__ import annotations

import re
from pathlib import Path

from command_line import run


def test_the_version(tmp_path: Path) -> None:
    ended = run("--version", folder=tmp_path)
    assert ended.code == 0
    assert re.fullmatch(r"ap-ranker \d+\.\d+\.\d+\S*\n", ended.output)
