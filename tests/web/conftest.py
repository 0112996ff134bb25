"""The FAQ search of tests/searches.py, a model without attention, and a browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import write_checkpoint
from searches import filled, write_pipeline

pytest.importorskip("hypercorn", reason="the extra serve is not installed")

from ap_ranker.search.declared_pipeline import DeclaredPipeline


@pytest.fixture
def search(tmp_path: Path, checkpoint: Path) -> DeclaredPipeline:
    return filled(write_pipeline(tmp_path, checkpoint))


@pytest.fixture(scope="session")
def blind_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model without attention."""
    return write_checkpoint("qa-cnn", tmp_path_factory.mktemp("blind") / "ranker")


@pytest.fixture(scope="session")
def browser_path() -> str:
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no browser here (Debian: apt-get install chromium)")
    return path
