"""A browser for tests of pages: the one that is installed, or the test is skipped."""

from __future__ import annotations

import shutil

import pytest


def find_browser() -> str:
    """The path of an installed one."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no browser here (Debian: apt-get install chromium)")
    return path
