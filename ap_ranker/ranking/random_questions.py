"""Questions about other matters: what they score on a FAQ is what a score means nothing by (`priors.py`)."""

from __future__ import annotations

from pathlib import Path

_QUESTIONS = Path(__file__).with_name("random_questions.txt")
RANDOM_QUESTIONS = tuple(_QUESTIONS.read_text(encoding="utf-8").splitlines())
"""Letters at random, and questions in several languages that hardly any FAQ answers."""
