"""A plugin of pytest: hypothesis tries always the same few examples, and makes none of those that fail smaller.

That takes minutes, and a mutant is killed by the first one.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)  # after conftest.py, which has its own settings
def pytest_configure() -> None:
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", max_examples=40, deadline=None, derandomize=True, database=None, phases=phases)
    settings.load_profile("mutants")
