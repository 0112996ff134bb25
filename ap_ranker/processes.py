"""Which of several processes this one is: `torchrun` says so in the environment."""

from __future__ import annotations

import os


def process_number() -> int:
    """0 for the only one, or for the first, which writes files and prints."""
    return int(os.environ.get("RANK", "0"))


def process_count() -> int:
    """How many share the work."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def number_on_machine() -> int | None:
    """The number of this process among those of its machine; `None` without `torchrun`."""
    number = os.environ.get("LOCAL_RANK")
    return None if number is None else int(number)
