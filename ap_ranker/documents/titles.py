"""Training pairs without users' questions: titles and stored questions, each with the text that it stands over."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ap_ranker.data.faq import Entry
from ap_ranker.documents import read_entries
from ap_ranker.errors import InputError
from ap_ranker.text.keys import normalized

MOST = 10
"""Maximum number of different texts of a title: one over more of them says little about each."""


@dataclass(frozen=True)
class TitlePairs:
    """Pairs to train with.

    Attributes:
        pairs: each title or stored question, and a text that it stands over.
        too_general: number of titles left out because they stand over more than `MOST` texts.
    """

    pairs: list[tuple[str, str]]
    too_general: int


def title_pairs(path: Path, columns: tuple[str, str] | None = None) -> TitlePairs:
    """Pair each title path and stored question with its text, which does not contain it.

    Args:
        path: a FAQ, a document or a folder.
        columns: the names of a table's columns of questions and answers; by default they are recognized.

    Raises:
        InputError: nothing can be read, or nothing has a title.
    """
    texts: defaultdict[str, dict[str, str]] = defaultdict(dict)  # by the normalized title: text -> title
    for entry in read_entries(path, columns):
        for title in _titles(entry):
            texts[normalized(title)].setdefault(entry.answer, title)
    pairs = [(title, text) for each in texts.values() if len(each) <= MOST for text, title in each.items()]
    if not pairs:
        raise InputError(f"{path}: expected texts with titles or stored questions to train with, found none.")
    return TitlePairs(pairs, sum(len(each) > MOST for each in texts.values()))


def _titles(entry: Entry) -> list[str]:
    """Questions as they are, of a passage without one its title path as words; not those that its text repeats."""
    asked = [entry.question, *entry.wordings] if entry.question else [entry.title.replace(" > ", " ")]
    answer = normalized(entry.answer)
    return [text for text in asked if text and normalized(text) not in answer]
