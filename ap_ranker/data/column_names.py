"""What people call the columns of a table, in their languages: the names of `column_names.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from ap_ranker.text.normal_form import normal_form


@lru_cache(maxsize=2**16)  # each name is compared with those of all languages
def plain(name: str) -> str:
    """A column's name as it is compared: without upper case and marks around it."""
    folded = normal_form("NFKC", name).casefold()
    return " ".join(folded.strip(" \t\r\n:*?.#\"'“”„«»\u200b\u200e\u200f\u2060\ufeff").split())


_NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

PAIRS: list[list[list[str]]] = [[[*map(plain, words)] for words in pair] for pair in _NAMES["pairs"]]
"""Names of the columns of questions and answers; a table has one of each side, as a name alone may mean anything."""


def find_pair(names: Iterable[str]) -> list[int]:
    """The places of a column of questions and of one of answers, by their names; empty if there are none."""
    known = [*map(plain, names)]
    places = ([next((i for i, name in enumerate(known) if name in words), -1) for words in pair] for pair in PAIRS)
    return next((pair for pair in places if min(pair) >= 0), [])


ALONE = frozenset(name for questions, answers in PAIRS for name in (*questions[:2], *answers))
"""Those that are no title where they stand alone, as "FAQ" is."""

CATEGORIES = frozenset(map(plain, _NAMES["categories"]))
"""Names of a column whose values group the answers."""

OF_FORMS = frozenset(map(plain, _NAMES["of_forms"]))
"""Names of columns that Google Forms adds to what was asked."""
