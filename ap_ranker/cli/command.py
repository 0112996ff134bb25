"""The command as the user gave it."""

from __future__ import annotations

import shlex
import sys


def command_line() -> str:
    """For a shell. One that `torchrun` started learns what this one process would, so it is left out."""
    return shlex.join(["ap-ranker", *sys.argv[1:]])
