"""How training tells how far it is with what takes minutes before the first epoch."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Callback that takes the task in words, the number of texts done and their total."""
