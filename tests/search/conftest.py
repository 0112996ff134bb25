"""The FAQ search of tests/searches.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from searches import filled, write_pipeline

from ap_ranker.search.declared_pipeline import DeclaredPipeline


@pytest.fixture
def search(tmp_path: Path, checkpoint: Path) -> DeclaredPipeline:
    return filled(write_pipeline(tmp_path, checkpoint))
