"""Which questions a checkpoint has learnt from: an evaluation must not take them for new ones.

A file beside the weights holds 32 bits of the SHA-256 of each question. So few bits do not give a question away: they
only tell that a text is probably one of them. A new question is taken for one of N with probability N / 2**32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from ap_ranker.errors import InputError
from ap_ranker.text.keys import question_key

SEEN = "trained_questions.txt"
"""The name of the file in the checkpoint's folder; it is not pushed to the hub."""

_DIGITS = 8


def seen_lines(questions: Iterable[str]) -> str:
    """The content of the file for these questions: a hash a line, sorted so that their order is unknown."""
    return "".join(f"{each}\n" for each in sorted(set(map(_hash, questions))))


def find_trained(folder: Path, questions: Sequence[str]) -> list[bool] | None:
    """Whether a checkpoint has learnt from each question; `None` without such a file, as one of the hub."""
    path = folder / SEEN
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    if not re.fullmatch(f"([0-9a-f]{{{_DIGITS}}}\n)*", text):
        raise InputError(f"{path}: expected {_DIGITS} hexadecimal digits a line, found others. Delete the file.")
    seen = set(text.split())
    return [_hash(question) in seen for question in questions]


def _hash(question: str) -> str:
    return sha256(question_key(question).encode("utf-8", "replace")).hexdigest()[:_DIGITS]
