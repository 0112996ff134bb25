"""Questions about other matters: what they score on a FAQ is what a score means nothing by (`priors.py`)."""

from __future__ import annotations

from pathlib import Path

RANDOM_QUESTIONS = tuple(Path(__file__).with_name("random_questions.txt").read_text(encoding="utf-8").splitlines())
"""Letters at random, and questions in several languages that hardly any FAQ answers."""
