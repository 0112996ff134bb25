"""JAX on the same machine: bm25s would start it, which fails where another process has the GPU's memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

SEARCH = "from ap_ranker.ranking.bm25 import BM25; print(BM25(['a red bike', 'a parcel']).scores('bike').argmax())"


@pytest.mark.parametrize("loaded", [False, True])
def test_jax_stays_as_it_is(loaded: bool, tmp_path: Path) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").touch()
    (tmp_path / "jax" / "lax.py").write_text("def top_k(*_):\n    raise RuntimeError('out of memory')\n")
    before = "import sys, jax.lax; jax.own = 7; " if loaded else "import sys; "
    after = "; print(sys.modules['jax'].own)" if loaded else "; print('jax' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ended = subprocess.run(
        [sys.executable, "-c", before + SEARCH + after], env=env, capture_output=True, text=True, check=False
    )
    assert (ended.stdout.split(), ended.stderr) == (["0", "7" if loaded else "False"], "")
