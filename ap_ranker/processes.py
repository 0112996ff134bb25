"""Which of several processes this one is: `torchrun` says so in the environment."""

from __future__ import annotations

import os


def process_number() -> int:
    """0 for the only one, or for the first."""
    return int(os.environ.get("RANK", "0"))


def process_count() -> int:
    """How many share the work."""
    return int(os.environ.get("WORLD_SIZE", "1"))
